"""What compiling a kernel showed, target by target, and as the evidence that a `compiled` criterion weighs."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .targets import TARGETS


@dataclass(frozen=True, slots=True)
class TargetReport:
    """One kernel on one target. Nothing but `why_not` and `where` is meaningful when it does not compile.

    why_not         the compiler's sentence, with the line of the kernel's own file that it is about
    where           that file and line, or None
    shared_bytes    shared memory of one block; more than shared_limit_bytes compiles, and then cannot be launched
    registers       of one thread
    spills          registers that did not fit and go through memory; None where that is not asked (sm_75)
    stack_bytes     local memory of one thread, spills included
    tensor_cores    instruction -> how often it stands in the code: HMMA, IMMA, HGMMA, QGMMA, UTCHMMA, MFMA, ...
    tma             tensor copies by the Tensor Memory Accelerator: some are in the code
    widest_*_bits   widest access to global memory by one thread; 0 where there is none but TMA
    num_warps       warps of a block, those that a warp-specialised kernel adds included
    read_from       "sass", "ptx" (a fallback: what the assembler did is not seen) or "amdgcn"
    notes           what the compiler remarked, and what a reader should know about this target
    """

    target: str
    compiles: bool
    why_not: str = ""
    where: tuple[str, int] | None = None
    shared_bytes: int = 0
    registers: int | None = None
    spills: int | None = None
    stack_bytes: int | None = None
    tensor_cores: Mapping[str, int] = field(default_factory=dict)
    tma: bool = False
    widest_load_bits: int = 0
    widest_store_bits: int = 0
    num_warps: int = 0
    read_from: str = ""
    notes: tuple[str, ...] = ()

    @property
    def shared_limit_bytes(self) -> int:
        return TARGETS[self.target].shared_limit_bytes

    @property
    def fits(self) -> bool:
        """Compiles, and a block's shared memory is there."""
        return self.compiles and self.shared_bytes <= self.shared_limit_bytes

    def evidence(self) -> dict[str, Any]:
        """Plain data. `spills` is 0 where they are not asked for, so that no criterion fails on it."""
        data = dataclasses.asdict(self) | {"shared_limit_bytes": self.shared_limit_bytes, "spills": self.spills or 0}
        data["tensor_cores"] = dict(self.tensor_cores)
        data["notes"] = list(self.notes)
        del data["where"]
        return data


@dataclass(frozen=True, slots=True)
class CompileReport:
    """A kernel on several targets, in the order asked for. `remarks` say what was chosen for the caller (an autotune config)."""

    kernel: str
    triton: str
    targets: tuple[TargetReport, ...]
    remarks: tuple[str, ...] = ()

    def __getitem__(self, target: str) -> TargetReport:
        for report in self.targets:
            if report.target == target:
                return report
        raise KeyError(f"{self.kernel} was not compiled for {target}, only for {', '.join(r.target for r in self.targets)}")

    def evidence(self) -> dict[str, Any]:
        """In the shape that grading.criteria.Compiled weighs."""
        return {"targets": [report.evidence() for report in self.targets]}
