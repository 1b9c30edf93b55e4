"""Attention over a sliding window with sinks, for a whole text at once: what a model sees that keeps a RingCache's tokens only.

    model.parts = replace(model.parts, attend=WindowAttend(model.config, window=256, sinks=4))

Seen       the query at position p: the first `sinks` positions, and the last `window` up to and with p (kvcache/ring.py).
Positions  keys come rotated by their place in the text. "text" leaves it so: a sink's distance grows without end. "rank" gives
           each key its rank among those that are seen, as arXiv 2309.17453 does: the window's distances stay what they were, and
           the query is turned back for the sinks, so that their distance stops at sinks + window - 1.
Not here   a cache. A step that goes on from one is refused: keys of every layer are needed from the text's beginning.
"""

from typing import Literal

import torch
from torch import Tensor

from .config import ModelConfig
from .rope import inverse_frequencies, rotate, turns
from .span import Span

CHUNK = 256  # queries at a time: scores of [heads, CHUNK, sinks + CHUNK + window] are in memory


class WindowAttend:
    """An `Attend` part (parts.py). window None: all keys up to the query."""

    def __init__(
        self, config: ModelConfig, window: int | None, sinks: int = 0, positions: Literal["text", "rank"] = "rank"
    ) -> None:
        if (window is not None and window < 1) or sinks < 0 or positions not in ("text", "rank"):
            raise ValueError(
                f"window {window}, sinks {sinks}, positions {positions!r}; use at least 1 (or None), 0, text or rank"
            )
        self.window, self.sinks, self.positions = window, sinks, positions
        self._frequencies = inverse_frequencies(config)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, span: Span, scale: float) -> Tensor:
        """q [batch, length, heads, dim], k, v [batch, length, kv_heads, dim] -> like q."""
        if not (span.start == 0 and span.q_len == span.keys):
            raise ValueError("a window over a whole text: call the model without a cache, on texts of one length")
        parts = [self._chunk(q, k, v, start, scale) for start in range(0, span.q_len, CHUNK)]
        return torch.cat(parts, dim=1)

    def _chunk(self, q: Tensor, k: Tensor, v: Tensor, start: int, scale: float) -> Tensor:
        """The queries from `start` on, over the sinks and the keys from the first one's window on."""
        stop = min(start + CHUNK, q.shape[1])
        first = 0 if self.window is None else max(start - self.window + 1, 0)
        sinks = min(self.sinks, stop)
        kept = torch.tensor([*range(sinks), *range(max(first, sinks), stop)])
        queries = torch.arange(start, stop)[:, None]
        seen = kept <= queries
        if self.window is not None:
            seen &= (kept > queries - self.window) | (kept < self.sinks)
        group = q.shape[2] // k.shape[2]
        keys, values = (x[:, kept].repeat_interleave(group, dim=2) for x in (k, v))
        asked = q[:, start:stop]
        scores = torch.einsum("bqhd,bkhd->bhqk", asked, keys) * scale
        if sinks and self.window is not None and self.positions == "rank":
            ahead = (queries[:, 0] - (self.sinks + self.window - 1)).clamp(min=0)  # position less rank
            back = rotate(asked, *turns(-ahead[None], self._frequencies, q.dtype))
            in_window = kept[:sinks] > queries - self.window  # a sink that the window still holds is nobody's exception
            turned = torch.einsum("bqhd,bkhd->bhqk", back, keys[:, :sinks]) * scale
            scores[..., :sinks] = torch.where(in_window, scores[..., :sinks], turned)
        weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
        return torch.einsum("bhqk,bkhd->bqhd", weights, values)
