"""`lab.trace` beside a GPU: kernels compile for it, and what they ask of memory is counted on a copy, on the CPU."""

import pytest
import torch

from course_lib import lab
from tests.interpreter.kernels.copy import copy, copy_kernel
from tests.interpreter.kernels.matmul import matmul

pytestmark = pytest.mark.gpu


def test_a_kernel_is_counted_and_the_device_is_left_alone():
    source, target = torch.randn(1000, device="cuda"), torch.zeros(1000, device="cuda")
    trace = lab.trace(copy_kernel, source, target, 1000, 1, 1, grid=(8,), BLOCK=128, targets=())
    assert trace.mistake is None
    assert (trace.ledger.total.loaded_bytes, trace.ledger.total.stored_bytes) == (4000, 4000)
    assert not target.any()
    assert torch.equal(copy(source), source)  # kernels still run on the device


def test_a_host_function_is_traced_with_its_compile_table():
    a, b = (torch.randn(128, 128, device="cuda", dtype=torch.float16) for _ in range(2))
    trace = lab.trace(matmul, a, b, bm=64, bn=64, bk=64, targets=("sm_90",))
    assert trace.ledger.dot_flops == {"fp16": 2 * 128**3}
    assert trace.compiled[0]["sm_90"].compiles
    assert "text/html" in trace._repr_mimebundle_()


def test_a_mistake_is_told_and_costs_neither_process_nor_device():
    source, target = torch.randn(1000, device="cuda"), torch.zeros(900, device="cuda")
    trace = lab.trace(copy_kernel, source, target, 1000, 1, 1, grid=(8,), BLOCK=128, targets=())
    assert "dst_ptr[900]" in str(trace.mistake)
    assert torch.equal(copy(source), source)
