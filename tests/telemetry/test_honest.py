"""Honest figures, against values worked out by hand."""

import pytest

from course_lib.telemetry import honest_figures

PEAKS = {"hbm_gb_per_s": 4800.0, "hbm_gb": 141.0}


def sample(seconds, energy_mj, busy=100, tensor=2.0, dram=60.0, reasons=0, mhz=1980):
    gpm = None if tensor is None else {"tensor_percent": tensor, "dram_percent": dram}
    return {"seconds": seconds, "energy_mj": energy_mj, "power_mw": 1, "busy_percent": busy, "memory_busy_percent": 55,
            "sm_mhz": mhz, "reasons": reasons, "gpm": gpm}  # fmt: skip


def test_the_example_of_the_text():
    """The window is 1 s to 3 s; the counter stands at 150 J and 950 J there, on the lines between fresh readings."""
    samples = [
        sample(0.0, 50_000, busy=0, tensor=None, reasons=1, mhz=345),
        sample(2.0, 250_000, busy=50, tensor=1.0, dram=20.0),
        sample(2.5, 250_000, tensor=3.0, dram=80.0),
        sample(4.0, 1_650_000, tensor=5.0, dram=60.0, reasons=4, mhz=1700),
    ]
    found = honest_figures(samples, (1.0, 3.0), 400, PEAKS)
    assert found["joules"] == 800.0
    assert found["mean_watts"] == 400.0
    assert found["joules_per_token"] == 2.0
    assert found["tokens_per_joule"] == 0.5
    assert found["tensor_share"] == pytest.approx((1.0 * 1 + 0.5 * 3 + 0.5 * 5) / 2 / 100)
    assert found["dram_gb_per_s"] == pytest.approx((1.0 * 20 + 0.5 * 80 + 0.5 * 60) / 2 / 100 * 4800)
    assert found["busy_time_share"] == 0.75
    assert found["throttled_by"] == []
    assert found["lowest_sm_mhz"] == 1980


def test_a_counter_that_restarts_inside_gives_no_energy_and_one_before_does_not_matter():
    inside = [sample(0.0, 900), sample(1.0, 950), sample(2.0, 30), sample(3.0, 60)]
    assert honest_figures(inside, (0.5, 2.5), 10, PEAKS)["joules_per_token"] is None
    before = [sample(0.0, 900), sample(1.0, 10), sample(2.0, 30), sample(3.0, 60)]
    assert honest_figures(before, (1.0, 3.0), 10, PEAKS)["joules"] == 0.05


def test_fresh_readings_that_do_not_reach_the_end_give_no_energy():
    stale = [sample(0.0, 0), sample(1.0, 100), sample(2.0, 200), sample(3.0, 200)]
    assert honest_figures(stale, (0.5, 2.5), 10, PEAKS)["joules"] is None
    assert honest_figures(stale, (0.5, 2.0), 10, PEAKS)["joules"] == 0.15


def test_no_gpm_in_a_part_of_the_window_is_no_share_and_no_work_is_a_share_of_zero():
    spinning = [sample(float(t), 100 * t, tensor=0.0, dram=0.0) for t in range(4)]
    found = honest_figures(spinning, (0.5, 2.5), 0, PEAKS)
    assert (found["busy_time_share"], found["tensor_share"], found["dram_gb_per_s"]) == (1.0, 0.0, 0.0)
    assert found["joules_per_token"] is None
    assert found["tokens_per_joule"] == 0.0
    spinning[2]["gpm"] = None
    assert honest_figures(spinning, (0.5, 2.5), 1, PEAKS)["tensor_share"] is None
    assert honest_figures(spinning, (2.0, 3.0), 1, PEAKS)["tensor_share"] == 0.0  # it only touches the window
