"""Cases and contenders of hopper_ladder.py, and kernels compiled and tried ahead by many processes at once."""

import itertools
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from course_lib.attention import attention_reference, hopper_launch
from course_lib.attention.hopper_forward import hopper_attention, hopper_attention_packed
from course_lib.attention.hopper_ladder import EVERY_STEP, STEPS, Ladder
from course_lib.attention.hopper_launch import HopperTile

from ._flash_setup import Case, contenders

PROCESSES, SECONDS = 14, 160
OTHER_STEPS = (Ladder(pinned=False), Ladder(overlap=False, pinned=False))


@dataclass(frozen=True, slots=True)
class Variant:
    """A compilation. listed: with a schedule."""

    head_dim: int
    dtype: torch.dtype
    causal: bool
    steps: Ladder = EVERY_STEP
    listed: bool = False
    with_lse: bool = False
    packed: bool = False
    tile: HopperTile | None = None


def rungs() -> dict[str, Ladder]:
    return {step: Ladder.up_to(step) for step in STEPS}


def calls(case: Case, steps: dict[str, Ladder]) -> dict[str, Callable[[], torch.Tensor]]:
    """Calls by name: ours by step, our plain Triton kernel, and the peers that run here. A wrong one is left out, in words."""
    q, k, v = case.inputs()
    peers = contenders(case)
    peers["Triton"] = peers.pop("ours")
    right = peers["Triton"]().float()
    found: dict[str, Callable[[], torch.Tensor]] = {}
    for name, some in steps.items():

        def call(some: Ladder = some) -> torch.Tensor:
            return hopper_attention(q, k, v, causal=case.causal, steps=some)

        apart, budget = (call().float() - right).abs().max().item(), 2 * 2**-7 * v.abs().max().item()
        if apart <= budget:
            found[name] = call
        else:
            print(f"{case.words}: {name} is WRONG: it and Triton differ by {apart}, the budget is {budget}", flush=True)
    return found | peers


def errors_to_float64(case: Case) -> dict[str, float]:
    """Relative Frobenius norm of the error on the first head of the first sequence: ours, and each peer's."""
    right = attention_reference(*(x[:1, :, :1] for x in case.inputs()), causal=case.causal)[0]
    outs = {name: call()[:1, :, :1].double() for name, call in calls(case, {"Hopper": EVERY_STEP}).items()}
    return {name: ((out - right).norm() / right.norm()).item() for name, out in outs.items()}


def variants() -> list[Variant]:
    """What tests/gpu/test_hopper_forward.py and the benchmarks launch, those of the ladder first."""
    from .hopper_variants import OTHER_TILES

    bf16, fp16, both = torch.bfloat16, torch.float16, (False, True)
    made = [Variant(128, bf16, causal, steps, causal and steps.balanced) for causal in both for steps in rungs().values()]
    made += [Variant(d, bf16, causal, listed=causal) for d in (64, 256) for causal in both]
    made += [
        Variant(d, bf16, causal, listed=causal, tile=tile)
        for d, tiles in OTHER_TILES.items() for tile in tiles.values() for causal in both
    ]  # fmt: skip
    made += [
        Variant(128, bf16, causal, steps, listed, True)
        for causal in both for steps in (*rungs().values(), *OTHER_STEPS) for listed in {False, causal and steps.balanced}
    ]  # fmt: skip
    kinds = [(128, fp16), (64, bf16), (64, fp16), (256, bf16), (256, fp16)]
    made += [
        Variant(*kind, causal, EVERY_STEP, listed, True) for kind in kinds for causal in both for listed in {False, causal}
    ]  # fmt: skip
    dealt = Ladder(persistent=False, balanced=False)
    made += [
        Variant(d, bf16, causal, steps, steps.balanced, lse, True)
        for d in (64, 128, 256) for causal in both for steps, lse in ((EVERY_STEP, False), (EVERY_STEP, True), (dealt, True))
    ]  # fmt: skip
    made += [Variant(128, fp16, False, steps, steps.balanced, True, True) for steps in (EVERY_STEP, dealt)]
    return list(dict.fromkeys(made))


def compile_ahead() -> None:
    """Fill Triton's cache, and try every variant once. A process that dies or hangs costs its share only."""
    command = [sys.executable, "-m", "benchmarks._hopper_setup"]
    children = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True) for i in range(PROCESSES)]
    deadline = time.monotonic() + SECONDS
    for share, child in enumerate(children):
        try:
            print(child.communicate(timeout=max(deadline - time.monotonic(), 1))[0], end="", flush=True)
        except subprocess.TimeoutExpired:
            child.kill()
            print(f"process {share} did not end in {SECONDS} s, after:\n{child.communicate()[0]}", flush=True)


def _try_share(share: int) -> None:
    right = 0
    for variant in itertools.islice(variants(), share, None, PROCESSES):
        wrong = _what_is_wrong(variant)
        right += not wrong
        if wrong:
            print(f"{variant}: {wrong}", flush=True)
    print(f"process {share}: {right} variants are right", flush=True)


def _what_is_wrong(one: Variant) -> str:
    """Against float64, on lengths that no tile divides. listed: as on a GPU of 3 SMs, where blocks go round several times."""
    generator = torch.Generator("cuda").manual_seed(1)
    shapes = [(2, 700, 4, one.head_dim), (2, 777, 2, one.head_dim), (2, 777, 2, one.head_dim)]
    q, k, v = (torch.randn(shape, generator=generator, device="cuda").to(one.dtype) for shape in shapes)
    right = attention_reference(q, k, v, causal=one.causal)[0]
    hopper_launch.processors_of = lambda device: 3 if one.listed else 2**20
    try:
        if one.packed:
            cu_q, cu_k = (torch.tensor([0, n, 2 * n], dtype=torch.int32, device="cuda") for n in (700, 777))
            flat = [x.flatten(0, 1) for x in (q, k, v)]
            options = {"max_q": 700, "max_k": 777, "causal": one.causal, "return_lse": one.with_lse, "steps": one.steps}
            found = hopper_attention_packed(*flat, cu_q, cu_k, **options)
        else:
            found = hopper_attention(q, k, v, causal=one.causal, steps=one.steps, return_lse=one.with_lse, tile=one.tile)
        out = found[0] if isinstance(found, tuple) else found
        apart = (out.double().view_as(right) - right).abs().max().item()
    except Exception as error:  # a variant that fails is a line, not the end
        return f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    budget = 2**-7 * v.abs().max().item()
    return "" if apart <= budget else f"WRONG: {apart} from float64, the budget is {budget}"


if __name__ == "__main__":
    _try_share(int(sys.argv[1]))
