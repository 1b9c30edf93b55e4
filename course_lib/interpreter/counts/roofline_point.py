"""Where a launch stands on a GPU's roofline, by the data sheet: two points, because nobody knows what the caches will hold.

Requested  FLOP per requested byte: where a machine without caches would stand
Distinct   FLOP per distinct byte: where a machine whose caches hold everything would; a real one is between the two
The roof is the sheet's dense tensor-core rate for the launch's products (fp8 where all of them are fp8, else bf16).
"""

from dataclasses import dataclass

from ...hardware import GpuSpec, gpu_named
from .books import LaunchLedger

FP8 = ("fp8e4nv", "fp8e5")
ROOFED = ("bf16", "fp16", *FP8)


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """gpu: its name; precision: "bf16" or "fp8", whose dense peak is the roof; intensities in FLOP per byte.

    others  types of products that have another peak than this one (tf32, int8, ...)
    A launch without FLOPs has intensity 0 and 0 attainable TFLOP/s: it has a time floor and no place under the roof.
    """

    gpu: str
    precision: str
    peak_tflops: float
    gb_per_s: float
    flops: int
    requested_bytes: int
    distinct_bytes: int
    requested_intensity: float
    intensity: float
    others: tuple[str, ...] = ()

    @property
    def ridge(self) -> float:
        """FLOP per byte where the two limits meet."""
        return self.peak_tflops * 1e3 / self.gb_per_s

    @property
    def bound(self) -> str:
        """What limits it where caches hold everything: "memory" or "compute"."""
        return "memory" if self.intensity < self.ridge else "compute"

    @property
    def attainable_tflops(self) -> float:
        """With caches that hold everything: the most there can be."""
        return min(self.peak_tflops, self.intensity * self.gb_per_s / 1e3)

    @property
    def requested_attainable_tflops(self) -> float:
        """Without caches."""
        return min(self.peak_tflops, self.requested_intensity * self.gb_per_s / 1e3)

    @property
    def memory_floor_seconds(self) -> float:
        """No run can be faster: the distinct bytes at the sheet's bandwidth."""
        return self.distinct_bytes / (self.gb_per_s * 1e9)


def roofline_point(launch: LaunchLedger, gpu: str | GpuSpec) -> RooflinePoint:
    """A launch on the roofline of a GPU: a name of hardware/gpus.toml ("H100 SXM", "H200"), or a GpuSpec of your own."""
    spec = gpu_named(gpu)
    peak, precision = peak_of(launch, spec)
    return RooflinePoint(
        gpu=spec.name,
        precision=precision,
        peak_tflops=peak,
        gb_per_s=spec.hbm_gb_per_s,
        flops=launch.flops,
        requested_bytes=launch.total.bytes,
        distinct_bytes=launch.total.distinct_bytes,
        requested_intensity=launch.requested_intensity,
        intensity=launch.intensity,
        others=tuple(kind for kind in launch.dot_flops if kind not in ROOFED),
    )


def peak_of(launch: LaunchLedger, gpu: GpuSpec) -> tuple[float, str]:
    """(TFLOP/s, precision) of the roof that a launch is under."""
    fp8 = launch.dot_flops and all(kind in FP8 for kind in launch.dot_flops)
    return (gpu.fp8_tflops, "fp8") if fp8 and gpu.fp8_tflops else (gpu.half_tflops, gpu.half_precision)
