"""The training text as one tensor of tokens on the device, and which windows of it a step sees.

Order    An epoch is every window of `length` tokens once, in an order drawn from the seed; each epoch begins at another offset,
         so its windows are cut elsewhere. What a step sees follows from seed and step: resuming needs no generator's state.
Documents stand one behind the other with their marks between; a window may begin inside one and run over several.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from torch import Tensor

VALIDATION_WINDOWS = 64  # the last windows of the text, which no step sees


def read_tokens(folder: Path) -> Tensor:
    """All train shards of tools/corpus, in the order of shards.json, as one int16 tensor (a vocabulary of 4096 fits)."""
    import numpy as np

    from tools.corpus.shards import read_shard

    description = json.loads((folder / "shards.json").read_text(encoding="utf-8"))
    if description["vocab"] > 2**15:
        raise ValueError(f"a vocabulary of {description['vocab']} does not fit int16; use int32 tokens")
    with ThreadPoolExecutor() as pool:  # lzma releases the interpreter's lock
        shards = list(pool.map(lambda row: read_shard(folder / row["file"]), description["shards"]))
    for row, shard in zip(description["shards"], shards, strict=True):
        if len(shard) != row["tokens"]:
            raise ValueError(f"{row['file']} holds {len(shard)} tokens, shards.json says {row['tokens']}; build the shards again")
    return torch.from_numpy(np.concatenate(shards).astype(np.int16))


class Windows:
    """tokens: one int16 tensor, on the device that trains; batches are int64 on the same device."""

    def __init__(self, tokens: Tensor, *, length: int, batch: int, seed: int) -> None:
        self.length, self.batch_size, self.seed = length, batch, seed
        held = VALIDATION_WINDOWS * length + 1
        self.tokens, self.held = tokens[: len(tokens) - held], tokens[len(tokens) - held :]
        # one window less than fits, for the epoch's offset; and one token more, since targets are shifted by one
        self.per_epoch = (len(self.tokens) - 1) // length - 1
        self.steps_per_epoch = self.per_epoch // batch
        if self.steps_per_epoch < 1:
            need = (batch + 2 + VALIDATION_WINDOWS) * length + 2
            raise ValueError(f"{len(tokens)} tokens are too few for a batch of {batch} windows of {length}; use at least {need}")
        self._ahead = torch.arange(length + 1, device=tokens.device)
        self._epoch, self._starts = -1, self._ahead

    def batch(self, step: int) -> tuple[Tensor, Tensor]:
        """(inputs, targets) of a step, [batch, length] int64 each; targets are the tokens one place on."""
        epoch, place = divmod(step, self.steps_per_epoch)
        if epoch != self._epoch:
            draw = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            offset = int(torch.randint(self.length, (1,), generator=draw))
            self._starts = (torch.randperm(self.per_epoch, generator=draw) * self.length + offset).to(self.tokens.device)
            self._epoch = epoch
        return self._cut(self.tokens, self._starts[place * self.batch_size : (place + 1) * self.batch_size])

    def validation(self) -> list[tuple[Tensor, Tensor]]:
        """The held windows, the same at every call, in batches of 16."""
        starts = torch.arange(VALIDATION_WINDOWS, device=self.tokens.device) * self.length
        return [self._cut(self.held, some) for some in starts.split(16)]

    def _cut(self, tokens: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        window = tokens[starts[:, None] + self._ahead].long()
        return window[:, :-1], window[:, 1:]
