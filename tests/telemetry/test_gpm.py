"""GPM metrics come from two samples in the right order, and every way of not having them is a sentence."""

import pytest

from course_lib.telemetry import Gpm, GpmUnavailableError, session
from course_lib.telemetry.gpm import METRIC_IDS


def test_two_samples_give_the_means_between_them(driver):
    fake = driver(gpm={5: 31.5, 10: 62.0})
    with session() as nvml:
        gpm = Gpm(nvml, "handle 0")
        first, second = gpm.since_last(), gpm.since_last()
        gpm.close()
    assert first.tensor_percent == second.tensor_percent == 31.5
    assert first.dram_percent == 62.0
    assert fake.allocated == 0, "every sample is freed"


@pytest.mark.parametrize("value", [None, float("nan")])
def test_a_metric_that_the_device_lacks_is_none_and_the_rest_is_there(driver, value):
    driver(gpm={7: value})
    with session() as nvml:
        metrics = Gpm(nvml, "handle 0").since_last()
    assert metrics.hmma_percent is None
    assert metrics.tensor_percent == 0.5


@pytest.mark.parametrize(("settings", "said"), [
    ({"gpm_supported": False}, "has no GPM, which came with Hopper"),
    ({"mig": True}, "MIG is on"),
    ({"refuse": {"nvmlGpmQueryDeviceSupport": 13}}, "driver is too old"),
    ({"refuse": {"nvmlGpmSampleGet": 4}}, "permission is missing"),
])  # fmt: skip
def test_without_gpm_there_is_a_sentence(driver, settings, said):
    driver(**settings)
    with session() as nvml, pytest.raises(GpmUnavailableError, match=said):
        Gpm(nvml, "handle 0")


def test_the_numbers_are_those_of_the_real_binding():
    pynvml = pytest.importorskip("pynvml")
    real = {
        "sm_percent": "SM_UTIL", "occupancy_percent": "SM_OCCUPANCY", "tensor_percent": "ANY_TENSOR_UTIL",
        "hmma_percent": "HMMA_TENSOR_UTIL", "dram_percent": "DRAM_BW_UTIL", "fp32_percent": "FP32_UTIL",
        "pcie_tx_mib_per_s": "PCIE_TX_PER_SEC", "pcie_rx_mib_per_s": "PCIE_RX_PER_SEC",
    }  # fmt: skip
    assert {name: getattr(pynvml, f"NVML_GPM_METRIC_{metric}") for name, metric in real.items()} == METRIC_IDS
    request = pynvml.c_nvmlGpmMetricsGet_t()  # the fields that gpm.py sets are there
    request.version, request.numMetrics = pynvml.NVML_GPM_METRICS_GET_VERSION, 1
    request.metrics[0].metricId = 5
    assert request.metrics[0].nvmlReturn == 0
