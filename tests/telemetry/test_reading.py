"""A reading has NVML's units turned into plain ones, and a missing counter costs only itself."""

import pytest

from course_lib.telemetry import REASONS, read, reason_names, session, throttle_names


def test_units_are_turned(driver):
    driver(power=[351_500], energy=[12_345_678], masks=[0x4])
    with session() as nvml:
        now = read(nvml, "handle 0")
    assert now.watts == 351.5  # NVML gives milliwatts
    assert now.joules_since_driver_load == 12345.678  # and millijoules
    assert now.busy_time_percent == 100
    assert now.memory_busy_time_percent == 37
    assert now.memory_used_bytes == 7 * 2**30
    assert (now.sm_mhz, now.memory_mhz, now.temperature_c) == (1980, 3201, 51)
    assert (now.pcie_tx_kb_per_s, now.pcie_rx_kb_per_s) == (5000, 7000)
    assert now.reasons == ("sw_power_cap",)


def test_a_passive_board_has_no_fan_and_says_so(driver):
    driver()
    with session() as nvml:
        now = read(nvml, "handle 0")
    assert now.fan_percent is None
    assert list(now.missing) == ["fan_percent"]
    assert "does not give it" in now.missing["fan_percent"]


def test_what_is_refused_is_none_and_the_rest_is_there(driver):
    driver(refuse={"nvmlDeviceGetTotalEnergyConsumption": 3, "nvmlDeviceGetUtilizationRates": 4})
    with session() as nvml:
        now = read(nvml, "handle 0")
    assert now.joules_since_driver_load is None
    assert now.busy_time_percent is None
    assert "permission is missing" in now.missing["busy_time_percent"]
    assert now.watts == 250.0


def test_an_older_driver_is_asked_by_the_older_name(driver):
    fake = driver(refuse={"nvmlDeviceGetCurrentClocksEventReasons": 13})
    fake.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x40
    with session() as nvml:
        assert read(nvml, "handle 0").reasons == ("hw_thermal_slowdown",)


@pytest.mark.parametrize(("mask", "names", "throttled"), [
    (0x0, (), ()),
    (0x1, ("gpu_idle",), ()),
    (0x44, ("sw_power_cap", "hw_thermal_slowdown"), ("sw_power_cap", "hw_thermal_slowdown")),
    (0x12, ("applications_clocks", "sync_boost"), ()),
    (0x200, ("bit_0x200",), ()),
])  # fmt: skip
def test_a_mask_is_decoded_bit_by_bit(mask, names, throttled):
    assert reason_names(mask) == names
    assert throttle_names(mask) == throttled


def test_the_bits_are_those_of_the_real_binding():
    pynvml = pytest.importorskip("pynvml")
    real = {
        "gpu_idle": "GpuIdle", "applications_clocks": "ApplicationsClocksSetting", "sw_power_cap": "SwPowerCap",
        "hw_slowdown": "HwSlowdown", "sync_boost": "SyncBoost", "sw_thermal_slowdown": "SwThermalSlowdown",
        "hw_thermal_slowdown": "HwThermalSlowdown", "hw_power_brake": "HwPowerBrakeSlowdown",
        "display_clocks": "DisplayClockSetting",
    }  # fmt: skip
    assert {r.name: r.bit for r in REASONS} == {n: getattr(pynvml, f"nvmlClocksThrottleReason{r}") for n, r in real.items()}
