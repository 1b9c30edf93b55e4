"""What section 4 of phase 1 shows: the roadmap's hardware table beside sheet and measurement, and chips compared from sheets."""

import pytest

from course_lib.hardware import roofs_from_recorded, spec
from course_lib.recorded import recorded
from course_lib.roofline import LLAMA_3_8B, decode_step

B200_DRIVER_GB_PER_S = 7680 / 8 * 3996e6 * 2 / 1e9  # bus bits, clock, two bits in a clock and line: pytorch/ao, pull request 4002
ROADMAP = {"fp16_tflops": 1000, "fp8_tflops": 2000, "hbm_gb_per_s": 6000, "l2_mb": 2 * 132, "smem_per_sm_kb": 64}


def test_of_the_roadmaps_table_only_the_peaks_are_near_the_sheet():
    h100 = spec("h100-sxm")
    near = {name for name, value in ROADMAP.items() if value == pytest.approx(getattr(h100, name), rel=0.02)}
    assert near == {"fp16_tflops", "fp8_tflops"}
    assert h100.capability == "9.0"


def test_measured_roofs_lie_below_the_sheet_and_reach_most_of_it():
    roofs = roofs_from_recorded(recorded("roofs"))
    sheet = spec("h200-sxm")
    pairs = [(roofs.copy_gb_per_s, sheet.hbm_gb_per_s), (roofs.read_gb_per_s, sheet.hbm_gb_per_s)]
    pairs += [(getattr(roofs, f"{kind}_tflops"), sheet.peak_tflops(kind)) for kind in ("bf16", "fp16", "fp8")]
    for roof, peak in pairs:
        assert roof.low <= roof.median <= roof.high
        assert 0.6 < roof.median / peak < 1


@pytest.mark.parametrize(
    ("key", "gb_per_s", "floor_ms", "ridge"),
    [
        ("a100-sxm-80gb", 2039, 11.58, 153.0),
        ("h100-sxm", 3350, 7.05, 295.3),
        ("h200-sxm", 4800, 4.92, 206.1),
        ("b200-sxm", 8000, 2.95, 281.3),
        ("b200-sxm", B200_DRIVER_GB_PER_S, 3.08, 293.3),
    ],
)
def test_a_decode_step_follows_the_bandwidth_from_chip_to_chip(key, gb_per_s, floor_ms, ridge):
    """23.60 GB a step, left of every ridge: 4.3% less bandwidth on a B200 is 4.3% more time."""
    gpu, step = spec(key), decode_step(LLAMA_3_8B, batch=32, context=2048)
    assert step.floor_seconds(gpu.bf16_tflops * 1e12, gb_per_s * 1e9) * 1e3 == pytest.approx(floor_ms, abs=0.005)
    assert gpu.bf16_tflops * 1e3 / gb_per_s == pytest.approx(ridge, abs=0.1)
    assert step.flops_per_byte < ridge / 5
