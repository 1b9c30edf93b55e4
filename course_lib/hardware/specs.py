"""Data sheet figures of GPUs, read from gpus.toml. Peaks are dense; a share of a sparse peak means nothing for an LLM.

Here the sheet speaks. What a device reaches is measured on it, and is lower.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One row of gpus.toml. A peak that the chip does not have is None."""

    key: str
    name: str
    capability: str
    sms: int
    bf16_tflops: float
    hbm_gb_per_s: float  # 1 GB = 1e9 bytes
    hbm_gb: int
    nvlink_gb_per_s: int  # both directions together
    names: tuple[str, ...]  # as the driver gives them, without "NVIDIA "
    source: str
    fp8_tflops: float | None = None

    def peak_tflops(self, precision: str) -> float | None:
        """Dense peak for "bf16" or "fp8"; None where the chip has no such unit."""
        peaks = {"bf16": self.bf16_tflops, "fp8": self.fp8_tflops}
        if precision not in peaks:
            raise ValueError(f"no peak for precision {precision!r}; use one of {sorted(peaks)}")
        return peaks[precision]


@cache
def all_specs() -> dict[str, GpuSpec]:
    """Every GPU of gpus.toml by its key, in the order of the file."""
    rows = tomllib.loads((resources.files(__package__) / "gpus.toml").read_text(encoding="utf-8"))
    return {key: GpuSpec(key=key, **row | {"names": tuple(row["names"])}) for key, row in rows.items()}


def spec(key: str) -> GpuSpec:
    """The GPU "h100-sxm". Raises KeyError, naming the known ones."""
    known = all_specs()
    if key not in known:
        raise KeyError(f"no GPU {key!r} in gpus.toml; it has {', '.join(known)}")
    return known[key]


def find_spec(device_name: str) -> GpuSpec | None:
    """The row for a name as the driver prints it ("NVIDIA H100 80GB HBM3"), or None when gpus.toml does not know it.

    Names are compared in full: a "NVIDIA H200 NVL" or a "NVIDIA GH200 480GB" has other figures than the "NVIDIA H200".
    """
    name = device_name.removeprefix("NVIDIA ").strip()
    return next((gpu for gpu in all_specs().values() if name in gpu.names), None)


def gpu_named(name: str | GpuSpec) -> GpuSpec:
    """As people write it: a key ("h100-sxm"), a name ("H100 SXM"), what the driver prints, or the start of one name ("A100").

    A GpuSpec is handed back, so that a GPU which gpus.toml lacks can be given as one. ValueError for any other name.
    """
    if isinstance(name, GpuSpec):
        return name
    known, wanted = list(all_specs().values()), name.strip().casefold()
    for gpu in known:
        if wanted in (gpu.key.casefold(), gpu.name.casefold()):
            return gpu
    if found := find_spec(name):
        return found
    begun = [gpu for gpu in known if wanted and gpu.name.casefold().split()[0] == wanted]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise ValueError(f"GPU {name!r} can be {' or '.join(gpu.name for gpu in begun)}; say which")
    raise ValueError(f"GPU {name!r} is not known; use one of {', '.join(gpu.name for gpu in known)}, or give a GpuSpec")
