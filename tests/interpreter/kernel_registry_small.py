"""Claims of the small kernels whose traffic the ledger's tests count: three targets each, one of every kind of machine code."""

from collections.abc import Iterator

import torch
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.interpreter.compiled import Launch
from tests.interpreter.kernels import traffic, waste

TARGETS = ("sm_80", "sm_90", "gfx942")


def launches() -> Iterator[tuple[str, Launch]]:
    f, h, i, b = (
        torch.empty(64, 64, dtype=kind, device="meta") for kind in (torch.float32, torch.float16, torch.int32, torch.int8)
    )
    d = TensorDescriptor(f, [64, 64], [64, 1], [16, 16])
    arguments = {
        traffic.copy_2d_kernel: (f, f, 64, 63, 64, 1, 1, 64, 16, 16),
        traffic.gather_kernel: (f, i, f, 100, 64),
        traffic.broadcast_kernel: (f, f, 64),
        traffic.histogram_kernel: (i, i, 100, 64),
        traffic.lock_kernel: (i,),
        traffic.add_one_kernel: (f, 100, 64),
        traffic.add_kernel: (f, f, f, 100, 64),
        traffic.words_kernel: (b, i, 64),
        traffic.halves_kernel: (i, torch.empty(64, dtype=torch.int16, device="meta"), 64),
        traffic.both_widths_kernel: (i, i, 64),
        traffic.across_kernel: (f, f, f, 3, 64),
        traffic.nothing_kernel: (f, f, 0, 64),
        traffic.helped_kernel: (f, f, 64),
        traffic.block_pointer_kernel: (f, f, 64, 63, 16, 16),
        traffic.descriptor_kernel: (d, d, 16, 16),
        traffic.batched_dot_kernel: (h, h, f, 2, 16, 16, 16),
        traffic.arithmetic_kernel: (f, f, 64),
        waste.dequantise_kernel: (b, f, h, 63, 64),
        waste.row_times_vector_kernel: (h, h, f, 63, 64),
        waste.quantised_row_times_vector_kernel: (b, f, h, f, 63, 64),
        waste.attention_by_row_kernel: (h, h, h, h, 63, 0.1, 64, 64),
    }
    for kernel, given in arguments.items():
        yield kernel.__name__, Launch(kernel, given, {}, TARGETS)
    for along in (True, False):
        yield f"sum_rows_kernel-{along}", Launch(waste.sum_rows_kernel, (f, f, 64, 63, 32, 32, along), {}, TARGETS)
