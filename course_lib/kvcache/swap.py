"""Preemption: a sequence gives its blocks up, and gets its KV back later, by a copy from host memory or by computing it again.

Both ways have one interface, so a scheduler may choose for each sequence (swap_cost.py says which is quicker):
`preempt(seq, blocks, tokens)` gives up the sequence's references, `resume(seq)` returns as many blocks with the same content.
Shared   a preempted sequence gives up its references only: blocks that others hold too stay theirs. What comes back is its own;
         the sharing is lost, unless a prefix cache finds it again.
Errors   all or nothing: OutOfBlocks when host memory (preempt) or the pool (resume) is too small, with nothing changed.
Source   Kwon et al., arXiv 2309.06180, section 4.5.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

from .copy_batches import CopyIn, CopyOut, copy_all_in, copy_all_out
from .errors import KVCacheError, OutOfBlocks, SequenceExists, UnknownSequence

if TYPE_CHECKING:
    from .block_pool import BlockPool


class SwapSpace:
    """Host memory for the blocks of preempted sequences. copy_out and copy_in move the KV (copy_batches.py)."""

    def __init__(self, pool: "BlockPool", budget_blocks: int, copy_out: CopyOut, copy_in: CopyIn) -> None:
        if budget_blocks < 0:
            raise KVCacheError(f"a swap space of {budget_blocks} blocks; use 0 or more")
        self.pool, self.budget_blocks = pool, budget_blocks
        self._copy_out, self._copy_in = copy_out, copy_in
        self._content: dict[Hashable, list[Any]] = {}

    @property
    def num_free(self) -> int:
        """Blocks that host memory still has room for."""
        return self.budget_blocks - sum(map(len, self._content.values()))

    def preempt(self, seq: Hashable, blocks: Sequence[int], tokens: Sequence[int]) -> None:
        """Copy the blocks out and give up the sequence's references. `tokens` are not needed here."""
        _may_preempt(seq, self._content, blocks, tokens, self.pool)
        if len(blocks) > self.num_free:
            raise OutOfBlocks(len(blocks), self.num_free, 0, self.budget_blocks)
        content = copy_all_out(self._copy_out, blocks)
        self.pool.release(blocks)
        self._content[seq] = content

    def resume(self, seq: Hashable) -> list[int]:
        """Blocks for the sequence, with what it had in them, in the same order."""
        content = _waiting(seq, self._content)
        blocks = self.pool.allocate(len(content))
        try:
            copy_all_in(self._copy_in, content, blocks)
        except BaseException:
            self.pool.release(blocks)
            raise
        del self._content[seq]
        return blocks

    def drop(self, seq: Hashable) -> None:
        """The sequence will not come back."""
        _waiting(seq, self._content)
        del self._content[seq]

    def check(self) -> None:
        assert 0 <= self.num_free <= self.budget_blocks, f"{self.num_free} blocks free of {self.budget_blocks}"


class Recompute:
    """Keeps the tokens only. prefill(tokens, blocks) computes KV of the tokens and writes it into the blocks."""

    def __init__(self, pool: "BlockPool", prefill: Callable[[Sequence[int], list[int]], None]) -> None:
        self.pool, self._prefill = pool, prefill
        self._tokens: dict[Hashable, list[int]] = {}
        self._blocks: dict[Hashable, int] = {}

    def preempt(self, seq: Hashable, blocks: Sequence[int], tokens: Sequence[int]) -> None:
        """Give up the sequence's references and remember the tokens whose KV was in the blocks, generated ones too."""
        _may_preempt(seq, self._tokens, blocks, tokens, self.pool)
        self.pool.release(blocks)
        self._tokens[seq], self._blocks[seq] = list(tokens), len(blocks)

    def resume(self, seq: Hashable) -> list[int]:
        """Blocks for the sequence, filled by one prefill over prompt and generated tokens."""
        tokens = _waiting(seq, self._tokens)
        blocks = self.pool.allocate(self._blocks[seq])
        try:
            self._prefill(tokens, blocks)
        except BaseException:
            self.pool.release(blocks)
            raise
        self.drop(seq)
        return blocks

    def drop(self, seq: Hashable) -> None:
        """The sequence will not come back."""
        _waiting(seq, self._tokens)
        del self._tokens[seq], self._blocks[seq]

    def check(self) -> None:
        assert self._tokens.keys() == self._blocks.keys(), f"tokens of {set(self._tokens)}, blocks of {set(self._blocks)}"


def _may_preempt(
    seq: Hashable, preempted: dict[Hashable, Any], blocks: Sequence[int], tokens: Sequence[int], pool: "BlockPool"
) -> None:
    if seq in preempted:
        raise SequenceExists(f"sequence {seq!r} is preempted already; resume or drop it first")
    if len(tokens) > len(blocks) * pool.block_size:
        raise KVCacheError(f"{len(tokens)} tokens are not in {len(blocks)} blocks of {pool.block_size}; give all of the blocks")


def _waiting(seq: Hashable, preempted: dict[Hashable, Any]) -> Any:
    if seq not in preempted:
        raise UnknownSequence(f"sequence {seq!r} is not preempted; {len(preempted)} are")
    return preempted[seq]
