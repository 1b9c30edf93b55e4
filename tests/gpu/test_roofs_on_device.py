"""On a CUDA device: the kernels of the roofs do their work, the roofs stay below the data sheet, and the curve is a curve."""

import itertools
import time

import pytest
import torch

from course_lib.hardware import measured_roofs, this_gpu
from course_lib.hardware.roofs_kernels import copy_words_kernel
from course_lib.timing import l2_flusher, paired_ratio, time_calls, time_in_graph
from course_lib.workloads.read_curve_kernel import read_kernel

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def roofs(tmp_path_factory):
    folder, said = tmp_path_factory.mktemp("roofs"), []
    begin = time.perf_counter()
    measured = measured_roofs(folder=folder, tell=said.append)
    assert time.perf_counter() - begin < 120  # under 60 s on an H200; a test on another machine may take longer
    assert len(said) >= 6
    return measured, folder


def test_the_copy_kernel_copies_and_the_read_kernel_reads_on_the_device():
    x = torch.randint(-(2**31), 2**31 - 1, (1_000_003,), device="cuda", dtype=torch.int32)
    out, block = torch.zeros_like(x), 4096
    grid = (-(-x.numel() // block),)
    copy_words_kernel[grid](x, out, x.numel(), BLOCK=block, num_warps=8)
    assert torch.equal(out, x)
    sums = torch.zeros(grid[0], device="cuda", dtype=torch.int32)
    read_kernel[grid](x, sums, x.numel(), BLOCK=block, num_warps=8)
    expected = torch.stack([part.long().sum() for part in x.split(block)]).to(torch.int32)
    assert torch.equal(sums, expected)


def test_what_was_measured_is_kept_and_read_back(roofs):
    measured, folder = roofs
    begin = time.perf_counter()
    assert measured_roofs(folder=folder, tell=None) == measured
    assert time.perf_counter() - begin < 5
    assert measured.device == torch.cuda.get_device_name()
    assert measured.copy_gb_per_s.low <= measured.copy_gb_per_s.median <= measured.copy_gb_per_s.high


def test_no_roof_is_above_the_data_sheet(roofs):
    measured, gpu = roofs[0], this_gpu()
    if gpu is None:
        pytest.skip(f"gpus.toml has no row for {measured.device}")
    shares = {
        "copy": measured.copy_gb_per_s.median / gpu.hbm_gb_per_s,
        "read": measured.read_gb_per_s.median / gpu.hbm_gb_per_s,
        "largest read": measured.read_curve[-1][0] / measured.read_curve[-1][1] / 1e9 / gpu.hbm_gb_per_s,
    }
    for kind in ("bf16", "fp16", "fp8"):
        roof, peak = getattr(measured, f"{kind}_tflops"), gpu.peak_tflops(kind)
        assert (roof is None) == (peak is None), measured.notes
        if roof is not None:
            shares[kind] = roof.median / peak
    assert all(0 < share <= 1.05 for share in shares.values()), shares


def test_a_larger_read_takes_longer_within_noise_and_approaches_the_roof(roofs):
    curve = roofs[0].read_curve
    assert len(curve) >= 20
    for (small, fast), (large, slow) in itertools.pairwise(curve):
        assert slow >= 0.85 * fast, f"{large} bytes take {slow * 1e6:.2f} us, {small} bytes {fast * 1e6:.2f}"
    size, seconds = curve[-1]
    assert size / seconds / 1e9 == pytest.approx(roofs[0].read_gb_per_s.median, rel=0.1)
    assert curve[0][0] / curve[0][1] < 0.1 * size / seconds  # 4 KiB cannot reach the bandwidth of a gigabyte


def test_the_timers_agree_and_a_flush_makes_a_read_from_l2_slower():
    l2 = torch.cuda.get_device_properties(0).L2_cache_size
    x = torch.randint(-(2**31), 2**31 - 1, (l2 // 4 // 4,), device="cuda", dtype=torch.int32)  # a quarter of L2
    grid = (-(-x.numel() // 4096),)
    sums = torch.zeros(grid[0], device="cuda", dtype=torch.int32)

    def read():
        read_kernel[grid](x, sums, x.numel(), BLOCK=4096, num_warps=8)

    warm = time_in_graph(read).median_seconds
    cold = time_calls(read, before=l2_flusher()).median_seconds
    assert cold > 1.1 * warm
    ratio = paired_ratio(read, read, rounds=9)
    assert ratio.low <= 1.05
    assert ratio.high >= 0.95
