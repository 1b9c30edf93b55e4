"""The numbers of tl.dot: products exact, sums in the accumulator's type, float32 factors cut as input_precision says.

Not here: the limited accumulator of fp8 products on Hopper (QGMMA keeps fewer bits than float32 between promotions), and
the order of the sums; both change the last places.
"""

from typing import Any

import numpy as np

from .formats import round_to
from .rounding import cut_to_tf32, tf32

# The tensor core cuts a float32 factor to tf32; the compiler rounds the parts of tf32x3 to nearest before.
# (first, second) parts whose products are added, smallest first; part 0 is the factor rounded, part 1 what that left, ...
_SPLITS: dict[str, tuple[int, Any, tuple[tuple[int, int], ...]]] = {
    "TF32": (1, cut_to_tf32, ((0, 0),)),
    "TF32X3": (2, tf32, ((1, 0), (0, 1), (0, 0))),
    "BF16X3": (2, lambda x: round_to(x, "bf16"), ((1, 0), (0, 1), (0, 0))),
    "BF16X6": (3, lambda x: round_to(x, "bf16"), ((1, 1), (2, 0), (0, 2), (1, 0), (0, 1), (0, 0))),
}


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
