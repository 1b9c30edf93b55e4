"""Claims of the attention kernels: every padded head_dim with the tile that a device of each kind takes."""

from collections.abc import Iterator

import torch

from course_lib.attention.forward import launch_arguments
from course_lib.attention.forward_kernel import flash_forward_kernel
from course_lib.attention.one_loop_kernel import one_loop_kernel, one_loop_launch
from course_lib.attention.tiles import AMPERE, HOPPER, HOPPER_FEW_KEYS, HOPPER_POINTERS, Tile
from course_lib.interpreter.compiled import Launch


def meta(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def forward(
    head_dim: int, tile: Tile, target: str, *, causal: bool, packed: bool = False, dtype: torch.dtype = torch.bfloat16
) -> Launch:
    """A launch of the forward kernel with 8 query heads on 2 KV heads, lse asked for."""
    lead = (77,) if packed else (2, 77)
    q, kv = meta(*lead, 8, head_dim, dtype=dtype), meta(*lead, 2, head_dim, dtype=dtype)
    cu = (meta(3, dtype=torch.int32),) * 2 if packed else None
    lse = meta(8, 77, dtype=torch.float32) if packed else meta(2, 8, 77, dtype=torch.float32)
    args, options = launch_arguments(q, kv, kv, q, lse, cu, 77, 77, causal, head_dim**-0.5, tile)
    return Launch(flash_forward_kernel, args, options, (target,))


def launches() -> Iterator[tuple[str, Launch]]:
    yield "attention 64 fp16", forward(64, HOPPER[64], "sm_90", causal=False, dtype=torch.float16)
    yield "attention 64 causal packed, few keys", forward(64, HOPPER_FEW_KEYS[64], "sm_90", causal=True, packed=True)
    yield "attention 80 causal", forward(80, HOPPER[128], "sm_90", causal=True)
    yield "attention 128 causal packed", forward(128, HOPPER[128], "sm_90", causal=True, packed=True)
    yield "attention 256 packed", forward(256, HOPPER[256], "sm_90", causal=False, packed=True)
    yield "attention 256 causal pointers", forward(256, HOPPER_POINTERS[256], "sm_90", causal=True)
    yield "attention 96 packed pointers", forward(96, HOPPER_POINTERS[128], "sm_90", causal=False, packed=True)
    yield "attention 64 causal sm_80", forward(64, AMPERE[64], "sm_80", causal=True)
    yield "attention 128 packed sm_80", forward(128, AMPERE[128], "sm_80", causal=False, packed=True, dtype=torch.float16)
    q = meta(2, 77, 8, 128, dtype=torch.bfloat16)
    _, args, options = one_loop_launch(q, q, q, q, Tile(128, 64, 8, 3))
    yield "attention in one loop", Launch(one_loop_kernel, args, options, ("sm_80", "sm_90"))
