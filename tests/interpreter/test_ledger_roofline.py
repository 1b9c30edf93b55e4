"""A launch's point on a GPU's roofline is its intensity under that GPU's roof."""

import dataclasses

import pytest
import torch

from course_lib.hardware import spec
from course_lib.interpreter import ledger, roofline_point, switch

from .kernels import copy, matmul

SXM = spec("h100-sxm")


@pytest.fixture(autouse=True)
def _checked():
    with switch.interpreting():
        yield


def counted(call, *args, **kwargs):
    with ledger() as book:
        call(*args, **kwargs)
    return book.launches[0]


def test_the_point_of_a_tiled_product_is_its_closed_form():
    m, n, k = 128, 96, 64
    launch = counted(matmul.matmul, torch.randn(m, k).half(), torch.randn(k, n).half(), bm=32, bn=32)
    point = roofline_point(launch, "H100 SXM")
    requested = 2 * (m * k * (n // 32) + k * n * (m // 32))
    stored = launch.total.stored_bytes
    assert (point.flops, point.requested_bytes) == (2 * m * n * k, requested + stored)
    assert point.distinct_bytes == 2 * (m * k + k * n) + stored
    assert point.intensity == 2 * m * n * k / point.distinct_bytes
    assert point.requested_intensity == 2 * m * n * k / point.requested_bytes
    assert (point.gpu, point.precision, point.peak_tflops, point.others) == ("H100 SXM", "bf16", SXM.bf16_tflops, ())
    assert point.ridge == pytest.approx(989.4e3 / 3350)
    assert point.bound == "memory"  # 40 and less, far below 295
    assert point.attainable_tflops == pytest.approx(point.intensity * 3.35)
    assert point.requested_attainable_tflops == pytest.approx(point.requested_intensity * 3.35)


def test_right_of_the_ridge_the_peak_is_the_limit():
    launch = counted(matmul.matmul, torch.randn(64, 64).half(), torch.randn(64, 64).half(), bm=32, bn=32)
    slow = dataclasses.replace(SXM, name="a slow one", bf16_tflops=0.01)
    point = roofline_point(launch, slow)
    assert (point.gpu, point.bound) == ("a slow one", "compute")
    assert point.attainable_tflops == point.requested_attainable_tflops == 0.01


def test_fp8_products_have_the_fp8_roof_where_the_gpu_has_one():
    a, b = torch.randn(32, 64).to(torch.float8_e4m3fn), torch.randn(64, 32).to(torch.float8_e4m3fn)
    launch = counted(matmul.matmul, a, b, bm=32, bn=32)
    assert (roofline_point(launch, "H100 SXM").precision, roofline_point(launch, "A100 SXM 80GB").precision) == ("fp8", "bf16")


def test_products_with_another_peak_are_named():
    launch = counted(matmul.matmul, torch.randn(32, 32), torch.randn(32, 32), bm=32, bn=32)
    assert roofline_point(launch, "H200").others == tuple(launch.dot_flops)


def test_a_copy_has_a_floor_of_time_and_no_place():
    launch = counted(copy.copy, torch.randn(67_000))
    point = roofline_point(launch, "H100 SXM")
    assert (point.flops, point.attainable_tflops, point.bound) == (0, 0.0, "memory")
    assert point.memory_floor_seconds == pytest.approx(2 * 4 * 67_000 / 3350e9)
