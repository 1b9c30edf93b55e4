"""A recording adds up right, ends cleanly, prints nothing, and says why where it has nothing."""

import threading
import time
from types import SimpleNamespace

import pytest

from course_lib.telemetry import GpmMetrics, Reading, Recorder
from course_lib.telemetry.summary import summarise


def at(seconds, **values):
    return Reading(host_seconds=seconds, **values)


def test_a_block_is_recorded_and_the_thread_is_gone(driver, capfd):
    fake = driver(energy=range(1000, 900_000, 5000), power=[250_000])
    with Recorder(0.02) as recorder:
        time.sleep(0.09)
    found = recorder.summary()
    assert found.count >= 3
    assert found.why_not == found.gpm_why_not == ""
    assert found.joules == pytest.approx(5.0 * (found.count - 1))  # the counter climbs 5 J at each reading
    assert found.integrated_joules == pytest.approx(250.0 * found.seconds)
    assert found.tensor_percent == 0.5
    assert found.pcie_rx_mb_per_s == pytest.approx(4 * 2**20 / 1e6)
    assert fake.inits == fake.shutdowns == 1
    assert fake.allocated == 0
    assert not [t for t in threading.enumerate() if t.name == "telemetry"]
    assert capfd.readouterr() == ("", "")


def test_a_block_that_raises_leaves_nothing_open(driver):
    fake = driver()
    with pytest.raises(KeyError), Recorder(0.02):
        raise KeyError
    assert fake.inits == fake.shutdowns == 1
    assert not [t for t in threading.enumerate() if t.name == "telemetry"]


def test_without_nvml_the_summary_is_empty_and_says_what_to_do(driver, capfd):
    driver(refuse={"nvmlInit": 12})
    with Recorder() as recorder:
        pass
    found = recorder.summary()
    assert found.joules is found.busy_time_percent is found.tensor_percent is found.reasons is None
    assert "run it on a machine with an NVIDIA GPU" in found.why_not
    assert recorder.samples() == []
    assert capfd.readouterr() == ("", "")


def test_without_gpm_the_rest_is_there_and_pcie_comes_from_nvml(driver):
    driver(gpm_supported=False)
    with Recorder(0.02) as recorder:
        time.sleep(0.05)
    found = recorder.summary()
    assert found.tensor_percent is found.dram_percent is None
    assert "Hopper" in found.gpm_why_not
    assert found.busy_time_percent == 100
    assert found.pcie_tx_mb_per_s == 5.0
    assert recorder.samples()[1]["gpm"] is None


def test_gpm_that_stops_costs_no_reading(driver):
    fake = driver()
    with Recorder(0.02) as recorder:
        fake.refuse["nvmlGpmSampleGet"] = 4
        time.sleep(0.05)
    assert "GPM stopped: " in recorder.summary().gpm_why_not
    assert recorder.summary().count >= 2


def test_without_an_energy_counter_watts_come_from_the_readings():
    readings = [at(0.0, watts=100.0), at(1.0, watts=300.0), at(3.0, watts=300.0)]
    found = summarise(readings, [None] * 3)
    assert found.joules is None
    assert found.integrated_joules == 200.0 + 600.0
    assert found.mean_watts == pytest.approx(800 / 3)


def test_a_counter_that_falls_gives_no_energy_and_a_sentence():
    readings = [at(0.0, joules_since_driver_load=900.0), at(1.0, joules_since_driver_load=1.0)]
    found = summarise(readings, [None, None])
    assert found.joules is found.mean_watts is None
    assert "driver was loaded anew" in found.why_not


def test_means_are_weighted_with_time_not_with_the_number_of_readings():
    readings = [at(0.0), at(0.1), at(1.0)]
    found = summarise(readings, [None, GpmMetrics(tensor_percent=90.0), GpmMetrics(tensor_percent=10.0)])
    assert found.tensor_percent == pytest.approx(0.1 * 90 + 0.9 * 10)


def test_reasons_of_all_readings_are_named():
    seen = ((0x1, 345), (0x4, 1700), (0x0, 1980))
    readings = [at(float(place), reasons_mask=mask, sm_mhz=mhz) for place, (mask, mhz) in enumerate(seen)]
    found = summarise(readings, [None] * 3)
    assert found.reasons == ("gpu_idle", "sw_power_cap")
    assert found.throttled_by == ("sw_power_cap",)
    assert (found.sm_mhz_min, found.sm_mhz_median) == (345, 1700)


def test_one_reading_spans_no_time():
    assert "span no time" in summarise([at(0.0)], [None]).why_not


@pytest.mark.parametrize("seconds", [0.001, -1, float("nan"), float("inf")])
def test_an_interval_that_no_reading_fits_is_refused(seconds):
    with pytest.raises(ValueError, match=r"at least 0\.01"):
        Recorder(seconds)


@pytest.mark.parametrize("readings", [0, 1, 3])
def test_a_driver_that_breaks_midway_ends_the_readings_and_not_the_block(driver, capfd, readings):
    fake = driver()
    answers = iter([SimpleNamespace(used=1, total=2)] * readings)

    def breaks(handle):
        try:
            return next(answers)
        except StopIteration:
            raise OSError("the driver was unloaded") from None

    fake.nvmlDeviceGetMemoryInfo = breaks
    with Recorder(0.01) as recorder:
        time.sleep(0.05)
    assert "the driver was unloaded" in recorder.summary().why_not
    assert len(recorder.readings) == readings
    assert (fake.inits, fake.shutdowns, fake.allocated) == (1, 1, 0)
    assert not [t for t in threading.enumerate() if t.name == "telemetry"]
    assert capfd.readouterr() == ("", "")


def test_samples_of_gpm_are_given_back_when_the_first_one_fails(driver):
    fake = driver(refuse={"nvmlGpmSampleGet": 4})
    with Recorder(0.02) as recorder:
        pass
    assert "permission is missing" in recorder.gpm_why_not
    assert fake.allocated == 0


def test_samples_are_plain_and_in_the_drivers_units(driver):
    driver(energy=[1000, 2500], power=[250_000], masks=[0x4])
    with Recorder(5.0) as recorder:
        pass
    first, last = recorder.samples()
    assert first["gpm"] is None, "nothing lies before the first sample"
    assert last["gpm"] == {"tensor_percent": 0.5, "dram_percent": 80.0}
    assert (first["energy_mj"], last["energy_mj"], last["power_mw"], last["reasons"]) == (1000, 2500, 250_000, 4)
    assert (last["busy_percent"], last["memory_busy_percent"], last["sm_mhz"]) == (100, 37, 1980)
