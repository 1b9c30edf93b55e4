"""The timed part of 1.1 on devices that are not there: a chip without bf16 is measured in fp16, and an unknown one waits."""

import pytest
import torch

from course_lib.exercises.phase1 import RIDGE_POINTS
from course_lib.exercises.runners import phase1_ridge as runner
from course_lib.roofline import ridge_points

(TIMED,) = RIDGE_POINTS.in_cell("timed")


@pytest.fixture
def on(monkeypatch):
    """on(name, TFLOP/s, GB/s) -> evidence of a right answer on a device of this name that reaches these rates."""

    def measured(name, tflops, gb_per_s, entry=ridge_points):
        asked = []
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
        monkeypatch.setattr(runner, "_measure_matmul", lambda precision: asked.append(precision) or [tflops] * 3)
        monkeypatch.setattr(runner, "_measure_copy", lambda: [gb_per_s] * 3)
        (case,) = TIMED.cases(3)
        return case, runner.ridge_of_this_device(entry, case), asked

    return measured


@pytest.mark.parametrize(
    ("name", "tflops", "gb_per_s", "precision", "peak"),
    [("NVIDIA H200", 790.0, 4200.0, "bf16", 989.4), ("Tesla T4", 24.0, 240.0, "fp16", 65.0),
     ("AMD Instinct MI300X", 600.0, 4000.0, "bf16", 1307.4)],
)  # fmt: skip
def test_a_known_device_is_measured_in_what_it_multiplies(on, name, tflops, gb_per_s, precision, peak):
    case, evidence, asked = on(name, tflops, gb_per_s)
    assert asked == [precision]
    assert (evidence["precision"], evidence["tflops"]) == (precision, tflops)
    assert evidence["roof_share"] == pytest.approx(max(tflops / peak, evidence["ratios"][0]))
    assert TIMED.confirm(case, evidence) is None


def test_a_wrong_ridge_of_the_device_is_found(on):
    case, evidence, _ = on("Tesla T4", 24.0, 240.0, entry=lambda peak, bandwidth: peak / bandwidth[:, None])
    assert TIMED.confirm(case, evidence).reason


def test_a_rate_beyond_the_sheet_is_measured_twice_and_told(on):
    _, evidence, asked = on("NVIDIA H200", 1200.0, 4200.0)
    assert asked == ["bf16", "bf16"]
    assert evidence["roof_share"] > 1.05


def test_a_device_that_the_sheet_does_not_know_waits(on):
    _, evidence, asked = on("NVIDIA H200 NVL", 790.0, 4200.0)
    assert "no row for NVIDIA H200 NVL" in evidence["blocked"]
    assert asked == []
