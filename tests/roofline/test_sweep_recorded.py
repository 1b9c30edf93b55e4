"""What section 5 says in words about the sweep on the H200, held to the recorded result."""

import math
import statistics
from itertools import pairwise
from pathlib import Path

import pytest
import torch

from course_lib.display.batch_sweep_figure import sweep_rows
from course_lib.display.curve_figure import curve_points
from course_lib.recorded import recorded
from course_lib.roofline import LLAMA_3_8B
from course_lib.roofline.kernels import decode_kernels
from course_lib.roofline.sweep import curve_seconds

RESULT = recorded("batch_sweep")
CURVES = {
    kind: dict(zip(("bytes", "seconds"), (torch.tensor(c, dtype=torch.float64) for c in zip(*rows, strict=True)), strict=True))
    for kind, rows in ((kind, curve_points(RESULT, kind)) for kind in ("read", "product"))
}


@pytest.mark.parametrize("context", [1024, 2048])
def test_every_step_is_predicted_within_15_percent_from_the_curves(context):
    rows = sweep_rows(RESULT, context)
    assert {row["batch"] for row in rows} >= {1, 2, 4, 8, 16, 32, 64}
    for row in rows:
        assert abs(row["predicted_ms"] / row["measured_ms"] - 1) <= 0.15, row


def test_decision_14_names_how_far_both_predictions_lie_from_the_steps():
    words = " ".join((Path(__file__).parents[2] / "docs" / "decisions.md").read_text(encoding="utf-8").split())
    steps = [row for row in RESULT["rows"] if row["case"].startswith("step")]
    plain = [row["plain_reads_ms"] / row["ours"] for row in steps]
    assert f"predicted from plain reads alone lies at {min(plain):.2f} to {max(plain):.2f} of what an H200 takes" in words
    furthest = max(abs(row["peer"] / row["ours"] - 1) for row in steps)
    assert f"a step is predicted to within {math.ceil(100 * furthest)}%" in words


def test_steps_take_20_to_35_percent_longer_than_the_floor_and_the_rest_is_below_10():
    for row in sweep_rows(RESULT, 2048):
        assert 1.20 <= row["measured_ms"] / row["floor_ms"] <= 1.36
        assert 0.90 <= row["predicted_ms"] / row["measured_ms"] <= 1.0


def test_step_time_never_falls_with_the_batch():
    times = [row["measured_ms"] for row in sweep_rows(RESULT, 2048)]
    assert times == sorted(times)


def test_small_kernels_cost_a_fifth_of_a_millisecond_and_products_lose_most():
    read = CURVES["read"]
    rate = read["bytes"][-1] / read["seconds"][-1]
    lost = {"products": 0.0, "attention": 0.0, "small": 0.0}
    for kernel in decode_kernels(LLAMA_3_8B, 1, 2048):
        size = torch.tensor([float(kernel.bytes_moved)], dtype=torch.float64)
        seconds = curve_seconds(CURVES["product"] if kernel.is_product else read, size)
        part = "products" if kernel.is_product else "attention" if kernel.name == "attention" else "small"
        lost[part] += 1e3 * kernel.count * float(seconds[0] - size[0] / rate)
    assert 0.15 <= lost["small"] <= 0.3
    assert lost["products"] > lost["small"] > lost["attention"]


def test_more_context_adds_the_same_for_every_token():
    """No cliff at 8192: the slope beyond it is that before it, within a tenth."""
    rows = sorted((int(row["case"].split()[1].strip(",")), row["ours"]) for row in recorded("context_sweep")["rows"])
    slopes = {far: [(b - a) / (y - x) for (x, a), (y, b) in pairwise(rows) if x >= 1024 and (x >= 8192) == far]
              for far in (False, True)}  # fmt: skip
    assert statistics.median(slopes[True]) == pytest.approx(statistics.median(slopes[False]), rel=0.1)


def test_the_knee_lies_at_the_measured_ridge():
    cases = {row["case"]: row for row in recorded("knee")["rows"]}
    assert cases["knee of the MLP layer"]["ratio"] == pytest.approx(1.0, abs=0.1)
    assert cases["1 token, 4096 x 14336"]["ratio"] < 0.01
