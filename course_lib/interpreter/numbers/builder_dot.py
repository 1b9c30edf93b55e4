"""tl.dot: products exact, sums in the accumulator's type, float32 factors cut as input_precision says.

Not here: the limited accumulator of fp8 products on Hopper (QGMMA keeps fewer bits than float32 between promotions), and
the order of the sums; both change the last places.
"""

import math
from typing import Any

import numpy as np

from ..values import Doubt, Value, joined, origins_of
from .format_codes import round_to
from .rounding import cut_to_tf32, tf32

# The tensor core cuts a float32 factor to tf32; the compiler rounds the parts of tf32x3 to nearest before.
# (first, second) parts whose products are added, smallest first; part 0 is the factor rounded, part 1 what that left, ...
_SPLITS: dict[str, tuple[int, Any, tuple[tuple[int, int], ...]]] = {
    "TF32": (1, cut_to_tf32, ((0, 0),)),
    "TF32X3": (2, tf32, ((1, 0), (0, 1), (0, 0))),
    "BF16X3": (2, lambda x: round_to(x, "bf16"), ((1, 0), (0, 1), (0, 0))),
    "BF16X6": (3, lambda x: round_to(x, "bf16"), ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0))),
}


class Products:
    """Mixin of the builder. `self.launch` is the running Launch."""

    launch: Any

    def create_dot(self, a: Value, b: Value, d: Value, input_precision: Any, max_num_imprecise_acc: Any) -> Value:
        """A doubtful factor makes its whole row or column of the product doubtful."""
        wanted = {"int8": "int32", "fp64": "fp64"}.get(a.dtype.scalar.name)
        into = d.dtype.scalar
        if (wanted and into.name != wanted) or (into.is_int() and (a.dtype.scalar.is_fp8() or a.dtype.scalar.is_fp16())):
            raise self.launch.mistake("refused", f"tl.dot of {a.dtype.scalar} cannot add up in {into}; use {wanted or 'fp32'}")
        data, kind = product(a.data, b.data, d.data, a.dtype.scalar.name, input_precision)
        if self.launch.account is not None:
            *batch, m, k = a.data.shape
            self.launch.account.dot(kind, 2 * math.prod(batch) * m * b.data.shape[-1] * k, self.launch.line())
        doubt = None
        if a.doubt is not None or b.doubt is not None or d.doubt is not None:
            rows = np.bitwise_or.reduce(a.doubt.kinds, axis=-1, keepdims=True) if a.doubt else np.uint8(0)
            columns = np.bitwise_or.reduce(b.doubt.kinds, axis=-2, keepdims=True) if b.doubt else np.uint8(0)
            doubt = joined(data.shape, d.doubt, Doubt(np.broadcast_to(rows | columns, data.shape), origins_of([a, b, d])))
        return Value(data, d.dtype.scalar, doubt=doubt)


def product(a: np.ndarray, b: np.ndarray, acc: np.ndarray, kind: str, precision: Any) -> tuple[np.ndarray, str]:
    """a: [..., m, k], b: [..., k, n], acc: [..., m, n] -> (a @ b + acc in acc's type, name of the arithmetic).

    kind       Triton's name of the factors' type; precision: Triton's INPUT_PRECISION, which matters for fp32 only
    """
    if kind in ("int8", "uint8"):
        # float64 holds these sums exactly, and its matmul is the fast one
        whole = np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)
        return whole.astype(acc.dtype) + acc, kind
    if kind == "fp64":
        return (np.matmul(a, b) + acc).astype(acc.dtype, copy=False), kind
    left, right = a.astype(np.float32, copy=False), b.astype(np.float32, copy=False)
    name = str(precision).rsplit(".", 1)[-1].upper()
    if kind != "fp32" or name not in _SPLITS:
        return (np.matmul(left, right) + acc).astype(acc.dtype, copy=False), kind
    count, cut, pairs = _SPLITS[name]
    lefts, rights = _parts(left, count, cut), _parts(right, count, cut)
    total = np.matmul(lefts[pairs[0][0]], rights[pairs[0][1]])
    for first, second in pairs[1:]:
        if (first, second) == (0, 0):
            total = np.where(np.isnan(total), np.float32(0), total)  # inf - inf in the small parts: the large ones tell
        total = total + np.matmul(lefts[first], rights[second])
    return (total + acc).astype(acc.dtype, copy=False), "tf32" if name == "TF32" else kind


def _parts(values: np.ndarray, count: int, cut: Any) -> list[np.ndarray]:
    parts, rest = [], values
    for _ in range(count):
        parts.append(cut(rest))
        rest = rest - parts[-1]
    return parts
