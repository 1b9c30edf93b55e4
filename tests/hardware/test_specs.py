"""Published figures are dense, have a source, and belong to exactly the device that the driver names."""

import dataclasses
import math

import pytest

from course_lib.display.roofline_figure import roofline_figure
from course_lib.hardware import all_specs, find_spec, gpu_named, spec
from course_lib.roofline import ridge_points

RIDGES = {  # FLOP/byte, worked by hand: TFLOP/s * 1000 / (GB/s)
    "t4": (None, None),
    "rtx-3090": (75.855, None),
    "a10": (208.33, None),
    "a100-sxm-40gb": (200.64, None),
    "a100-pcie-40gb": (200.64, None),
    "a100-pcie-80gb": (161.24, None),
    "a100-sxm-80gb": (153.02, None),
    "rtx-4090": (163.89, 327.68),
    "l4": (403.33, 808.33),
    "h100-pcie": (378.0, 756.5),
    "h100-nvl": (214.23, 428.33),
    "h100-sxm": (295.34, 590.72),
    "h200-sxm": (206.13, 412.27),
    "b200-sxm": (281.25, 562.5),
    "mi300x": (246.68, 493.38),
}

# What the peaks follow from: dense fp16 FLOP per clock and SM (the whitepapers' tensor core tables), and the boost clock in GHz
# that the sheets assume. A sparse figure, or one of another card with the same chip, does not agree.
TENSOR = {
    "t4": (1024, 1.59),
    "rtx-3090": (512, 1.695),  # half rate, as it accumulates in fp32
    "a10": (1024, 1.695),
    "a100-sxm-40gb": (2048, 1.41),
    "a100-pcie-40gb": (2048, 1.41),
    "a100-pcie-80gb": (2048, 1.41),
    "a100-sxm-80gb": (2048, 1.41),
    "rtx-4090": (512, 2.52),  # half rate
    "l4": (1024, 2.04),
    "h100-pcie": (4096, 1.62),
    "h100-nvl": (4096, 1.545),
    "h100-sxm": (4096, 1.83),
    "h200-sxm": (4096, 1.83),
    "b200-sxm": (8192, 1.855),
    "mi300x": (2048, 2.1),
}
BUS = {  # bits, Gbit/s per pin
    "t4": (256, 10), "rtx-3090": (384, 19.5), "a10": (384, 12.5), "a100-sxm-40gb": (5120, 2.43),
    "a100-pcie-40gb": (5120, 2.43), "a100-pcie-80gb": (5120, 3.024),
    "a100-sxm-80gb": (5120, 3.186), "rtx-4090": (384, 21), "l4": (192, 12.5), "h100-pcie": (5120, 3.186),
    "h100-nvl": (6016, 5.238), "h100-sxm": (5120, 5.238), "h200-sxm": (6144, 6.25), "b200-sxm": (8192, 7.8),
    "mi300x": (8192, 5.2),
}  # fmt: skip
# CUDA C++ Programming Guide, technical specifications per compute capability: KB per SM and per block; AMD: LDS of a compute unit
SHARED_KB = {
    "7.5": (64, 64), "8.0": (164, 163), "8.6": (100, 99), "8.9": (100, 99), "9.0": (228, 227), "10.0": (228, 227),
    "gfx942": (64, 64),
}  # fmt: skip


@pytest.mark.parametrize("key", all_specs())
def test_every_row_has_a_source_and_the_ridge_that_paper_gives(key):
    import torch

    gpu = spec(key)
    assert len(gpu.source) > 20
    peaks = [gpu.bf16_tflops or math.nan, gpu.fp8_tflops or math.nan]
    ridge = ridge_points(torch.tensor([peaks], dtype=torch.float64), torch.tensor([gpu.hbm_gb_per_s], dtype=torch.float64))[0]
    for precision, got, expected in zip(("bf16", "fp8"), ridge, RIDGES[key], strict=True):
        assert math.isnan(got) if expected is None else float(got) == pytest.approx(expected, rel=1e-4)
        assert gpu.ridge_flops_per_byte(precision) == (None if expected is None else pytest.approx(expected, rel=1e-4))


@pytest.mark.parametrize("key", all_specs())
def test_peaks_are_the_dense_ones_of_this_very_card(key):
    gpu, (flops_per_clock, ghz) = spec(key), TENSOR[key]
    assert gpu.fp16_tflops == pytest.approx(flops_per_clock * gpu.sms * ghz / 1e3, rel=5e-3)
    assert gpu.bf16_tflops in (None, gpu.fp16_tflops)
    for narrow in filter(None, (gpu.fp8_tflops, gpu.int8_tops)):
        times = 4 if key.startswith("rtx") and narrow == gpu.int8_tops else 2  # int8 has no slower accumulator
        assert narrow == pytest.approx(times * gpu.fp16_tflops, rel=5e-3)
    assert gpu.fp32_tflops < gpu.fp16_tflops


