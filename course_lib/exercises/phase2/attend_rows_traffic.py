"""Bytes of a softmax over rows, for a cell of exercise 2.2 that shows them: counted by the interpreter's ledger."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..kernel_counts import counts_of
from .attend_rows_cases import RESULT_BYTES

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class RowsTraffic:
    """Requested bytes, caches left out. least_bytes: each score once, the values once for each row, the results once."""

    loaded_bytes: int
    stored_bytes: int
    least_bytes: int
    programs: int

    @property
    def times_the_least(self) -> float:
        return (self.loaded_bytes + self.stored_bytes) / self.least_bytes


def rows_traffic(attend: Callable[["Tensor", "Tensor"], Any], scores: "Tensor", values: "Tensor") -> RowsTraffic:
    """Run `attend(scores [rows, n], values [n])` once, interpreted, and count what its launches ask for.

    Raises the KernelMistake that ended a launch, ValueError for a function that launched no kernel.
    """
    counts = counts_of(attend, scores, values)
    rows, keys = scores.shape
    return RowsTraffic(
        loaded_bytes=counts["loaded_bytes"] + counts["atomic_bytes"],
        stored_bytes=counts["stored_bytes"] + counts["atomic_bytes"],
        least_bytes=rows * (keys * (scores.element_size() + values.element_size()) + RESULT_BYTES),
        programs=counts["programs"],
    )
