"""Recorded results and measured roofs ask the driver through a session, which is closed again, and do without an answer."""

from benchmarks import _result
from course_lib.hardware import roofs_measure


def driver_and_handle(nvml, handle):
    return nvml.nvmlSystemGetDriverVersion(), handle


def test_driver_and_clocks_come_from_a_session_that_is_closed(driver):
    fake = driver()
    assert roofs_measure._nvml(driver_and_handle) == ("580.1", "handle 0")
    assert _result._driver_and_clocks() == {"driver": "580.1", "clocks": {"sm_mhz": 1980, "memory_mhz": 3201}}
    assert fake.inits == fake.shutdowns == 2


def test_a_driver_that_does_not_answer_costs_no_result(driver):
    driver(refuse={"nvmlInit": 12})
    assert roofs_measure._nvml(driver_and_handle) is None
    assert _result._driver_and_clocks() == {"driver": None, "clocks": "not read: NvmlUnavailableError"}
