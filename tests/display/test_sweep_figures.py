"""The figures of the batch sweep show the rows they are given, and say them in words."""

import pytest

from course_lib.display.batch_sweep_figure import batch_sweep_figure, sweep_rows
from course_lib.display.curve_figure import curve_figure, curve_points

STEP = {"unit": "ms", "peer_name": "predicted", "roof_share": 0.8}
RESULT = {"rows": [
    {"case": "read of 8 KiB", "curve": "read", "bytes": 8192.0, "gb_per_s": 4.0, "ours": 2.0},
    {"case": "read of 4 KiB", "curve": "read", "bytes": 4096.0, "gb_per_s": 2.0, "ours": 2.0},
    {"case": "product of 1 MiB", "curve": "product", "bytes": 2.0**20, "gb_per_s": 2.0, "ours": 9.0},
    {**STEP, "case": "b", "batch": 4, "context": 2048, "ours": 5.5, "peer": 5.0, "floor_ms": 4.0, "spread": [5.4, 5.9]},
    {**STEP, "case": "a", "batch": 1, "context": 2048, "ours": 5.0, "peer": 4.8, "floor_ms": 3.9, "spread": [4.9, 5.1]},
    {**STEP, "case": "c", "batch": 1, "context": 1024, "ours": 4.9, "peer": 4.7, "floor_ms": 3.8, "spread": [4.8, 5.0]},
]}  # fmt: skip


def test_rows_of_one_context_come_by_batch():
    rows = sweep_rows(RESULT, 2048)
    assert [row["batch"] for row in rows] == [1, 4]
    assert rows[1] == {"batch": 4, "floor_ms": 4.0, "predicted_ms": 5.0, "measured_ms": 5.5, "low_ms": 5.4, "high_ms": 5.9}
    with pytest.raises(ValueError, match=r"measured were \[1024, 2048\]"):
        sweep_rows(RESULT, 512)


def test_the_figure_draws_floor_prediction_and_measurement():
    figure = batch_sweep_figure(sweep_rows(RESULT, 2048), "H200", display=False)
    left, right = figure.axes
    floor, predicted, *_ = left.get_lines()
    assert floor.get_ydata().tolist() == [3.9, 4.0]
    assert predicted.get_ydata().tolist() == [4.8, 5.0]
    assert right.get_lines()[0].get_xdata().tolist() == pytest.approx([200, 1000 / 5.5])
    assert right.get_lines()[0].get_ydata().tolist() == pytest.approx([200, 4000 / 5.5])


def test_without_a_measurement_it_shows_the_prediction():
    rows = [{k: row[k] for k in ("batch", "floor_ms", "predicted_ms")} for row in sweep_rows(RESULT, 2048)]
    _, right = batch_sweep_figure(rows, "on paper", display=False).axes
    assert right.get_lines()[0].get_xdata().tolist() == pytest.approx([1000 / 4.8, 200])


def test_the_curve_is_drawn_by_size():
    points = curve_points(RESULT)
    assert points == [(4096.0, 2e-6), (8192.0, 2e-6)]
    assert curve_points(RESULT, "product") == [(2.0**20, 9e-6)]
    ax, _ = curve_figure({"reads": points}, "H200", {"norm": 8192}, display=False).axes
    assert ax.get_lines()[0].get_ydata().tolist() == pytest.approx([4096 / 2e-6 / 1e9, 8192 / 2e-6 / 1e9])
