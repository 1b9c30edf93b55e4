"""The dense KV cache: for every layer and row, room for `capacity` tokens, allocated once.

Layout   a layer's buffers: [batch, capacity, *shape] for each of config.cache_shapes: keys and values, or MLA's latents.
         Slot s of a row holds the token at position s. `lengths` is host-side: how many tokens each row holds.
Contract slots from a row's length on hold zeros or leftovers, and no query sees them: Span masks them. `truncate` forgets tokens
         without touching them, which is how a rejected guess is rolled back.
Not here which positions a step has (Decoder), who may see them (span.py), blocks instead of rows (paged_cache.py).
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from .config import ModelConfig
from .span import Span


class DenseCache:
    """Keys and values, or latents, of `batch` rows with up to `capacity` tokens each."""

    def __init__(self, config: ModelConfig, batch: int, capacity: int, dtype: torch.dtype, device: torch.device) -> None:
        if batch < 1 or capacity < 1:
            raise ValueError(f"a cache of {batch} rows and {capacity} tokens; use at least 1 of both")
        self.config, self.batch, self.capacity = config, batch, capacity
        self.lengths = [0] * batch
        self.buffers = [
            [torch.zeros(batch, capacity, *shape, dtype=dtype, device=device) for shape in config.cache_shapes]
            for _ in range(config.layers)
        ]

    def append(self, layer: int, new: Sequence[Tensor], span: Span) -> tuple[Tensor, ...]:
        """Write a step's keys and values at its positions -> all slots up to span.keys. new: [batch, q_len, *shape] each."""
        refuse_other_model(self.config, layer, new)
        held = self.buffers[layer]
        for buffer, values in zip(held, new, strict=True):
            if span.start is not None:
                buffer[:, span.start : span.start + span.q_len] = values
                continue
            rows, columns = (span.positions >= 0).nonzero(as_tuple=True)
            buffer[rows, span.positions[rows, columns]] = values[rows, columns]
        return tuple(buffer[:, : span.keys] for buffer in held)

    def advance(self, span: Span) -> None:
        """After the last layer of a step: the rows are as long as its positions say."""
        if span.start is not None:
            self.lengths = [span.start + span.q_len] * self.batch
        else:
            self.lengths = [first + new if new else held for (first, new), held in zip(span.rows, self.lengths, strict=True)]

    def truncate(self, lengths: Sequence[int]) -> None:
        """Forget the tokens from lengths[row] on, for each row."""
        for row, (wanted, held) in enumerate(zip(lengths, self.lengths, strict=True)):
            if not 0 <= wanted <= held:
                raise ValueError(f"row {row} holds {held} tokens and cannot be cut to {wanted}; use 0 to {held}")
        self.lengths = list(lengths)

    @property
    def held_bytes(self) -> int:
        """Bytes of the tokens that are held: what a decode step has to read, at least."""
        of_a_token = sum(buffer[0, 0].nbytes for layer in self.buffers for buffer in layer)
        return sum(self.lengths) * of_a_token


def refuse_other_model(config: ModelConfig, layer: int, new: Sequence[Tensor]) -> None:
    """ValueError for keys and values of a model with another shape: one KV head would fill all of a cache's, without a word."""
    shapes = tuple(tuple(values.shape[2:]) for values in new)
    if shapes != config.cache_shapes or layer >= config.layers:
        raise ValueError(
            f"layer {layer} writes {shapes} a token, and this cache is for {config.name}, {config.cache_shapes} in "
            f"{config.layers} layers; give each model a cache of its own, made by its new_cache"
        )
