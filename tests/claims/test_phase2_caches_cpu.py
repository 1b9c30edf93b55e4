"""What phase 2 claims of caches, their hits and their counters, and a CPU can examine. tested.toml names each test here."""

from collections import Counter, OrderedDict
from random import Random

import pytest
import torch

from course_lib import interpreter
from course_lib.attention.decode import plan_for
from course_lib.attention.decode_tile import DecodeTile
from course_lib.kvcache.block_pool import BlockPool
from course_lib.kvcache.block_tables import BlockTables, blocks_for
from course_lib.kvcache.prefix_cache import PrefixCache
from tests.attention.paged_cases import cache, queries

BLOCK = 16


def test_c095_a_decode_step_reads_each_block_of_a_row_once_so_counting_reads_finds_nothing_to_promote():
    """Full blocks: as many bytes of K and of V are asked for as they hold, and no address twice, whatever the row's length."""
    lengths = [16, 160, 48]
    pool, q = cache(lengths, 1, 64, BLOCK, torch.bfloat16), queries(3, 4, 64, torch.bfloat16)
    plan = plan_for(q, pool.k, pool.tables, pool.lengths, programs=4, tile=DecodeTile(32, 4, 3, 3))
    block_bytes = BLOCK * 64 * 2
    with interpreter.ledger() as book:
        plan.run(q, pool.k, pool.v, pool.tables)
    for name in ("k_ptr", "v_ptr"):
        read = book.launches[0].arguments[name]
        assert read.loaded_bytes == read.distinct_loaded_bytes == sum(lengths) // BLOCK * block_bytes
    reads = Counter(block for row in pool.tables.tolist() for block in row if block >= 0)
    assert set(reads.values()) == {1}  # in 1 ms of 10 steps each has 10: the claim's rule promotes all of them, or none


def test_c095_reuse_by_later_requests_does_differ_and_frequency_keeps_what_returns():
    """What a tier can use: prefixes that come back. 8 prefixes return, and a new text passes after each of them."""
    random = Random(1)
    trace = [name for number in range(1500) for name in (random.randrange(8), 1000 + number)]
    asked = Counter(trace)
    assert max(asked.values()) > 150 > 1 == min(asked.values())

    def hits(room, victim):
        kept, uses, found = OrderedDict(), Counter(), 0
        for name in trace:
            uses[name] += 1
            if name in kept:
                found += 1
            elif len(kept) == room:
                del kept[victim(kept, uses)]
            kept[name] = None
            kept.move_to_end(name)
        return found

    lru, lfu = hits(9, lambda kept, uses: next(iter(kept))), hits(9, lambda kept, uses: min(kept, key=uses.get))
    assert lfu > 0.99 * 1500
    assert lru < 0.5 * 1500


class RoadmapCounters:
    """Its two counters, as printed: the caller says whether the page is hot."""

    def __init__(self):
        self.hits = self.misses = 0

    def access(self, page, is_hot):
        if is_hot:
            self.hits += 1
        else:
            self.misses += 1

    @property
    def hit_ratio(self):
        return self.hits / (self.hits + self.misses)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.78, 1.0])
def test_c099_the_roadmaps_counters_say_what_they_are_told_and_ours_what_was_found(share):
    random = Random(3)
    pages = [random.randrange(40) for _ in range(400)]
    told = [number < 400 * share for number in range(400)]
    random.shuffle(told)
    theirs, seen = RoadmapCounters(), PrefixCache(BlockPool(200, 4))
    for page, is_hot in zip(pages, told, strict=True):
        theirs.access(page, is_hot)
        text = [page] * 5
        blocks = seen.match(text).blocks or seen.pool.allocate(1)
        seen.insert(text, blocks)
        seen.pool.release(blocks)
    assert theirs.hit_ratio == sum(told) / len(told) == share  # the mean of its argument, with the same pages each time
    assert seen.stats.hit_tokens == 4 * (400 - len(set(pages)))  # each page is new once
    assert seen.stats.queried_tokens == 5 * 400


def test_c100_sharing_moves_the_hit_ratio_and_block_size_the_waste_and_neither_the_other():
    lengths = [random.randrange(400, 500) for random in [Random(2)] for _ in range(40)]

    def hits_and_waste(shared, block_size):
        """Requests one after the other, their first `shared` tokens alike. -> hit tokens, empty slots at the end of each."""
        pool, waste = BlockPool(4000, block_size), []
        tables, names = BlockTables(pool), PrefixCache(pool)
        for number, length in enumerate(lengths):
            text = [0] * shared + [number + 1] * (length - shared)
            tables.add(number, length, names.match(text).blocks)
            waste.append(tables.waste().internal_tokens)
            names.insert(text, tables.blocks(number))
            tables.free(number)
        return names.stats.hit_tokens, waste

    grid = {(shared, size): hits_and_waste(shared, size) for shared in (0, 128, 384) for size in (16, 64, 128)}
    for (shared, size), (hits, waste) in grid.items():
        assert hits == 39 * shared
        assert waste == [blocks_for(length, size) * size - length for length in lengths]
    ratio = grid[384, 16][0] / sum(lengths)
    assert ratio > 0.78  # with such a ratio or none of it, blocks of 16 or of 128 waste what they waste
    assert sum(grid[384, 128][1]) > 5 * sum(grid[384, 16][1])


def test_c114_a_trace_says_first_which_hit_ratio_can_be_had_and_0_65_is_above_one_and_far_below_another():
    random = Random(4)
    traces = {
        "questions once": [[number] * 64 for number in range(200)],
        "short system prompt": [[0] * 32 + [number + 1] * 64 for number in range(200)],
        "long documents": [[-1 - random.randrange(10)] * 448 + [number + 1] * 32 for number in range(200)],
    }

    def ratio(texts, num_blocks):
        cached = PrefixCache(BlockPool(num_blocks, BLOCK))
        for text in texts:
            blocks = cached.match(text).blocks
            blocks += cached.pool.allocate(blocks_for(len(text), BLOCK) - len(blocks))
            cached.insert(text, blocks)
            cached.pool.release(blocks)
        return cached.stats.hit_tokens / cached.stats.queried_tokens

    attainable = {name: ratio(texts, 12_000) for name, texts in traces.items()}
    assert attainable["questions once"] == 0
    assert attainable["short system prompt"] == pytest.approx(199 * 32 / (200 * 96))  # the alert would never be silent
    assert attainable["long documents"] > 0.85
    squeezed = ratio(traces["long documents"], 260)
    assert 0.65 < squeezed < 0.9 * attainable["long documents"]  # a tenth of the hits is lost, and the alert is silent
