"""Bytes of a copy kernel, for exercise 1.4: counted by the interpreter's ledger, the same on every machine.

A copy of n elements of s bytes loads n*s bytes and stores n*s: 2*n*s in all, which over seconds gives the bandwidth that a copy
reaches. A kernel that asks for more reads twice, or moves elements that nobody wants.

copy_traffic(copy, x, out)  what the launches of `copy(x, out)` ask for, for a cell that shows it
counted_copy(points)        the criterion for an Exercise with the entry `copy(x, out) -> out`; runners/phase1_copy.py calls it
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...grading.criteria import Case, Counted
from ...grading.outcome import Mistake
from ..kernel_counts import counts_of
from .copy_cases import poison_of

if TYPE_CHECKING:
    from torch import Tensor

NOTHING_STORED = "Nothing was stored there: out still holds what it held before the call. Which elements do your programs reach?"


@dataclass(frozen=True, slots=True)
class CopyTraffic:
    """Requested bytes of a copy, caches left out. least_bytes: 2*n*s, what a copy of x cannot do without."""

    loaded_bytes: int
    stored_bytes: int
    least_bytes: int
    launches: int
    programs: int

    @property
    def bytes(self) -> int:
        return self.loaded_bytes + self.stored_bytes

    @property
    def times_the_least(self) -> float:
        """1.0 is a copy that moves each byte once; 0 bytes of 0 are that too."""
        return self.bytes / self.least_bytes if self.least_bytes else 1.0


def copy_traffic(copy: Callable[["Tensor", "Tensor"], Any], x: "Tensor", out: "Tensor") -> CopyTraffic:
    """Run `copy(x, out)` once, interpreted, and count what its launches ask for. x, out: any shape, the same in both.

    Bytes of atomics count as loaded and as stored. Raises the KernelMistake that ended a launch, ValueError for a function that
    launched no kernel, RuntimeError where nothing can be counted.
    """
    counts = counts_of(copy, x, out, otherwise="; what torch copies is not seen")
    return CopyTraffic(
        loaded_bytes=counts["loaded_bytes"] + counts["atomic_bytes"],
        stored_bytes=counts["stored_bytes"] + counts["atomic_bytes"],
        least_bytes=sum(copy_bounds({"x": x}).values()),
        launches=counts["launches"],
        programs=counts["programs"],
    )


def copy_bounds(case: Case) -> dict[str, int]:
    """The most that a copy of case["x"] may load and store: each byte once."""
    once = case["x"].numel() * case["x"].element_size()
    return {"loaded_bytes": once, "stored_bytes": once}


def copy_cases(seed: int) -> list[Case]:
    """Lengths around a power of two and one, in types of four, two and one byte; `out` arrives as NaN, or as -128."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    long = int(torch.randint(1100, 3000, (), generator=draw))
    kinds = [(long, torch.float32), (1, torch.float32), (1023, torch.bfloat16), (1024, torch.float16), (1025, torch.int8)]
    cases = []
    for n, dtype in kinds:
        x = torch.randint(-100, 100, (n,), generator=draw).to(dtype)
        named = f"{n} of {str(dtype).removeprefix('torch.')}"
        cases.append({"name": named, "x": x, "out": torch.full((n,), poison_of(dtype), dtype=dtype)})
    return cases


def check_copy(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import compare_tensor

    mistake = compare_tensor(output, case["x"], rtol=0)
    return Mistake(mistake.reason, NOTHING_STORED) if mistake and left_as_it_came(output, case["x"]) else mistake


def left_as_it_came(got: Any, x: "Tensor") -> bool:
    """True when every wrong element of `got` holds what `out` held before the call."""
    import torch

    if not isinstance(got, torch.Tensor) or got.shape != x.shape or got.dtype != x.dtype:
        return False
    empty = torch.tensor(poison_of(x.dtype), dtype=x.dtype)
    untouched = got.isnan() if empty.isnan() else got == empty
    same = (got == x) | (got.isnan() & x.isnan())
    return bool((same | untouched).all())


def counted_copy(points: int) -> Counted:
    """The criterion. Its evidence comes from the launches of the very attempt, replayed in a clean process."""
    return Counted(
        name="traffic", claim="loads and stores each byte once", points=points, cases=copy_cases, check=check_copy,
        run="copy_into", bounds=copy_bounds, launches=True, may_alias=True, may_change=("out",),
    )  # fmt: skip
