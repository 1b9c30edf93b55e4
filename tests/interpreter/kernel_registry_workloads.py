"""Claims of the kernels that are measured on a device: course_lib/workloads. bf16 needs an Ampere or newer."""

from collections.abc import Iterator

import torch

from course_lib.interpreter.compiled import Launch
from course_lib.workloads import decode_stack_kernels as decode
from course_lib.workloads.table_walk_kernel import table_walk_kernel

TARGETS = ("sm_80", "sm_90", "sm_100")


def launches() -> Iterator[tuple[str, Launch]]:
    def bf16(*shape: int) -> torch.Tensor:
        return torch.empty(shape, dtype=torch.bfloat16, device="meta")

    angle = torch.empty(64, dtype=torch.float32, device="meta")
    heads = {"HEADS": 32, "KV_HEADS": 8, "HALF": 64, "num_warps": 1}
    skinny = {"TOKENS": 16, "ROWS": 64, "DEPTH": 128, "STAGES": 5, "num_warps": 4}
    x, cache = bf16(4, 4096), bf16(4, 8, 1025, 128)
    norm = {"WIDTH": 4096, "BLOCK": 4096, "num_warps": 16}
    yield "add and norm", Launch(decode.add_rms_norm_kernel, (x, x, bf16(4096), x, 1e-5), norm, TARGETS)
    rope = (bf16(4, 6144), x, cache, cache, angle, angle, 1024, 1025)
    yield "RoPE and append", Launch(decode.rope_append_kernel, rope, heads, TARGETS)
    yield "SwiGLU", Launch(decode.silu_product_kernel, (bf16(4, 28672), bf16(4, 14336), 14336, 1024), {}, TARGETS)
    product = (x, bf16(4096, 4096), x, 4, 4096, 4096)
    yield "skinny product", Launch(decode.skinny_product_kernel, product, skinny, TARGETS)
    words = torch.empty(64, 8192, dtype=torch.int32, device="meta")
    for two in (False, True):
        walk = {"TWO_LEVELS": two, "LEAF": 256, "PARTS": 8, "WORDS": 8192, "num_warps": 8}
        yield f"table walk, {1 + two} levels", Launch(table_walk_kernel, (words, words, words, words, 512, 512), walk, TARGETS)
