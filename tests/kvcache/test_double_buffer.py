"""A step in flight sees no update, and no block that it may read is handed out: random interleavings, check() after each."""

from random import Random

import pytest

from course_lib.kvcache.block_pool import BlockPool
from course_lib.kvcache.double_buffer import DoubleBufferedTables
from course_lib.kvcache.errors import KVCacheError, NotHeld, UnknownSequence

ROWS, BLOCKS = 4, 14


def random_operations(tables_class, seed, steps=400):
    """Host and device in any order. Each block's content is the number of its owner; a step must find what it began with."""
    random = Random(seed)
    pool = BlockPool(BLOCKS, 16)
    tables = tables_class(pool, ROWS, 5)
    wanted, content, in_flight, stamp = {row: [] for row in range(ROWS)}, {}, [], 0
    refused = waited = 0
    for _ in range(steps):
        kind = random.random()
        if kind < 0.35:
            row = random.randrange(ROWS)
            kept = [block for block in wanted[row] if random.random() < 0.6]
            new = pool.allocate(min(random.randrange(3), pool.num_free, 5 - len(kept)))
            for block in new:
                stamp += 1
                content[block] = stamp  # whoever still reads this block reads somebody else's KV from now on
            wanted[row] = kept + new
            tables.set_row(row, wanted[row])
            pool.release(new)  # the row has its own reference
        elif kind < 0.55:
            before = [list(map(list, step.table)) for step, _, _ in in_flight]
            published = tables.publish()
            refused += not published
            assert before == [step.table for step, _, _ in in_flight]
            if published:
                assert [[b for b in row if b >= 0] for row in tables.begin_step_for_test()] == list(wanted.values())
        elif kind < 0.75 and len(in_flight) < 4:
            step = tables.begin_step()
            rows = [list(row) for row in step.table]
            in_flight.append((step, rows, {block: content[block] for row in rows for block in row if block >= 0}))
        elif kind < 0.9 and in_flight:
            tables.end_step(in_flight.pop(random.randrange(len(in_flight)))[0])
        else:
            tables.reclaim()
        waited += tables.num_waiting > 0
        for step, rows, read in in_flight:
            assert step.table == rows, "a table changed under a step"
            assert {block: content[block] for block in read} == read, "a block was handed out while a step reads it"
        tables.check()
        pool.check(tables.holders())
    for step, _, _ in in_flight:
        tables.end_step(step)
    for row in range(ROWS):
        tables.set_row(row, [])
    assert tables.publish()
    tables.reclaim()
    assert (pool.num_free, tables.num_waiting) == (BLOCKS, 0)
    assert refused > 5
    assert waited > steps / 5


class Tables(DoubleBufferedTables):
    def begin_step_for_test(self):
        """The newest table, without a step."""
        step = self.begin_step()
        self.end_step(step)
        return [list(row) for row in step.table]


@pytest.mark.parametrize("seed", range(10))
def test_steps_in_flight_see_no_update_and_lose_no_block(seed):
    random_operations(Tables, seed)


class FreesOneEpochEarly(Tables):
    def _oldest_readable(self):
        return super()._oldest_readable() + 1


class ForgetsStepsInFlight(Tables):
    def _oldest_readable(self):
        return self.epoch


class FreesAtOnce(Tables):
    def set_row(self, row, blocks):
        super().set_row(row, blocks)
        for _, gone in self._retired:
            self.pool.release(gone)
        self._retired = []


class PublishesOverAReader(Tables):
    def publish(self):
        steps, self._steps = self._steps, set()
        published = super().publish()
        self._steps = steps
        return published


class CopiesOnlyTheNewestEdits(Tables):
    def set_row(self, row, blocks):
        super().set_row(row, blocks)
        self._stale[self.epoch % 2].discard(row)


@pytest.mark.parametrize(
    "broken", [FreesOneEpochEarly, ForgetsStepsInFlight, FreesAtOnce, PublishesOverAReader, CopiesOnlyTheNewestEdits]
)
def test_interleavings_find_planted_mistakes(broken):
    def some_seed_breaks_it():
        for seed in range(10):
            random_operations(broken, seed)

    with pytest.raises((AssertionError, NotHeld)):
        some_seed_breaks_it()


def test_a_retired_block_waits_for_the_older_step_only():
    pool = BlockPool(2, 16)
    tables = DoubleBufferedTables(pool, rows=1, max_blocks=2)
    (block,) = pool.allocate(1)
    tables.set_row(0, [block])
    pool.release([block])
    tables.publish()
    old = tables.begin_step()
    tables.set_row(0, [])
    assert (tables.reclaim(), tables.num_waiting) == (0, 1)  # not published: the next step would still read it
    tables.publish()
    new = tables.begin_step()
    assert (tables.reclaim(), old.table, new.table) == (0, [[block, -1]], [[-1, -1]])
    tables.end_step(old)
    assert (tables.reclaim(), pool.num_free) == (1, 2)  # the newer step is still running
    tables.end_step(new)


def test_publish_says_no_instead_of_waiting():
    tables = DoubleBufferedTables(BlockPool(2, 16), rows=1, max_blocks=2)
    step = tables.begin_step()
    assert (tables.publish(), tables.publish(), tables.epoch) == (True, False, 1)
    tables.end_step(step)
    assert (tables.publish(), tables.epoch) == (True, 2)


def test_refusals_change_nothing():
    pool = BlockPool(4, 16)
    tables = DoubleBufferedTables(pool, rows=1, max_blocks=2)
    blocks = pool.allocate(3)
    for row, wanted, error in [
        (1, blocks[:1], UnknownSequence),
        (-1, blocks[:1], UnknownSequence),
        (0, blocks, KVCacheError),
        (0, [blocks[0], blocks[0]], KVCacheError),
        (0, [blocks[0], 3], NotHeld),
    ]:
        with pytest.raises(error):
            tables.set_row(row, wanted)
        tables.check()
        pool.check([blocks, *tables.holders()])
    step = tables.begin_step()
    tables.end_step(step)
    with pytest.raises(NotHeld, match="end each step once"):
        tables.end_step(step)
