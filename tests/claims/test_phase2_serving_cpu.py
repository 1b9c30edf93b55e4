"""What phase 2 claims of routing, freeing and speculating, and a CPU can examine. tested.toml names each test here."""

from bisect import bisect
from hashlib import sha256
from random import Random
from zlib import crc32

import pytest

from course_lib.kvcache.block_pool import BlockPool
from course_lib.kvcache.double_buffer import DoubleBufferedTables
from course_lib.kvcache.errors import OutOfBlocks
from course_lib.roofline.speculation import expected_tokens

BLOCK = 16


class Ring:
    """Each server at 200 points of a circle; a key belongs to the next point."""

    def __init__(self, servers):
        points = sorted((self.hash(f"{server}/{replica}"), server) for server in range(servers) for replica in range(200))
        self.at, self.servers = [point for point, _ in points], [server for _, server in points]

    @staticmethod
    def hash(text):
        return int.from_bytes(sha256(text.encode()).digest()[:8], "big")

    def __call__(self, page):
        return self.servers[bisect(self.at, self.hash(page)) % len(self.at)]


def test_c115_a_ninth_gpu_moves_8_of_9_keys_of_crc32_mod_n_and_1_of_9_of_a_ring():
    pages = [f"page {number}" for number in range(100_000)]

    def moved(before, after):
        """Share of the keys with another place, and the places that these have now."""
        pairs = [(before(page), after(page)) for page in pages]
        return sum(a != b for a, b in pairs) / len(pages), {b for a, b in pairs if a != b}

    share, to = moved(lambda page: crc32(page.encode()) % 8, lambda page: crc32(page.encode()) % 9)
    assert share == pytest.approx(8 / 9, abs=0.01)
    assert to == set(range(9))  # between old ones too
    share, to = moved(Ring(8), Ring(9))
    assert share == pytest.approx(1 / 9, abs=0.03)
    assert to == {8}


class FreesAtOnce(DoubleBufferedTables):
    """Gives a block back when its row lets go of it, as if no step were under way."""

    def set_row(self, row, blocks):
        super().set_row(row, blocks)
        for _, gone in self._retired:
            self.pool.release(gone)
        self._retired.clear()


def steps_and_frees(tables_of, seed):
    """Random rows, new, cut to fewer blocks and shared, published and read by steps that overlap. -> blocks free while read."""
    random, pool = Random(seed), BlockPool(60, BLOCK)
    tables, rows_now, steps, broken = tables_of(pool, rows=4, max_blocks=8), [[] for _ in range(4)], [], set()
    for _ in range(1500):
        what = random.choice(["row", "row", "cut", "share", "publish", "begin", "end", "reclaim"])
        row, other = random.sample(range(4), 2)
        if what == "row":
            try:
                rows_now[row] = pool.allocate(random.randrange(0, 8))
            except OutOfBlocks:
                continue
            tables.set_row(row, rows_now[row])
            pool.release(rows_now[row])  # the row holds them now
        elif what in ("cut", "share"):
            rows_now[row] = rows_now[row if what == "cut" else other][: random.randrange(0, 8)]
            tables.set_row(row, rows_now[row])
        elif what == "publish":
            tables.publish()
        elif what == "begin" and len(steps) < 3:
            step = tables.begin_step()
            steps.append((step, [list(row) for row in step.table]))
        elif what == "end" and steps:
            tables.end_step(steps.pop(0)[0])
        elif what == "reclaim":
            tables.reclaim()
        read = {block for _, rows in steps for row in rows for block in row if block >= 0}
        broken |= {block for block in read if not pool.ref_count(block)}
        assert all(step.table == rows for step, rows in steps)
        pool.check(tables.holders())
    for step, _ in steps:
        tables.end_step(step)
    while not tables.publish() or tables.num_waiting:
        tables.reclaim()
    assert pool.num_held == len({block for blocks in rows_now for block in blocks})  # nothing leaked on the way
    return broken


@pytest.mark.parametrize("seed", range(3))
def test_c120_no_block_of_a_row_that_was_cut_or_replaced_is_free_while_a_step_may_read_it(seed):
    assert not steps_and_frees(DoubleBufferedTables, seed)
    assert steps_and_frees(FreesAtOnce, seed)


def test_c121_a_loop_that_appends_one_token_a_primary_step_gains_nothing_from_its_draft():
    def primary(text):
        return crc32(bytes(text)) % 251

    def draft(text):
        """Agrees with the primary 4 times of 5."""
        return primary(text) if len(text) % 5 else 0

    def roadmap(tokens):
        """As printed: drafts, runs the primary, appends its one token."""
        text, calls = [7], 0
        while len(text) <= tokens:
            draft(text)
            calls += 1
            text.append(primary(text))
        return text, calls

    def verified(tokens, drafted=4):
        """One primary pass looks at all drafted tokens; those it agrees with stay, and one of its own follows."""
        text, calls = [7], 0
        while len(text) <= tokens:
            guess = list(text)
            for _ in range(drafted):
                guess.append(draft(guess))
            calls += 1
            while len(text) < len(guess) and primary(text) == guess[len(text)]:
                text.append(guess[len(text)])
            text.append(primary(text))
        return text[: tokens + 1], calls

    (theirs, as_many), (ours, fewer) = roadmap(300), verified(300)
    assert ours == theirs
    assert as_many == 300  # tokens a primary step: 1.0, however often the draft was right
    assert fewer < 300 / expected_tokens(0.6, 4)
