"""Interpolated modified Kneser-Ney over bytes (Chen and Goodman 1998, section 3): what counting alone predicts of the next byte.

    p_n(w | h) = max(c(h w) - D(c(h w)), 0) / c(h)  +  gamma(h) p_{n-1}(w | h without its first byte)
    gamma(h)   = (D1 N1(h) + D2 N2(h) + D3 N3+(h)) / c(h)

c counts occurrences at the highest order and, below it, in how many different left contexts the n-gram was seen. N1, N2, N3+ say
how many bytes followed h once, twice, more often; D1, D2, D3 follow from the counts of counts. An n-gram of up to 8 bytes is one
uint64, so every table is a sorted array, and only the highest order needs the text.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

LONGEST = 8  # bytes in a uint64


@dataclass(frozen=True, slots=True)
class Order:
    """One order's table: sorted n-grams with their counts, and their contexts with what is needed to share out the rest."""

    grams: "np.ndarray"  # uint64, sorted
    counts: "np.ndarray"
    contexts: "np.ndarray"  # uint64, sorted: the grams without their last byte
    totals: "np.ndarray"  # c(h)
    gammas: "np.ndarray"
    discounts: tuple[float, float, float]


class KneserNey:
    """Counts of all orders up to `order` over `text`; documents are parted by NUL bytes, which no document has."""

    def __init__(self, text: bytes, order: int) -> None:
        import numpy as np

        if not 2 <= order <= LONGEST:
            raise ValueError(f"order {order} is not possible; use 2 to {LONGEST}, the bytes of one uint64")
        grams = _windows(np.frombuffer(text, dtype=np.uint8), order)
        grams.sort()
        grams, counts = _counted(grams)
        self.orders = [_order(grams, counts)]
        for n in range(order - 1, 0, -1):
            # how many different bytes stand before it: each longer n-gram counts once
            grams = grams & np.uint64(2 ** (8 * n) - 1)
            grams.sort()
            grams, counts = _counted(grams)
            self.orders.insert(0, _order(grams, counts))

    @property
    def grams(self) -> int:
        """N-grams of all orders together."""
        return sum(len(order.grams) for order in self.orders)

    def probabilities(self, document: bytes) -> "np.ndarray":
        """p(byte | the bytes before it) for every byte of a document; its first has NULs before it."""
        import numpy as np

        n = len(self.orders)
        padded = np.frombuffer(b"\0" * (n - 1) + document, dtype=np.uint8)
        long = _windows(padded, n)
        p = np.full(len(document), 1 / 256)
        for length, order in enumerate(self.orders, 1):
            keys = long & np.uint64(2 ** (8 * length) - 1) if length < 8 else long
            count = _look_up(order.grams, order.counts, keys)
            context = keys >> np.uint64(8)
            total, gamma = (_look_up(order.contexts, values, context) for values in (order.totals, order.gammas))
            discount = np.array([0.0, *order.discounts])[np.minimum(count, 3).astype(np.int64)]
            seen = total > 0  # a context that never came leaves everything to the lower order
            p = np.where(seen, (count - discount) / np.where(seen, total, 1) + np.where(seen, gamma, 1) * p, p)
        return p


def _windows(text: "np.ndarray", n: int) -> "np.ndarray":
    """Every n consecutive bytes as one number, the first byte highest."""
    import numpy as np

    keys = np.zeros(len(text) - n + 1, dtype=np.uint64)
    for i in range(n):
        np.left_shift(keys, np.uint64(8), out=keys)
        np.bitwise_or(keys, text[i : i + len(keys)], out=keys, casting="unsafe")
    return keys


def _counted(ordered: "np.ndarray") -> tuple["np.ndarray", "np.ndarray"]:
    """The different values of a sorted array, and how often each is there."""
    import numpy as np

    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    return ordered[starts], np.diff(starts, append=len(ordered)).astype(np.uint32)


def _order(grams: "np.ndarray", counts: "np.ndarray") -> Order:
    import numpy as np

    of_counts = [int((counts == k).sum()) for k in (1, 2, 3, 4)]
    discounts = _discounts(of_counts)
    context = grams >> np.uint64(8)
    starts = np.flatnonzero(np.concatenate(([True], context[1:] != context[:-1])))
    totals = np.add.reduceat(counts, starts, dtype=np.float64)
    reserved = np.array([0.0, *discounts])[np.minimum(counts, 3)]
    gammas = np.add.reduceat(reserved, starts) / totals
    return Order(grams, counts, context[starts], totals, gammas, discounts)


def _discounts(of_counts: list[int]) -> tuple[float, float, float]:
    """D1, D2, D3+ from how many n-grams came 1, 2, 3, 4 times; 0.5, 1, 1.5 where the text is too small to tell."""
    n1, n2, n3, n4 = of_counts
    if not all(of_counts):
        return 0.5, 1.0, 1.5
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return tuple(min(max(d, 0.0), k) for d, k in zip(found, (1.0, 2.0, 3.0), strict=True))


def _look_up(keys: "np.ndarray", values: "np.ndarray", wanted: "np.ndarray") -> "np.ndarray":
    """values[keys == wanted], 0 where the key is not there."""
    import numpy as np

    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, values[place], 0).astype(np.float64)
