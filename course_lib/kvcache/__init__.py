"""Virtual memory for keys and values: fixed blocks, shared where contents are equal, and books that balance.

    pool = BlockPool(num_blocks=64, block_size=16)      # numbers and references
    tables = BlockTables(pool)                          # sequences: add, append, fork, free
    cache = PrefixCache(pool)                           # content: match, insert, evict
    storage = KVStorage.of(config, pool)                # the tensors

    metrics = KVMetrics(pool, tables, cache, storage)   # what a dashboard sees

Each can be used without those below it. Only KVStorage holds tensors; the others are plain Python and import no torch.
"""

from .block_pool import BlockPool
from .block_tables import BlockTables, Waste, blocks_for
from .errors import KVCacheError, NotHeld, OutOfBlocks, SequenceExists, UnknownBlock, UnknownSequence
from .metrics import KVMetrics
from .prefix_cache import PrefixCache
from .prefix_results import Compaction, Entry, Inserted, Match
from .storage import KVStorage

__all__ = [
    "BlockPool", "BlockTables", "Compaction", "Entry", "Inserted", "KVCacheError", "KVMetrics", "KVStorage", "Match", "NotHeld",
    "OutOfBlocks", "PrefixCache", "SequenceExists", "UnknownBlock", "UnknownSequence", "Waste", "blocks_for",
]  # fmt: skip
