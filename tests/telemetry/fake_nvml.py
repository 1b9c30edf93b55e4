"""A pynvml that obeys: one device whose counters a test sets, and which fails where a test says so."""

from types import SimpleNamespace


class NVMLError(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value

    def __str__(self):
        return {1: "Uninitialized", 3: "Not Supported", 4: "Insufficient Permissions", 12: "NVML Shared Library Not Found"}.get(
            self.value, "Unknown Error"
        )


class FakeNvml:
    """Stands in for the module pynvml.

    refuse   name of a call -> the error code that it raises
    energy   millijoules, each reading takes the next value and the last one stays; likewise power (mW) and masks
    """

    NVMLError = NVMLError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_GPM_METRICS_GET_VERSION = 1

    def __init__(self, *, refuse=None, energy=(1000,), power=(250_000,), masks=(0,), gpm=None, gpm_supported=True, mig=False):
        self.refuse = dict(refuse or {})
        self.energy, self.power, self.masks = list(energy), list(power), list(masks)
        self.gpm = {2: 99.0, 3: 12.0, 5: 0.5, 7: 0.5, 10: 80.0, 12: 1.0, 20: 2.0, 21: 4.0} | (gpm or {})
        self.gpm_supported, self.mig = gpm_supported, mig
        self.inits = self.shutdowns = 0
        self.allocated, self.clock = 0, 0

    def __getattribute__(self, name):
        value = object.__getattribute__(self, name)
        if not name.startswith("nvml"):
            return value

        def call(*arguments):
            if name in self.refuse:
                raise NVMLError(self.refuse[name])
            if name != "nvmlInit" and self.inits <= self.shutdowns:
                raise NVMLError(1)
            return value(*arguments)

        return call

    def nvmlInit(self):
        self.inits += 1

    def nvmlShutdown(self):
        self.shutdowns += 1

    def nvmlSystemGetDriverVersion(self):
        return "580.1"

    def nvmlDeviceGetHandleByIndex(self, index):
        return f"handle {index}"

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return f"handle {uuid}"

    def nvmlDeviceGetTotalEnergyConsumption(self, handle):
        return self.energy.pop(0) if len(self.energy) > 1 else self.energy[0]

    def nvmlDeviceGetPowerUsage(self, handle):
        return self.power.pop(0) if len(self.power) > 1 else self.power[0]

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self.masks.pop(0) if len(self.masks) > 1 else self.masks[0]

    def nvmlDeviceGetUtilizationRates(self, handle):
        return SimpleNamespace(gpu=100, memory=37)

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(used=7 * 2**30, total=141 * 10**9, free=0)

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetTemperature(self, handle, sensor):
        return 51

    def nvmlDeviceGetFanSpeed(self, handle):
        raise NVMLError(3)  # a passive board

    def nvmlDeviceGetPcieThroughput(self, handle, way):
        return {0: 5000, 1: 7000}[way]

    def nvmlDeviceGetMigMode(self, handle):
        return [int(self.mig), int(self.mig)]

    def nvmlGpmQueryDeviceSupport(self, handle):
        return SimpleNamespace(isSupportedDevice=int(self.gpm_supported))

    def nvmlGpmSampleAlloc(self):
        self.allocated += 1
        return SimpleNamespace(taken=None)

    def nvmlGpmSampleFree(self, sample):
        self.allocated -= 1

    def nvmlGpmSampleGet(self, handle, sample):
        self.clock += 1
        sample.taken = self.clock

    def c_nvmlGpmMetricsGet_t(self):
        metrics = [SimpleNamespace(metricId=0, nvmlReturn=0, value=0.0) for _ in range(400)]
        return SimpleNamespace(version=0, numMetrics=0, sample1=None, sample2=None, metrics=metrics)

    def nvmlGpmMetricsGet(self, request):
        assert request.version == 1
        assert request.sample1.taken < request.sample2.taken, "the earlier sample comes first"
        for metric in request.metrics[: request.numMetrics]:
            value = self.gpm[metric.metricId]
            metric.nvmlReturn, metric.value = (3, 0.0) if value is None else (0, value)
        return request
