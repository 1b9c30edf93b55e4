"""One pool of KV blocks for a model: the books, the tensors, and sequences that begin with what is cached.

store = PagedStore(model.config, num_blocks=64, block_size=16)
reused = store.begin("a", tokens)                   # its cached beginning is read from where it lies
cache = PagedCache(store, ["a"])                    # what the decoder wants (paged_cache.py)
logits = model(torch.tensor([tokens[reused:]]), cache)
store.publish("a", tokens)                          # from now on others find its full blocks
store.free("a")
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from course_lib.kvcache import BlockPool, BlockTables, KVStorage, PrefixCache

if TYPE_CHECKING:
    import torch

    from course_lib.kvcache.prefix_names import Salt

    from .config import ModelConfig


class PagedStore:
    """Pool, tables, prefix cache and storage that belong together. Each may be used directly."""

    def __init__(
        self, config: "ModelConfig", *, num_blocks: int, block_size: int = 16, dtype: "torch.dtype | None" = None,
        device: "torch.device | str" = "cpu", budget_bytes: int | None = None,
    ) -> None:  # fmt: skip
        """dtype None: bfloat16. KVCacheError with the numbers for what does not fit into budget_bytes, or the device's memory."""
        self.config = config
        self.pool = BlockPool(num_blocks, block_size)
        self.storage = KVStorage.of(config, self.pool, dtype=dtype, device=device, budget_bytes=budget_bytes)
        self.tables = BlockTables(self.pool)
        self.prefixes = PrefixCache(self.pool)
        self._begun: dict[Hashable, int] = {}  # sequences that a step has taken slots for -> their tokens before it

    def begin(self, seq: Hashable, tokens: Sequence[int] = (), salt: "Salt" = "") -> int:
        """A new sequence that reads the cached beginning of its tokens -> how many need not be computed, less than there are."""
        match = self.prefixes.match(tokens, salt)
        try:
            self.tables.add(seq, match.tokens, match.blocks)
        except BaseException:
            self.pool.release(match.blocks)
            raise
        return match.tokens

    def publish(self, seq: Hashable, tokens: Sequence[int], salt: "Salt" = "") -> int:
        """Others may read the full blocks of this sequence, whose tokens are given from its beginning -> blocks named now.

        Tokens that have no KV yet (the one just chosen, those of a step that failed) do not count. Where equal blocks exist, the
        sequence reads them from now on and gives its own back.
        """
        written = tokens[: self.written(seq)]
        inserted = self.prefixes.insert(written, self.tables.blocks(seq), salt)
        for index, block in inserted.equal:
            self.tables.replace(seq, index, block)
        return inserted.named

    def written(self, seq: Hashable) -> int:
        """Tokens with KV: slots that a step has taken, and did not live to fill in all layers, are not among them."""
        length = self.tables.length(seq)
        return min(length, self._begun.get(seq, length))

    def begin_step(self, wanted: Mapping[Hashable, int]) -> None:
        """`extend`, for a model that writes layer by layer: until `end_step` the new slots are not `written`."""
        self._begun.update({seq: self.written(seq) for seq in wanted})
        self.extend(wanted)

    def end_step(self, seqs: Iterable[Hashable]) -> None:
        """All layers are written."""
        for seq in seqs:
            self._begun.pop(seq, None)

    def extend(self, wanted: Mapping[Hashable, int]) -> None:
        """Slots for so many more tokens of each sequence, shared blocks copied first. OutOfBlocks: nothing has changed."""
        if copies := self.tables.append_all(wanted):
            self.storage.copy_blocks(copies)

    def room_for(self, wanted: Mapping[Hashable, int]) -> bool:
        """Whether `extend` would find the blocks."""
        return self.tables.blocks_needed(wanted) <= self.pool.num_available

    def fork(self, parent: Hashable, child: Hashable) -> None:
        """A child with what is written of the parent, in its blocks; the first to write a shared one gets a copy."""
        self.tables.fork(parent, child)
        self.tables.truncate(child, self.written(parent))

    def free(self, seq: Hashable) -> None:
        """The sequence ends, or is preempted: what it published stays cached until its blocks are needed."""
        self.tables.free(seq)
        self._begun.pop(seq, None)

    def check(self) -> None:
        """AssertionError where the books do not balance."""
        self.tables.check()
        self.prefixes.check()
