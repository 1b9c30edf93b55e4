"""Claims of the Hopper attention kernels: every head_dim that has a tile, full and causal, and every step of the ladder."""

from collections.abc import Iterator

import torch

from course_lib.attention.hopper_kernel import hopper_forward_kernel
from course_lib.attention.hopper_ladder import EVERY_STEP, STEPS, Ladder
from course_lib.attention.hopper_launch import EIGHT_TILES, Work, launch_arguments, tile_for
from course_lib.attention.hopper_plain import hopper_plain_kernel
from course_lib.interpreter.compiled import Launch

PROCESSORS = 132


def hopper(
    head_dim: int, *, causal: bool, steps: Ladder = EVERY_STEP, dtype: torch.dtype = torch.bfloat16, with_lse: bool = True,
    listed: bool | None = None, packed: bool = False, drawn: bool = False,
) -> Launch:  # fmt: skip
    """A launch with 8 query heads on 2 KV heads, 2 x 4111 tokens. listed: with a schedule; else as the wrapper has it."""
    q, kv = (torch.empty(2, 4111, heads, head_dim, dtype=dtype, device="meta") for heads in (8, 2))
    lse = torch.empty(2, 8, 4111, dtype=torch.float32, device="meta") if with_lse else None
    listed = steps.balanced and causal and not packed if listed is None else listed
    table = torch.empty(6, PROCESSORS, dtype=torch.int32, device="meta") if listed else None
    table = torch.empty(1, dtype=torch.int32, device="meta") if drawn else table
    blocks, tile = PROCESSORS if steps.persistent else 16 * 33, tile_for(head_dim, steps)
    work = Work(q, kv, kv, q, lse, causal, head_dim**-0.5, 4111, 4111)
    if packed:
        cu = torch.empty(3, dtype=torch.int32, device="meta")
        work = Work(q[:1], kv[:1], kv[:1], q[:1], lse, causal, head_dim**-0.5, 4111, 4111, (cu, cu))
    args, options = launch_arguments(work, table, blocks, steps, tile)
    return Launch(hopper_forward_kernel if steps.specialised else hopper_plain_kernel, args, options, ("sm_90",))


def hopper_fp8(*, causal: bool, listed: bool = False) -> Launch:
    """The same heads and tokens in e4m3."""
    q, k = (torch.empty(2, 4111, heads, 128, dtype=torch.float8_e4m3fn, device="meta") for heads in (8, 2))
    v = torch.empty(2, 2, 128, 4112, dtype=torch.float8_e4m3fn, device="meta")
    out, lse = torch.empty(q.shape, dtype=torch.bfloat16, device="meta"), torch.empty(2, 8, 4111, device="meta")
    scales = tuple(torch.empty(2, heads, device="meta") for heads in (8, 2, 2))
    work = Work(q, k, v, out, lse, causal, 128**-0.5, 4111, 4111, None, scales)
    table = torch.empty(6, PROCESSORS, dtype=torch.int32, device="meta") if listed else None
    args, options = launch_arguments(work, table, PROCESSORS, EVERY_STEP, EIGHT_TILES[128])
    return Launch(hopper_forward_kernel, args, options, ("sm_90",))


def launches() -> Iterator[tuple[str, Launch]]:
    """One of each kernel: a compilation takes many seconds. All others: tests/attention/test_hopper_compiles.py."""
    yield "hopper 64 packed", hopper(64, causal=False, packed=True, drawn=True)
    yield "hopper 128 plain causal", hopper(128, causal=True, steps=Ladder.up_to("plain"))
    yield "hopper fp8", hopper_fp8(causal=False)


def every_variant() -> Iterator[tuple[str, Launch]]:
    yield "64 fp16", hopper(64, causal=False, dtype=torch.float16)
    yield "64 causal", hopper(64, causal=True)
    for head_dim in (64, 128, 256):
        yield f"{head_dim} causal packed", hopper(head_dim, causal=True, packed=True, drawn=True)
    yield "80 causal, no lse", hopper(80, causal=True, with_lse=False)
    yield "128 fp16 causal", hopper(128, causal=True, dtype=torch.float16)
    yield "256", hopper(256, causal=False)
    yield "256 causal", hopper(256, causal=True)
    for causal in (False, True):
        for step in STEPS:
            if step != "persistent":  # changes the launch alone
                yield f"128 up to {step}{' causal' * causal}", hopper(128, causal=causal, steps=Ladder.up_to(step))
    yield "fp8", hopper_fp8(causal=False)
    yield "fp8 causal", hopper_fp8(causal=True, listed=True)
    yield "64 plain", hopper(64, causal=False, steps=Ladder.up_to("plain"))
    yield "256 plain causal", hopper(256, causal=True, steps=Ladder.up_to("plain"))