@pytest.mark.parametrize("key", all_specs())
def test_bandwidth_is_the_bus_times_its_rate(key):
    bits, gbit_per_s = BUS[key]
    rounded = 0.02 if key in ("h100-pcie", "h100-nvl") else 5e-3  # sheets say 2 and 3.9 TB/s
    assert spec(key).hbm_gb_per_s == pytest.approx(bits * gbit_per_s / 8, rel=rounded)


@pytest.mark.parametrize("key", all_specs())
def test_every_row_is_whole(key):
    gpu = spec(key)
    assert (gpu.smem_per_sm_kb, gpu.smem_per_block_kb) == SHARED_KB[gpu.capability]
    assert (gpu.link is None) == (gpu.link_gb_per_s == 0)
    assert gpu.pcie_gb_per_s == {"3.0 x16": 32, "4.0 x16": 64, "5.0 x16": 128}[gpu.pcie]
    assert gpu.link is None or gpu.link_gb_per_s > gpu.pcie_gb_per_s
    assert gpu.warp == (64 if gpu.capability.startswith("gfx") else 32)
    assert 50 <= gpu.board_watts <= 1000
    assert 1 <= gpu.l2_mb <= 126
    assert gpu.names
    assert not any(name.startswith("NVIDIA") for name in gpu.names)
    fp8_since = gpu.capability == "gfx942" or float(gpu.capability) >= 8.9
    assert (gpu.fp8_tflops is not None) == fp8_since
    assert (gpu.bf16_tflops is None) == (gpu.capability == "7.5")


def test_cards_that_are_mistaken_for_each_other_differ():
    """reports: PCIe figures under an SXM name, an H100's bandwidth under an H200's, sparse peaks as dense ones."""
    sxm, pcie, nvl, h200 = (spec(key) for key in ("h100-sxm", "h100-pcie", "h100-nvl", "h200-sxm"))
    assert (sxm.bf16_tflops, pcie.bf16_tflops, nvl.bf16_tflops) == (989.4, 756.0, 835.5)
    assert (sxm.fp8_tflops, h200.hbm_gb_per_s, h200.hbm_gb, nvl.hbm_gb) == (1978.9, 4800.0, 141, 94)
    assert (sxm.link_gb_per_s, pcie.link_gb_per_s) == (900, 600)
    bandwidths = [spec(f"a100-{card}").hbm_gb_per_s for card in ("sxm-40gb", "pcie-80gb", "sxm-80gb")]
    assert bandwidths == [1555.0, 1935.0, 2039.0]


def test_no_two_rows_share_a_name():
    names = [name for gpu in all_specs().values() for name in gpu.names]
    assert len(names) == len(set(names))


def test_a_gpu_without_bf16_is_drawn_and_named_by_what_it_has():
    t4 = spec("t4")
    assert (t4.half_precision, t4.half_tflops, t4.peak_tflops("bf16"), t4.ridge_flops_per_byte()) == ("fp16", 65.0, None, None)
    assert t4.ridge_flops_per_byte("fp16") == pytest.approx(203.125)
    figure = roofline_figure([t4, spec("h100-sxm")], {"decode": 1.0}, display=False)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["T4 (fp16), ridge at 203", "H100 SXM, ridge at 295"]


def test_an_unknown_key_or_precision_lists_the_known_ones():
    with pytest.raises(KeyError, match="h100-sxm"):
        spec("h100")
    with pytest.raises(ValueError, match=r"'fp4'.*bf16.*fp8"):
        spec("h100-sxm").peak_tflops("fp4")
    assert spec("a100-sxm-80gb").peak_tflops("fp8") is None
    assert [spec("h100-sxm").peak_tflops(kind) for kind in ("fp32", "fp16", "int8")] == [66.9, 989.4, 1978.9]


def test_a_gpu_is_found_by_key_name_driver_name_and_the_start_of_one_name():
    assert gpu_named("h100-sxm") is gpu_named("H100 SXM") is gpu_named("NVIDIA H100 80GB HBM3") is spec("h100-sxm")
    assert [gpu_named(name).key for name in ("mi300x", "h200", "B200")] == ["mi300x", "h200-sxm", "b200-sxm"]
    own = dataclasses.replace(spec("h100-sxm"), name="mine")
    assert gpu_named(own) is own
    assert find_spec("NVIDIA H200") is spec("h200-sxm")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("H100", "GPU 'H100' can be H100 PCIe or H100 NVL or H100 SXM; say which"),
        ("A100", "GPU 'A100' can be A100 SXM 40GB or A100 PCIe 40GB or A100 PCIe 80GB or A100 SXM 80GB; say which"),
        ("H900", r"GPU 'H900' is not known; use one of .*H100 SXM, .*or give a GpuSpec"),
        ("H200 NVL", "GPU 'H200 NVL' is not known"),
        ("", "GPU '' is not known"),
        (None, "GPU None is not known"),
    ],
)  # fmt: skip
def test_a_gpu_that_is_not_known_or_not_one_is_refused_with_the_known_ones(name, words):
    with pytest.raises(ValueError, match=words):
        gpu_named(name)
