"""The spin kernel refuses what it cannot do in words, and its machine code only looks at the clock."""

import pytest
import torch

from course_lib.workloads.spin import spin


@pytest.mark.parametrize("seconds", [0, -1.0, 61.0])
def test_a_time_out_of_range_is_refused(seconds):
    with pytest.raises(ValueError, match="at most 60 seconds"):
        spin(seconds)


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a device it spins: tests/gpu/test_telemetry_on_device.py")
def test_without_a_device_it_says_where_the_counters_are():
    with pytest.raises(RuntimeError, match="needs a CUDA device"):
        spin(1.0)


@pytest.mark.compile
def test_it_compiles_to_a_loop_over_the_clock_without_loads_or_tensor_cores():
    from course_lib.interpreter.compiled import compile_report
    from course_lib.workloads.spin_kernel import spin_kernel

    turns = torch.empty(1, dtype=torch.int64, device="meta")
    report = compile_report(spin_kernel, (turns, 3_000_000_000), {"num_warps": 1}, targets=("sm_90",))
    found = report["sm_90"]
    assert found.compiles, found.why_not
    assert (found.widest_load_bits, found.shared_bytes, found.tensor_cores) == (0, 0, {})
