"""Bytes of a softmax over rows, for a cell of exercise 2.2 that shows them: counted by the interpreter's ledger."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    from ...interpreter.trace import trace
    from .attend_rows_cases import RESULT_BYTES

    traced = trace(attend, (scores, values), {})
    if traced.mistake is not None:
        raise traced.mistake
    ledgers = [launch.ledger for launch in traced.launches]
    if not ledgers:
        raise ValueError(f"{getattr(attend, '__name__', 'the function')} launched no kernel, so there are no bytes to count")
    rows, keys = scores.shape
    return RowsTraffic(
        loaded_bytes=sum(ledger.total.loaded_bytes + ledger.total.atomic_bytes for ledger in ledgers),
        stored_bytes=sum(ledger.total.stored_bytes + ledger.total.atomic_bytes for ledger in ledgers),
        least_bytes=rows * (keys * (scores.element_size() + values.element_size()) + RESULT_BYTES),
        programs=sum(ledger.programs for ledger in ledgers),
    )
