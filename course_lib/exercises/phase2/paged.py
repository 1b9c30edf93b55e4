"""Exercise 2.8, paged write and paged decode: into the slots and nowhere else, through the table and never behind its end.

Cases and the oracle are in paged_cases.py, bounds of traffic in paged_traffic.py, the slips that a hint names in paged_slips.py.
"""

from typing import Any

from ...grading.criteria import Case, Correct, Counted, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from ..kernel_criteria import CompiledWide, confirmed
from .attention_rounding import tolerance
from .paged_cases import (
    apart_cases,
    decode_compile_cases,
    decode_traffic_cases,
    device_cases,
    expected,
    head_cases,
    length_cases,
    step_cases,
    table_cases,
    write_cases,
    write_compile_cases,
    write_traffic_cases,
    written,
)
from .paged_slips import decode_slip, write_slip
from .paged_traffic import decode_bounds, decode_hint, write_bounds, write_hint

SPILLS = 8  # a compiler puts one or two aside even where registers are free
BAR = 0.5  # plain right answers reach 0.60 to 0.61 on an H200, with tl.dot 0.75, a gather first 0.28: timed_bars.json
ZERO_AT = 0.35  # a gather before the attention moves three times the bytes
GOAL = 0.7
CACHE = ("k_blocks", "v_blocks")


def _check_decode(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import compare_tensor

    k, v = written(case) if "k" in case else (case["k_blocks"], case["v_blocks"])
    want, within = expected(case), tolerance(case["q"], k, v)
    mistake = compare_tensor(output, want.to(case["q"].dtype), rtol=within[0], atol=within[1])
    return mistake and Mistake(f"out: {mistake.reason}", decode_slip(case, output, want, within) or mistake.hint)


def _check_write(case: Case, output: Any) -> Mistake | None:
    import torch

    from ..runners.phase2_paged import laid_out

    memory = output.get("memory") if isinstance(output, dict) else None
    after_k, after_v = written(case)
    k, v, wanted = laid_out({**case, "k_blocks": after_k, "v_blocks": after_v})
    found = isinstance(memory, list) and len(memory) == len(wanted) and all(
        isinstance(got, torch.Tensor) and (got.shape, got.dtype) == (want.shape, want.dtype)
        for got, want in zip(memory, wanted, strict=True)
    )  # fmt: skip
    if not found:
        return Mistake("the memory of the cache did not come back as it should")
    got_k, got_v = _views(memory, wanted, k), _views(memory, wanted, v)
    for name, got, want in (("k_blocks", got_k, k), ("v_blocks", got_v, v)):
        wrong = (got.contiguous().view(torch.int16) != want.contiguous().view(torch.int16)).nonzero()
        if len(wrong):
            first = [int(i) for i in wrong[0]]
            numbers = f"holds {got[tuple(first)].item():.6g}, expected {want[tuple(first)].item():.6g}"
            where = f"{len(wrong)} elements of {name} are wrong, first at [block, place, head, dim] {first}: {numbers}"
            return Mistake(where, write_slip(case, got_k, got_v))
    beside = sum(int((~_equal_bits(got, want)).sum()) for got, want in zip(memory, wanted, strict=True))
    if beside:
        return Mistake(f"{beside} elements beside the cache were overwritten", write_slip(case, got_k, got_v))
    return None


def _views(memory: list[Any], wanted: list[Any], view: Any) -> Any:
    """What lies in `memory` where `view` lies in `wanted`."""
    at = next(i for i, one in enumerate(wanted) if one.untyped_storage().data_ptr() == view.untyped_storage().data_ptr())
    return memory[at].contiguous().as_strided(view.shape, view.stride(), view.storage_offset())


def _equal_bits(a: Any, b: Any) -> Any:
    import torch

    return a.contiguous().view(torch.int16) == b.contiguous().view(torch.int16)


def _write(kind: Any, name: str, claim: str, points: float, cases: Any, **more: Any) -> Any:
    return kind(
        name=name, claim=claim, points=points, cases=cases, check=_check_write, run="paged_write", launches=True,
        may_alias=True, may_change=CACHE, **more,
    )  # fmt: skip


def _decode(kind: Any, name: str, claim: str, points: float, cases: Any, run: str = "paged_decode", **more: Any) -> Any:
    return kind(name=name, claim=claim, points=points, cases=cases, check=_check_decode, run=run, launches=True, **more)


COMPILED = {"targets": ("sm_80", "sm_90"), "max_spills": SPILLS}
PAGED = Exercise(
    id="2.8",
    title="Paged write and paged decode",
    entry="paged_attention",
    params=("q", "k", "v", "k_blocks", "v_blocks", "slots", "block_tables", "kv_lengths"),
    returns="out, as q",
    runner="phase2_paged",
    may_import=frozenset({"math", "torch", "triton"}),
    seconds=120.0,  # the interpreter takes its time for many programs
    criteria=(
        _write(Correct, "write", "new keys and values are in their slots, and nothing else has changed", 1.5, write_cases),
        _write(
            Counted, "write traffic", "each element of k and v is moved once", 0.5, write_traffic_cases,
            bounds=write_bounds, hint=write_hint,
        ),
        _write(
            CompiledWide, "write compiled", "the write loads and stores 16 bytes for each thread at a time", 0.5,
            write_compile_cases, narrow_hint="How many neighbouring elements does each thread of a program get?", **COMPILED,
        ),
        _decode(Correct, "lengths", "any length, 0 included, blocks of 16, 32 and 64, scores of any size", 1.5, length_cases),
        _decode(Correct, "heads", "each query head reads the KV head of its group", 1.0, head_cases),
        _decode(Correct, "tables", "nothing behind a row's last block is followed, wherever the rows lie", 1.0, table_cases),
        _decode(Correct, "layouts", "K and V may lie in orders of their own", 1.0, apart_cases),
        _decode(
            Correct, "step", "what is written in a step is attended to in it", 0.5, step_cases, "paged_step", may_change=CACHE
        ),
        _decode(
            Counted, "decode traffic", "each query head reads K and V of its tokens once, and nothing of another slot", 1.0,
            decode_traffic_cases, bounds=decode_bounds, hint=decode_hint,
        ),
        _decode(
            CompiledWide, "decode compiled", "the decode fits A100 and H100, and loads 16 bytes for each thread at a time", 0.5,
            decode_compile_cases, accesses=("load",), large_hint="A smaller tile of tokens, or more warps for it?",
            narrow_hint="Which axis of a tile lies along head_dim, and how many of its elements has each thread?", **COMPILED,
        ),
        Timed(
            name="this device",
            claim="decodes nearly as fast as K and V can be read, and finds blocks beyond 2**31 elements",
            points=3.0,
            cases=device_cases,
            check=_check_decode,
            run="paged_decode",
            observe="paged_on_this_device",
            confirm=confirmed(
                wrong="out was not the attention over the tokens of the tables",
                fresh="q has",
                far="a block that begins 2**31 elements behind the first was not written to, or not read from, right",
                offset="block * stride",
            ),
            bar=BAR,
            zero_at=ZERO_AT,
            goal=GOAL,
            devices=("NVIDIA H200",),
        ),
    ),
)  # fmt: skip
