"""Published figures are dense, have a source, and belong to exactly the device that the driver names."""

import dataclasses
import math

import pytest

from course_lib.hardware import all_specs, find_spec, gpu_named, spec
from course_lib.roofline import ridge_points

RIDGES = {  # FLOP/byte, worked by hand: TFLOP/s * 1000 / (GB/s)
    "a100-sxm-80gb": (153.02, None),
    "h100-pcie": (378.0, 756.5),
    "h100-sxm": (295.34, 590.72),
    "h200-sxm": (206.13, 412.27),
    "b200-sxm": (281.25, 562.5),
}


@pytest.mark.parametrize("key", all_specs())
def test_every_row_has_a_source_and_the_ridge_that_paper_gives(key):
    import torch

    gpu = spec(key)
    assert gpu.source
    peaks = [gpu.bf16_tflops, gpu.fp8_tflops or math.nan]
    ridge = ridge_points(torch.tensor([peaks], dtype=torch.float64), torch.tensor([gpu.hbm_gb_per_s], dtype=torch.float64))[0]
    bf16, fp8 = RIDGES[key]
    assert float(ridge[0]) == pytest.approx(bf16, rel=1e-4)
    assert math.isnan(ridge[1]) if fp8 is None else float(ridge[1]) == pytest.approx(fp8, rel=1e-4)


@pytest.mark.parametrize(
    ("device", "key"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"), ("NVIDIA H100 PCIe", "h100-pcie"), ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA B200", "b200-sxm"), ("NVIDIA A100-SXM4-80GB", "a100-sxm-80gb"), ("H200", "h200-sxm"),
    ],
)  # fmt: skip
def test_a_driver_name_finds_its_row(device, key):
    assert find_spec(device).key == key


@pytest.mark.parametrize(
    "device",
    ["NVIDIA H200 NVL", "NVIDIA GH200 480GB", "NVIDIA GB200", "NVIDIA H100 NVL", "NVIDIA A100-SXM4-40GB", "NVIDIA A100 80GB PCIe",
     "NVIDIA H100", "Tesla T4", "", "CPU"],
)  # fmt: skip
def test_a_device_with_other_figures_is_not_taken_for_one_of_these(device):
    assert find_spec(device) is None


def test_an_unknown_key_or_precision_lists_the_known_ones():
    with pytest.raises(KeyError, match="h100-sxm"):
        spec("h100")
    with pytest.raises(ValueError, match=r"'fp4'.*bf16.*fp8"):
        spec("h100-sxm").peak_tflops("fp4")
    assert spec("a100-sxm-80gb").peak_tflops("fp8") is None


def test_a_gpu_is_found_by_key_name_driver_name_and_the_start_of_one_name():
    assert gpu_named("h100-sxm") is gpu_named("H100 SXM") is gpu_named("NVIDIA H100 80GB HBM3") is spec("h100-sxm")
    assert [gpu_named(name).key for name in ("A100", "h200", "B200")] == ["a100-sxm-80gb", "h200-sxm", "b200-sxm"]
    own = dataclasses.replace(spec("h100-sxm"), name="mine")
    assert gpu_named(own) is own


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("H100", "GPU 'H100' can be H100 PCIe or H100 SXM; say which"),
        ("H900", r"GPU 'H900' is not known; use one of .*H100 SXM, .*or give a GpuSpec"),
        ("H200 NVL", "GPU 'H200 NVL' is not known"),
        ("", "GPU '' is not known"),
    ],
)  # fmt: skip
def test_a_gpu_that_is_not_known_or_not_one_is_refused_with_the_known_ones(name, words):
    with pytest.raises(ValueError, match=words):
        gpu_named(name)
