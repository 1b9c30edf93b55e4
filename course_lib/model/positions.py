"""From tokens, cache and given positions to the Span of a step, with every mistake named before anything is written."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from .span import Span

if TYPE_CHECKING:
    from .parts import KeyValues


def span_of(tokens: Tensor, cache: "KeyValues | None", positions: Tensor | None, window: int | None) -> Span:
    """tokens [batch, length]; positions [batch, length] or None: each row goes on where its cache ends (from 0 without one).

    In given positions -1 is padding; the others of a row go up by one. With a cache they may begin at the row's length or before
    it: tokens from there on are overwritten. ValueError for anything else, and for what the cache has no room for.
    """
    batch, length = tokens.shape
    if cache is not None and cache.batch != batch:
        raise ValueError(f"{batch} rows of tokens and a cache of {cache.batch}; make it with new_cache({batch}, capacity)")
    if positions is None:
        starts = cache.lengths if cache is not None else [0] * batch
        if len(set(starts)) == 1:
            return _even(starts[0], length, cache, window, tokens.device)
        ahead = torch.arange(length, device=tokens.device)
        positions = torch.tensor(starts, device=tokens.device)[:, None] + ahead
        rows: Sequence[tuple[int, int]] = [(start, length) for start in starts]
    else:
        if positions.shape != tokens.shape:
            raise ValueError(f"positions {tuple(positions.shape)} for tokens {tuple(tokens.shape)}; give one for each token")
        rows = [_row(row, values) for row, values in enumerate(positions.tolist())]
    if cache is None:
        return Span(positions, length, window, key_positions=positions)
    for row, (first, new) in enumerate(rows):
        _has_room(row, first, new, cache)
        if new and first > cache.lengths[row]:
            raise ValueError(f"row {row} holds {cache.lengths[row]} tokens, its next positions begin at {first}; "
                             f"begin at {cache.lengths[row]} or before")  # fmt: skip
    keys = max([first + new for first, new in rows] + [1])
    return Span(positions, keys, window, rows=rows)


def _even(start: int, length: int, cache: "KeyValues | None", window: int | None, device: torch.device) -> Span:
    """Every row has the same positions, known on the host: no mask has to be read back, and a fast path may be taken."""
    if cache is not None:
        _has_room(None, start, length, cache)
    return Span(torch.arange(start, start + length, device=device)[None], start + length, window, start=start)


def _has_room(row: int | None, first: int, new: int, cache: "KeyValues") -> None:
    if first + new > cache.capacity:
        whose = "the rows need" if row is None else f"row {row} needs"
        raise ValueError(
            f"{whose} {first + new} slots ({first} held, {new} new) and the cache has room for {cache.capacity}; "
            f"use new_cache(batch, capacity={first + new}) or a shorter text"
        )


def _row(row: int, values: list[int]) -> tuple[int, int]:
    """(first position, how many) of a row without its padding."""
    live = [value for value in values if value != -1]
    if not live:
        return 0, 0
    if live != list(range(live[0], live[0] + len(live))) or live[0] < 0:
        raise ValueError(f"row {row} has positions {live[:8]}...; use numbers that go up by one, and -1 for padding")
    return live[0], len(live)
