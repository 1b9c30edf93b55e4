"""NVML through its C library: the structures are those of the real binding, and what is refused is named. A fake answers."""

import ctypes
import time

import pytest

from course_lib.workloads.device_counters import CountersUnavailableError, DeviceCounters, GpmMetric, GpmMetricsGet, Rates

UUID = "GPU-12345678-1234-1234-1234-123456789abc"


class FakeLibrary:
    """Answers as libnvidia-ml.so.1 does: each call returns a code and writes its answer where it is told to."""

    def __init__(self, refuse=None, gpm_code=0):
        self.refuse, self.gpm_code = refuse or {}, gpm_code
        self.inits = self.shutdowns = self.samples = self.taken = self.millijoules = 0
        self.when = {}

    def __getattribute__(self, name):
        refuse = object.__getattribute__(self, "refuse") if name.startswith("nvml") else {}
        if refuse.get(name) == "absent":
            raise AttributeError(name)
        return (lambda *_: refuse[name]) if name in refuse else object.__getattribute__(self, name)

    def nvmlInit_v2(self):
        self.inits += 1
        return 0

    def nvmlShutdown(self):
        self.shutdowns += 1
        return 0

    def nvmlDeviceGetHandleByUUID(self, uuid, handle):
        assert uuid == UUID.encode()
        handle._obj.value = 77
        return 0

    def nvmlGpmSampleAlloc(self, sample):
        self.samples += 1
        sample._obj.value = self.samples
        return 0

    def nvmlGpmSampleFree(self, sample):
        self.samples -= 1
        return 0

    def nvmlGpmSampleGet(self, device, sample):
        assert device.value == 77
        self.taken += 1
        self.when[sample.value] = self.taken
        return 0

    def nvmlGpmMetricsGet(self, request):
        asked = request._obj
        assert (asked.version, asked.numMetrics) == (1, 2)
        assert self.when[asked.sample1] < self.when[asked.sample2], "the earlier sample comes first"
        for place, (number, value) in enumerate(((5, 1.5), (10, 62.5))):
            assert asked.metrics[place].metricId == number
            asked.metrics[place].value, asked.metrics[place].nvmlReturn = value, self.gpm_code
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, device, value):
        self.millijoules += 5000
        value._obj.value = 2**40 + self.millijoules  # beyond 32 bits
        return 0

    def nvmlDeviceGetUtilizationRates(self, device, rates):
        rates._obj.gpu, rates._obj.memory = 100, 3
        return 0

    def nvmlDeviceGetPowerUsage(self, device, value):
        value._obj.value = 130_500
        return 0

    def nvmlDeviceGetEnforcedPowerLimit(self, device, value):
        value._obj.value = 700_000
        return 0

    def nvmlDeviceGetClockInfo(self, device, kind, value):
        assert kind == 1
        value._obj.value = 1980
        return 0

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, device, value):
        value._obj.value = 0x4
        return 0


def test_samples_have_the_shape_that_exercise_1_7_takes():
    library = FakeLibrary()
    with DeviceCounters(UUID, library) as counters:
        counters.start(0.01)
        time.sleep(0.05)
        samples = counters.stop()
        assert counters.power_limit_watts() == 700.0
    assert len(samples) >= 3
    assert samples[0]["gpm"] is None
    assert samples[-1] == {
        "seconds": samples[-1]["seconds"], "energy_mj": 2**40 + 5000 * len(samples), "power_mw": 130_500, "busy_percent": 100,
        "memory_busy_percent": 3, "sm_mhz": 1980, "reasons": 4, "gpm": {"tensor_percent": 1.5, "dram_percent": 62.5},
    }  # fmt: skip
    assert [s["seconds"] for s in samples] == sorted(s["seconds"] for s in samples)
    assert (library.inits, library.shutdowns, library.samples) == (1, 1, 0)


@pytest.mark.parametrize(("settings", "said"), [
    ({"refuse": {"nvmlInit_v2": 9}}, "nvmlInit_v2 answers: driver not loaded"),
    ({"refuse": {"nvmlDeviceGetHandleByUUID": 6}}, "not found"),
    ({"refuse": {"nvmlGpmSampleGet": 3}}, "nvmlGpmSampleGet answers: not supported .code 3.; these points need"),
    ({"refuse": {"nvmlGpmSampleAlloc": "absent"}}, "this driver's NVML has no nvmlGpmSampleAlloc"),
    ({"refuse": {"nvmlDeviceGetTotalEnergyConsumption": 4}}, "no permission"),
    ({"gpm_code": 3}, "GPM gives no tensor or memory activity"),
])  # fmt: skip
def test_what_is_refused_is_named_and_nothing_stays_open(settings, said):
    library = FakeLibrary(**settings)
    with pytest.raises(CountersUnavailableError, match=said), DeviceCounters(UUID, library) as counters:
        counters.start(0.01)
    assert library.samples == 0
    assert library.inits <= library.shutdowns


def test_a_failure_in_the_thread_comes_out_at_stop():
    library = FakeLibrary()
    with DeviceCounters(UUID, library) as counters:
        counters.start(0.01)
        library.refuse["nvmlDeviceGetPowerUsage"] = 4
        counters._thread.join(10)
        library.refuse.clear()  # what is asked for in the end would be answered
        with pytest.raises(CountersUnavailableError, match="nvmlDeviceGetPowerUsage"):
            counters.stop()


def test_the_structures_are_those_of_the_real_binding():
    pynvml = pytest.importorskip("pynvml")
    pairs = [(GpmMetric, pynvml.c_nvmlGpmMetric_t, ("metricId", "nvmlReturn", "value"))]
    pairs.append((Rates, pynvml.c_nvmlUtilization_t, ("gpu", "memory")))
    for ours, theirs, names in pairs:
        assert ctypes.sizeof(ours) == ctypes.sizeof(theirs)
        for name in names:
            assert getattr(ours, name).offset == getattr(theirs, name).offset
            assert getattr(ours, name).size == getattr(theirs, name).size
    for name in ("version", "numMetrics", "sample1", "sample2", "metrics"):
        assert getattr(GpmMetricsGet, name).offset == getattr(pynvml.c_nvmlGpmMetricsGet_t, name).offset
    assert ctypes.sizeof(GpmMetricsGet) >= ctypes.sizeof(pynvml.c_nvmlGpmMetricsGet_t)
