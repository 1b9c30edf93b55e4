"""The host tier under a PrefixCache: what `allocate` evicts is copied to the host first, and `match` brings it back.

Same as TieredPrefixes of host_tier.py, which serves the radix tree. Here eviction happens inside `pool.allocate`, so the copy
hangs on the cache's `on_evict` and `after_evict`; and whoever matched holds a reference to each block, as after
PrefixCache.match.
"""

from collections.abc import Sequence
from typing import NamedTuple

from .copy_batches import CopyIn, CopyOut, Leaving, copy_all_in
from .errors import KVCacheError
from .host_tier import HostTier
from .prefix_cache import PrefixCache
from .prefix_names import Salt
from .prefix_results import Entry
from .radix_node import pages_of, salted


class TieredMatch(NamedTuple):
    """blocks hold the first `tokens` tokens, with a reference to each for the caller; the last host_tokens came from the host."""

    blocks: list[int]
    tokens: int
    host_tokens: int


class TieredPrefixCache:
    """copy_out and copy_in move the KV itself (copy_batches.py, host_copies.py)."""

    def __init__(self, cache: PrefixCache, host: HostTier, copy_out: CopyOut, copy_in: CopyIn) -> None:
        if cache.on_evict is not None or cache.after_evict is not None:
            raise KVCacheError("the cache calls somebody else on eviction already; give the host tier a cache of its own")
        self.cache, self.host, self._copy_out, self._copy_in = cache, host, copy_out, copy_in
        self._leaving = Leaving(host)
        cache.on_evict, cache.after_evict = self._save, self._saved

    def match(self, tokens: Sequence[int], salt: Salt = "") -> TieredMatch:
        """The longest beginning that device and host have between them, one token at least left out.

        Host blocks come back as far as free and cached blocks reach; the latter go to the host in turn.
        """
        cache, pool = self.cache, self.cache.pool
        here = cache.match(tokens, salt)
        blocks = here.blocks
        try:
            pages = pages_of(tokens[:-1], pool.block_size, salt)
            wanted = len(self.host.run(pages, len(blocks)))
            new = pool.allocate(min(wanted, pool.num_available))
            places = self.host.run(pages, len(blocks))[: len(new)]  # the evicted may have pushed some of them out of the host
            pool.release(new[len(places) :])
            new = new[: len(places)]
            blocks = blocks + new
            copy_all_in(self._copy_in, [self.host.take(place) for place in places], new)
            cache.insert(tokens[: len(blocks) * pool.block_size], blocks, salt)
        except BaseException:
            pool.release(blocks)
            raise
        return TieredMatch(blocks, len(blocks) * pool.block_size, len(new) * pool.block_size)

    def _save(self, entry: Entry) -> None:
        self._leaving.add(salted(entry.pages(), entry.salt), entry.block, self._copy_out)

    def _saved(self) -> None:
        self._leaving.flush(self._copy_out)
