"""Prefix caching: a block of KV that was computed once is found again by the tokens that lead to it.

Contract keys and values of a token depend on all tokens before it, so a block is named by its whole prefix (prefix_names.py).
         A name finds a candidate, it never decides: the block's tokens are compared, and its parent has to be the very entry
         that was found for the block before; so by induction the whole prefix is compared, and two texts with one hash
         (an accident, an attack, a broken hash function) do not read each other's KV. Salts are compared too.
         One token at least is left to compute, since the logits of the next token need a query. block_size 4, all of it cached:
         a prompt of 8 tokens reuses 4 and computes 4 (whole blocks only), a prompt of 9 reuses 8 and computes 1.
Eviction only blocks without a reference; the one that has been without for longest first, and a block's continuations before it
         (without its parent an entry cannot be found). A held block is never evicted.
Not here a tree with pages that split (radix_tree.py), blocks that move to host memory (host_tier.py, by `on_evict`).
"""

from collections.abc import Callable, Sequence

from .block_pool import BlockPool
from .errors import KVCacheError, whole
from .prefix_names import HashFunction, Salt, block_name, checked_salt, root_name, sha256, whole_tokens
from .prefix_results import Compaction, Entry, Inserted, Match, PrefixStats


class PrefixCache:
    """Names for the full blocks of one pool. It holds no reference: a block that nobody holds stays until it is evicted."""

    def __init__(
        self, pool: BlockPool, *, hash_function: HashFunction = sha256, on_evict: Callable[[Entry], None] | None = None
    ) -> None:
        """on_evict is called with each entry before it is forgotten: the last moment to copy its block elsewhere.

        It may look, match and release, and may not evict or allocate; what it raises ends the eviction between two blocks.
        `after_evict` is called at the end of each eviction, under the same rules: the evicted blocks are as they were, still.
        """
        if pool.evict is not None:
            raise KVCacheError("the pool has a cache that names its blocks already; use one for each pool")
        self.pool, self.hash_function, self.on_evict = pool, hash_function, on_evict
        self.after_evict: Callable[[], None] | None = None
        self.stats = PrefixStats()
        self._roots: dict[Salt, Entry] = {}
        self._by_name: dict[bytes, list[Entry]] = {}  # more than one in a list only where the hash collides
        self._of_block: dict[int, Entry] = {}
        self._evicting = False
        pool.evict = self.evict

    def __len__(self) -> int:
        """Named blocks, cached and held."""
        return len(self._of_block)

    def match(self, tokens: Sequence[int], salt: Salt = "") -> Match:
        """The longest cached beginning in whole blocks, one token at least left out, with a reference to each of its blocks."""
        blocks = [entry.block for entry in self._walk(tokens, salt)]
        self.pool.retain(blocks)
        self.stats.queried_tokens += len(tokens)
        self.stats.hit_tokens += len(blocks) * self.pool.block_size
        return Match(blocks, len(blocks) * self.pool.block_size)

    def cached_tokens(self, tokens: Sequence[int], salt: Salt = "") -> int:
        """So many tokens `match` would find now; takes no reference and counts nothing."""
        return len(self.cached_blocks(tokens, salt)) * self.pool.block_size

    def cached_blocks(self, tokens: Sequence[int], salt: Salt = "") -> list[int]:
        """The blocks that `match` would find now; takes no reference, and leaves the order of eviction as it is."""
        return [entry.block for entry in self._walk(tokens, salt)]

    def insert(self, tokens: Sequence[int], blocks: Sequence[int], salt: Salt = "") -> Inserted:
        """Name the full blocks of a sequence whose KV is written: block i holds tokens i * block_size ... of it.

        The caller holds the blocks. Where another block with the same content has the name already, the caller's own stays
        without; BlockTables.replace can read from that other one and give the own one back.
        """
        size, tokens = self.pool.block_size, whole_tokens(tokens)
        blocks = [whole(block, "block") for block in blocks]
        full = len(tokens) // size
        if len(blocks) < full:
            raise KVCacheError(f"{len(tokens)} tokens fill {full} blocks of {size}, {len(blocks)} came; hand over all of them")
        if len(set(blocks[:full])) < full:
            raise KVCacheError(f"a block comes twice in {list(blocks[:full])}; a sequence has each block once")
        root = self._roots.get(checked_salt(salt)) or Entry(root_name(salt, self.hash_function), -1, (), None, salt)
        plan, entry, name = [], root, root.name
        for index in range(full):  # all that can fail, the hash function too, before anything changes
            part = tuple(tokens[index * size : (index + 1) * size])
            name = block_name(name, part, self.hash_function)
            entry = entry and self._named(name, entry, part)
            self._may_be_named(blocks[index], entry)
            plan.append((name, part, entry))
        entry, named, equal = root, 0, []
        for index, (name, part, known) in enumerate(plan):
            if known is None:
                known = self._new_entry(name, entry, part, blocks[index])
                named += 1
            elif known.block != blocks[index]:
                equal.append((index, known.block))
            entry = known
        return Inserted(named, equal)

    def evict(self, n: int) -> list[int]:
        """Let go of n cached blocks, or of all there are when these are fewer -> the blocks, free now."""
        if self._evicting:
            raise KVCacheError(f"{n} blocks to evict while others are being evicted; on_evict may neither evict nor allocate")
        evicted: list[int] = []
        top, entry = None, None  # of the branch that goes, and where in it: not to walk down a long one for each block
        self._evicting = True
        try:
            while len(evicted) < n and (block := self.pool.oldest_cached()) is not None:
                if block != top or entry is None:
                    top, entry = block, self._of_block[block]
                entry = self._last_of_branch(entry)
                self._forget(entry)
                if not self.pool.ref_count(entry.block):  # on_evict may have taken it up
                    evicted.append(entry.block)
                entry = None if entry.block == top else entry.parent
        finally:
            try:
                if self.after_evict is not None:
                    self.after_evict()
            finally:
                self._evicting = False
                self.stats.evicted_blocks += len(evicted)
        return evicted

    def compact(self, n: int | None = None) -> Compaction:
        """Turn n cached blocks into free ones (None: all), and say what that did."""
        if n is not None and n < 0:
            raise KVCacheError(f"{n} blocks to evict; use 0 or more, or None for all that are cached")
        asked, before = self.pool.num_cached if n is None else n, self.pool.num_free
        evicted = self.evict(asked)
        return Compaction(asked, evicted, before, self.pool.num_free, self.pool.num_cached, self.pool.num_held)

    def check(self) -> None:
        """AssertionError where names and pool disagree, or where an entry could not be found from its root."""
        named = {block for block in range(self.pool.num_blocks) if self.pool.is_named(block)}
        assert named == self._of_block.keys(), f"named only in the pool or only here: {sorted(named ^ self._of_block.keys())}"
        listed = [entry for entries in self._by_name.values() for entry in entries]
        assert len(listed) == len(self._of_block), f"{len(listed)} entries by name, {len(self._of_block)} by block"
        for entry in listed:
            assert self._of_block.get(entry.block) is entry, f"block {entry.block} belongs to another entry"
            parent = entry.parent
            assert parent.children.get(entry.block) is entry, f"the parent of block {entry.block} does not know it"
            alive = self._of_block.get(parent.block) if parent.parent else self._roots.get(parent.salt)
            assert alive is parent, f"block {entry.block} outlived its parent, block {parent.block}"
        assert all(root.children for root in self._roots.values()), "the entry of a salt was kept without any block"

    def _walk(self, tokens: Sequence[int], salt: Salt) -> list[Entry]:
        size, found, entry, tokens = self.pool.block_size, [], self._roots.get(checked_salt(salt)), whole_tokens(tokens)
        for start in range(0, (len(tokens) - 1) // size * size, size):
            entry = entry and self._child(entry, tuple(tokens[start : start + size]))
            if entry is None:
                break
            found.append(entry)
        return found

    def _child(self, parent: Entry, tokens: tuple[int, ...]) -> Entry | None:
        return self._named(block_name(parent.name, tokens, self.hash_function), parent, tokens)

    def _named(self, name: bytes, parent: Entry, tokens: tuple[int, ...]) -> Entry | None:
        candidates = self._by_name.get(name, ())
        return next((entry for entry in candidates if self._is_same(entry, parent, tokens)), None)

    def _is_same(self, entry: Entry, parent: Entry, tokens: tuple[int, ...]) -> bool:
        return entry.parent is parent and entry.tokens == tokens

    def _may_be_named(self, block: int, entry: Entry | None) -> None:
        if not self.pool.ref_count(block):
            raise KVCacheError(f"block {block} is not held, its content may be overwritten; insert before release")
        other = self._of_block.get(block)
        if other is not None and other is not entry:
            raise KVCacheError(f"block {block} is named already, for tokens {list(other.tokens[:8])} behind another prefix or "
                               "salt; a named block must not be written over")  # fmt: skip

    def _new_entry(self, name: bytes, parent: Entry, tokens: tuple[int, ...], block: int) -> Entry:
        entry = Entry(name, block, tokens, parent, parent.salt)
        if parent.parent is None:
            self._roots[parent.salt] = parent
        parent.children[block] = entry
        self._by_name.setdefault(entry.name, []).append(entry)
        self._of_block[block] = entry
        self.pool.name(block)
        return entry

    def _last_of_branch(self, entry: Entry) -> Entry:
        """A cached entry without continuations, this one or one behind it. Held continuations lose their names on the way.

        A continuation can be held while its parent is not: two sequences computed the same parent, each in a block of its own.
        """
        while True:
            if entry.children:
                entry = next(iter(entry.children.values()))
            elif self.pool.ref_count(entry.block):
                self._forget(entry)
                entry = entry.parent
            else:
                return entry

    def _forget(self, entry: Entry) -> None:
        if self.on_evict is not None:
            self.on_evict(entry)
        del entry.parent.children[entry.block]
        if entry.parent.parent is None and not entry.parent.children:
            del self._roots[entry.salt]
        alike = self._by_name[entry.name]
        alike.remove(entry)
        if not alike:
            del self._by_name[entry.name]
        del self._of_block[entry.block]
        self.pool.forget(entry.block)
