"""Waste of KV memory has one definition, whoever is asked: 1 - tokens / (blocks * block_size)."""

from random import Random

import pytest

from course_lib.kvcache import BlockPool, BlockTables, KVMetrics, KVStorage
from course_lib.kvcache.baselines import Paged
from course_lib.kvcache.replay import replay
from course_lib.kvcache.trace import Request


@pytest.mark.parametrize("block_size", [4, 16, 64])
def test_tables_metrics_and_replay_count_the_same_waste(block_size):
    lengths = [random.randrange(2, 300) for random in [Random(block_size)] for _ in range(30)]
    blocks = sum(-(-length // block_size) for length in lengths)
    waste = 1 - sum(lengths) / (blocks * block_size)
    assert 0 < waste < 1

    pool = BlockPool(blocks + 5, block_size)
    tables = BlockTables(pool)
    for name, length in enumerate(lengths):
        tables.add(name, length)
    assert tables.waste().share == pytest.approx(waste)

    storage = KVStorage(pool.num_blocks, block_size, layers=2, shapes=((1, 8), (1, 8)))
    read = {one.name: one.value for one in KVMetrics(pool, tables, storage=storage).readings()}
    held = read["kv_blocks_held"] * block_size
    empty = read["kv_waste_internal_tokens"] + read["kv_waste_reserved_tokens"]
    assert empty / held == pytest.approx(waste)
    in_bytes = read["kv_waste_internal_bytes"] + read["kv_waste_reserved_bytes"]
    assert in_bytes / (held * storage.bytes_per_token) == pytest.approx(waste)

    requests = [Request(length - 1, 1) for length in lengths]
    row = replay(requests, Paged(blocks * block_size, block_size, watermark=0), every=1).rows[0]
    prompts = sum(-(-(length - 1) // block_size) for length in lengths)  # the last token of each is still to come
    assert row.live == sum(lengths) - len(lengths)
    assert row.reserved + row.internal == prompts * block_size - row.live


def test_blocks_taken_in_advance_and_shared_ones_count_as_what_they_are():
    pool = BlockPool(20, 4)
    tables = BlockTables(pool, preallocate=3)
    tables.add("a", 5)  # 2 blocks of tokens, 1 ahead
    tables.fork("a", "b")  # shares the 2, and gets 1 ahead
    assert pool.num_held == 4
    assert tables.waste().share == pytest.approx(1 - 5 / (4 * 4))
