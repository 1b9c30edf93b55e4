"""Which keys each query of a step may see: the one place where causality, padding, ragged batches and windows are decided.

Rule   a query at position p sees the keys at positions max(0, p - window + 1) ... p. Position -1 is padding: as a query it sees
       nothing, as a key nobody sees it. With a cache, key slot s holds position s, so the mask is aligned bottom-right by itself:
       2 new tokens after 3 cached ones stand at positions 3 and 4, and see slots 0..3 and 0..4.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(slots=True)
class Span:
    """Queries and keys of one step of a decoder, the same for all of its layers.

    positions      [batch or 1, q_len] int64 of the queries; the first dimension is 1 where all rows have the same
    keys           slots of keys that `attend` gets, counted from slot 0
    window         a query sees at most so many keys; None: all before it
    start          host-side knowledge: every row has positions start ... start + q_len - 1; None where rows differ or are padded
    key_positions  [batch, keys] where slots do not hold their own position (no cache, padded rows); None: slot s holds position s
    rows           host-side knowledge of ragged steps: the first position and the number of new tokens of each row
    """

    positions: Tensor
    keys: int
    window: int | None = None
    start: int | None = None
    key_positions: Tensor | None = None
    rows: Sequence[tuple[int, int]] = ()
    _mask: Tensor | None = None

    @property
    def q_len(self) -> int:
        return self.positions.shape[-1]

    @property
    def sees_all(self) -> bool:
        """Every query sees every key: one new token, after a past that the window holds."""
        fits = self.window is None or self.keys <= self.window
        return self.start is not None and self.q_len == 1 and fits

    @property
    def is_causal_square(self) -> bool:
        """A whole prompt from its beginning: the lower triangle, which kernels know without a mask."""
        fits = self.window is None or self.keys <= self.window
        return self.start == 0 and self.q_len == self.keys and fits

    @property
    def padded(self) -> bool:
        """Rows differ or have padding, so some query may see no key, and the last place of a row need not be its last token."""
        return self.start is None

    def mask(self) -> Tensor:
        """[batch or 1, 1, q_len, keys] bool, True where the query sees the key; made once a step."""
        if self._mask is None:
            queries = self.positions[:, :, None]
            slots = torch.arange(self.keys, device=queries.device)[None] if self.key_positions is None else self.key_positions
            slots = slots[:, None, :]
            seen = (slots <= queries) & (slots >= 0)
            if self.window is not None:
                seen &= slots > queries - self.window
            self._mask = seen[:, None]
        return self._mask
