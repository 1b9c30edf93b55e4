"""Data sheet figures of GPUs, read from gpus.toml. Peaks are dense; a share of a sparse peak means nothing for an LLM.

Here the sheet speaks. What a device reaches is measured on it (roofs.py), and is lower.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

# GB/s of one lane, one direction, rounded as data sheets round it (PCI Express base specifications 3.0 to 6.0)
_PCIE_LANE_GB_PER_S = {"3.0": 1.0, "4.0": 2.0, "5.0": 4.0, "6.0": 8.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """One row of gpus.toml, which says what each figure means. A peak that the chip does not have is None."""

    key: str
    name: str
    capability: str  # "9.0"; on AMD the LLVM target, "gfx942"
    sms: int  # AMD: compute units
    fp32_tflops: float  # ordinary arithmetic, no tensor cores
    fp16_tflops: float
    int8_tops: float
    hbm_gb_per_s: float  # 1 GB = 1e9 bytes
    hbm_gb: int
    l2_mb: int  # 2**20 bytes
    smem_per_sm_kb: int  # 2**10 bytes
    smem_per_block_kb: int
    pcie: str  # "5.0 x16"
    board_watts: int
    names: tuple[str, ...]  # as the driver gives them, without "NVIDIA "
    source: str
    bf16_tflops: float | None = None
    fp8_tflops: float | None = None
    link: str | None = None  # None: PCIe only
    link_gb_per_s: float = 0  # both directions together; 0 without a link
    warp: int = 32  # threads that run in step

    @property
    def pcie_gb_per_s(self) -> float:
        """Both directions together, as link_gb_per_s: 128 for "5.0 x16"."""
        generation, lanes = self.pcie.split(" x")
        return 2 * _PCIE_LANE_GB_PER_S[generation] * int(lanes)

    @property
    def half_precision(self) -> str:
        """The 16-bit type that this chip multiplies: "bf16", or "fp16" where it has no bf16."""
        return "fp16" if self.bf16_tflops is None else "bf16"

    @property
    def half_tflops(self) -> float:
        """Dense peak of `half_precision`; every chip here has one."""
        return self.fp16_tflops if self.bf16_tflops is None else self.bf16_tflops

    def peak_tflops(self, precision: str) -> float | None:
        """Dense peak for "bf16", "fp16", "fp8", "int8" or "fp32" (TFLOP/s, TOP/s); None where the chip has no such unit."""
        peaks = {
            "bf16": self.bf16_tflops, "fp16": self.fp16_tflops, "fp8": self.fp8_tflops, "int8": self.int8_tops,
            "fp32": self.fp32_tflops,
        }  # fmt: skip
        if precision not in peaks:
            raise ValueError(f"no peak for precision {precision!r}; use one of {sorted(peaks)}")
        return peaks[precision]

    def ridge_flops_per_byte(self, precision: str = "bf16") -> float | None:
        """Where arithmetic and memory take equally long: peak over bandwidth; None without such a peak."""
        peak = self.peak_tflops(precision)
        return None if peak is None else peak * 1e3 / self.hbm_gb_per_s


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
    """As people write it: a key ("h100-sxm"), a name ("H100 SXM"), what the driver prints, or the start of one name ("H200").

    A GpuSpec is handed back, so that a GPU which gpus.toml lacks can be given as one. ValueError for any other name.
    """
    if isinstance(name, GpuSpec):
        return name
    known, wanted = list(all_specs().values()), str(name).strip().casefold()
    for gpu in known:
        if wanted in (gpu.key.casefold(), gpu.name.casefold()):
            return gpu
    if found := find_spec(str(name)):
        return found
    begun = [gpu for gpu in known if wanted and gpu.name.casefold().split()[0] == wanted]
    if len(begun) == 1:
        return begun[0]
    if begun:
        raise ValueError(f"GPU {name!r} can be {' or '.join(gpu.name for gpu in begun)}; say which")
    raise ValueError(f"GPU {name!r} is not known; use one of {', '.join(gpu.name for gpu in known)}, or give a GpuSpec")
