"""Virtual memory for keys and values: fixed blocks, shared where contents are equal, and books that balance.

    pool = BlockPool(num_blocks=64, block_size=16)      # numbers and references
    tables = BlockTables(pool)                          # sequences: add, append, fork, free
    cache = PrefixCache(pool)                           # content: match, insert, evict
    storage = KVStorage.of(config, pool)                # the tensors
    metrics = KVMetrics(pool, tables, cache, storage)   # what a dashboard sees

Each can be used without those below it. Only KVStorage holds tensors; the others are plain Python and import no torch.

Over the same pool, in files of their own
  radix_tree.py      prefixes as a tree, with locks (`RadixTree`)
  host_tier.py       evicted blocks in host memory and back, for the tree; tiered_cache.py the same for `PrefixCache`
  host_copies.py     the tensors of blocks, to host memory and back, in batches (copy_batches.py; memory: host_slots.py)
  swap.py            preemption by swap or recompute; swap_cost.py says which is quicker
  ring.py            a sliding window with sinks in a fixed number of blocks (`RingCache`)
  two_level.py       block tables in two levels; double_buffer.py  tables that change while a step reads them
  baselines.py       memory in one piece (contiguous.py) and paged; trace.py, replay.py  the same requests through each of them
"""

from .block_pool import BlockPool
from .block_tables import BlockTables, Waste, blocks_for
from .double_buffer import DoubleBufferedTables
from .errors import KVCacheError, NotHeld, OutOfBlocks, SequenceExists, UnknownBlock, UnknownSequence
from .host_copies import HostCopies
from .host_tier import HostTier, TieredPrefixes
from .metrics import KVMetrics
from .prefix_cache import PrefixCache
from .prefix_results import Compaction, Entry, Inserted, Match
from .radix_tree import RadixTree
from .ring import RingCache
from .storage import KVStorage
from .swap import Recompute, SwapSpace
from .tiered_cache import TieredPrefixCache
from .two_level import TwoLevelTable

__all__ = [
    "BlockPool", "BlockTables", "Compaction", "DoubleBufferedTables", "Entry", "HostCopies", "HostTier", "Inserted",
    "KVCacheError", "KVMetrics", "KVStorage", "Match", "NotHeld", "OutOfBlocks", "PrefixCache", "RadixTree", "Recompute",
    "RingCache", "SequenceExists", "SwapSpace", "TieredPrefixCache", "TieredPrefixes", "TwoLevelTable", "UnknownBlock",
    "UnknownSequence", "Waste", "blocks_for",
]  # fmt: skip
