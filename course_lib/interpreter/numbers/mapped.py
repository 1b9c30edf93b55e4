"""tl.map_elementwise: a scalar function of the kernel's own, called for each element (compiled code runs it per thread)."""

from typing import Any

import numpy as np
import triton.language as tl

from ..values import Value, assembled
from .builder import semantic


def map_elementwise(function: Any, *args: Any, pack: Any = 1, **_: Any) -> Any:
    """args: blocks of one shape -> a block, or a tuple of blocks where `function` returns several values.

    With pack > 1 the function gets `pack` neighbours of each argument and returns `pack` values for each result.
    """
    pack = getattr(pack, "value", pack)
    shape = args[0].handle.data.shape
    rows = [arg.handle.moved(lambda x: x.reshape(-1, pack)) for arg in args]
    outcomes = []
    for i in range(rows[0].data.shape[0]):
        cells = [row.moved(lambda x, i=i, j=j: x[i, j : j + 1]) for row in rows for j in range(pack)]
        outcome = function(*(tl.tensor(cell, cell.dtype.scalar) for cell in cells))
        outcome = outcome if isinstance(outcome, (tuple, tl.tuple)) else (outcome,)
        outcomes.append([semantic.to_tensor(item).handle for item in outcome])
    results = []
    for first in range(0, len(outcomes[0]), pack):
        cells = [cell for outcome in outcomes for cell in outcome[first : first + pack]]
        results.append(_block(cells, shape))
    return results[0] if len(results) == 1 else tuple(results)


def _block(cells: list[Value], shape: tuple[int, ...]) -> Any:
    """Single values, one after the other, as one block."""
    value = assembled(cells, lambda parts: np.concatenate(parts).reshape(shape))
    return tl.tensor(value, tl.block_type(value.dtype, list(shape)))
