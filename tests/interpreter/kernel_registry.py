"""Every kernel of the project: the targets that it claims, and a launch to compile it with.

A new kernel gets a line in `claims()`, a small one in kernel_registry_small.py; test_every_kernel_compiles.py finds it if it has
none. Tensors are on the meta device: only their dtypes, strides and alignment decide the code.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
import triton.language as tl
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.hardware.roofs_kernels import copy_words_kernel
from course_lib.interpreter.compiled import DEFAULT_TARGETS, Launch
from course_lib.workloads.read_curve_kernel import read_kernel
from course_lib.workloads.spin_kernel import spin_kernel
from tests.interpreter import (
    kernel_registry_attention,
    kernel_registry_hopper,
    kernel_registry_paged,
    kernel_registry_small,
    kernel_registry_workloads,
)
from tests.interpreter.kernels.copy import copy_kernel
from tests.interpreter.kernels.descriptors import device_descriptor_kernel, host_descriptor_kernel
from tests.interpreter.kernels.flash import flash_kernel
from tests.interpreter.kernels.gluon_hopper import gluon_tile_kernel
from tests.interpreter.kernels.matmul import matmul_kernel

ROOT = Path(__file__).parents[2]
FP8_TARGETS = ("sm_89", "sm_90", "sm_100")
INT8_TARGETS = tuple(name for name in DEFAULT_TARGETS if name != "sm_75")  # there tl.dot takes floats only

# Where kernels stand that claim nothing, and why. A pattern of paths, or a path and a kernel.
EXEMPT = {
    "tests/interpreter/kernels/refused.py": "each is there to be refused (test_compiled_facts.py)",
    "tests/interpreter/faults/*": "each plants a fault that the interpreter must catch, or is its twin without",
    "tests/gpu/*": "run on the device, where they are compiled",
    "tests/*/test_*.py": "belongs to that test: it is run there, plants a fault, or is compiled there",
    "tests/test_*.py": "belongs to that test, likewise: the kernels that docs/no-gpu.md shows",
    "tests/grading/launch_answers.py": "right and wrong answers to exercises of the tests (test_launch_evidence.py)",
    "tests/interpreter/replay_answers.py": "answers that are honest, cheats or forged; replayed by test_replay.py",
    "tests/interpreter/told_answers.py": "answers that travel in numbers, texts or fills; replayed by test_told.py",
    "tests/notebooks/small_course.py": "text of a notebook, not a kernel of the project",
    "tests/exercises/answers/*": "right and wrong answers to exercises, which are compiled where the exercise asks for it",
    "solutions/*.py": "cells of a notebook, compiled by lab.trace beside them or by the exercise's own check",
}


def empty(*shape: int, dtype: torch.dtype = torch.float16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def matmul(dtype: torch.dtype, targets: tuple[str, ...], out: torch.dtype, acc: tl.dtype = tl.float32, warps: int = 4) -> Launch:
    a, b, c = empty(300, 512, dtype=dtype), empty(512, 256, dtype=dtype), empty(300, 256, dtype=out)
    constants = {"BM": 64, "BN": 64, "BK": 32, "ACC": acc, "PRECISION": "ieee", "num_warps": warps}
    return Launch(matmul_kernel, (a, b, c, 300, 256, 512, *a.stride(), *b.stride(), *c.stride()), constants, targets)


def flash(dtype: torch.dtype, head_dim: int, causal: bool, block: int, targets: tuple[str, ...], with_lse: bool = True) -> Launch:
    q, kv = empty(2, 77, 8, head_dim, dtype=dtype), empty(2, 130, 2, head_dim, dtype=dtype)
    strides = (*q.stride(), *kv.stride(), *kv.stride(), *q.stride())
    blocks = {"BM": block, "BN": block, "HEAD_DIM": head_dim, "BLOCK_D": max(16, 1 << (head_dim - 1).bit_length())}
    constants = {"GROUP": 4, "CAUSAL": causal, "WITH_LSE": with_lse, "PRECISION": "ieee", **blocks}
    lse = empty(2, 8, 77, dtype=torch.float32)
    return Launch(flash_kernel, (q, kv, kv, q, lse, *strides, 8, 77, 130, 0.1), constants, targets)


def claims() -> Iterator[tuple[str, Launch]]:
    """(name of the case, launch with the targets that the kernel claims)."""
    every, no_t4 = DEFAULT_TARGETS, tuple(name for name in DEFAULT_TARGETS if name != "sm_75")
    wide = empty(64, 64)
    for dtype in (torch.float16, torch.float32, torch.int8, torch.float8_e5m2):
        yield f"copy-{dtype}", Launch(copy_kernel, (empty(999, dtype=dtype), empty(999, dtype=dtype), 999, 3, 1, 256), {}, every)
    yield "matmul-fp16", matmul(torch.float16, every, torch.float16)
    yield "matmul-bf16", matmul(torch.bfloat16, no_t4, torch.bfloat16)
    yield "matmul-fp32", matmul(torch.float32, every, torch.float32)
    yield "matmul-fp8", matmul(torch.float8_e4m3fn, FP8_TARGETS, torch.float32)
    yield "matmul-int8", matmul(torch.int8, INT8_TARGETS, torch.int32, tl.int32)
    yield "flash-fp16-causal", flash(torch.float16, 64, True, 64, every)
    yield "flash-bf16", flash(torch.bfloat16, 128, False, 64, no_t4, with_lse=False)
    yield "flash-fp32-odd-head", flash(torch.float32, 40, True, 32, no_t4)
    block = TensorDescriptor(wide, [64, 64], [64, 1], [32, 32])
    yield "host descriptor", Launch(host_descriptor_kernel, (block, block, 32, 32), {}, every)
    yield "device descriptor", Launch(device_descriptor_kernel, (wide, wide, 64, 64, 32, 32), {}, every)
    tile = GluonDescriptor(wide, [64, 64], [64, 1], [64, 64], gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16))
    yield "gluon tile", Launch(gluon_tile_kernel, (tile, tile, tile), {"num_warps": 4}, ("sm_90",))
    words = empty(2**20, dtype=torch.int32)
    yield "roofs copy", Launch(copy_words_kernel, (words, words, 2**20, 4096), {"num_warps": 8}, every)
    yield "roofs read", Launch(read_kernel, (words, words, 2**20, 4096), {"num_warps": 8}, every)
    spin_targets = tuple(name for name in every if name.startswith("sm_"))  # it reads NVIDIA's clock register
    yield "spin", Launch(spin_kernel, (empty(1, dtype=torch.int64), 3_000_000_000), {"num_warps": 1}, spin_targets)
    yield from kernel_registry_small.launches()
    yield from kernel_registry_workloads.launches()
    yield from kernel_registry_attention.launches()
    yield from kernel_registry_hopper.launches()
    yield from kernel_registry_paged.launches()
