"""Two-level tables say what a flat table says, in fewer bytes where rows are many, long and mostly empty."""

from random import Random

import pytest

from course_lib.kvcache.errors import KVCacheError, OutOfBlocks, SequenceExists, UnknownSequence
from course_lib.kvcache.two_level import EMPTY, TwoLevelTable, table_bytes
from course_lib.roofline.models import LLAMA_3_8B


def random_operations(table_class, seed, steps=400):
    random = Random(seed)
    table, model = table_class(max_sequences=5, max_blocks=11, leaf_entries=3, max_leaves=9), {}
    for _ in range(steps):
        row, blocks = random.randrange(5), [random.randrange(99) for _ in range(random.randrange(6))]
        have = model.get(row, [])
        leaves_used = sum(-(-len(other) // 3) for other in model.values())
        need = -(-(len(have) + len(blocks)) // 3) - -(-len(have) // 3)
        fits = len(have) + len(blocks) <= 11 and need <= 9 - leaves_used
        if row in model and random.random() < 0.2:
            table.free(row)
            del model[row]
        else:
            call = table.extend if row in model else table.add
            if fits:
                call(row, blocks)
                model[row] = have + blocks
            else:
                with pytest.raises(KVCacheError):
                    call(row, blocks)
        table.check()
        for other, expected in model.items():
            assert table.flat(other) == expected + [EMPTY] * (11 - len(expected))
            assert [table.block(other, index) for index in range(len(expected))] == expected


@pytest.mark.parametrize("seed", range(4))
def test_every_row_says_what_a_flat_row_says(seed):
    random_operations(TwoLevelTable, seed)


class ForgetsToEmptyLeaves(TwoLevelTable):
    def free(self, row):
        kept = {leaf: list(self.leaves[leaf]) for leaf in self.directories[row] if leaf != EMPTY}
        super().free(row)
        self.leaves = [kept.get(number, leaf) for number, leaf in enumerate(self.leaves)]


class OpensALeafLate(TwoLevelTable):
    def _leaves_for(self, blocks):
        return blocks // self.leaf_entries


@pytest.mark.parametrize("broken", [ForgetsToEmptyLeaves, OpensALeafLate])
def test_flat_model_finds_planted_mistakes(broken):
    with pytest.raises(AssertionError):
        random_operations(broken, 0)


def test_bytes_by_hand():
    assert table_bytes([1000], 1, 4096, 16, 32) == (1024, 288)


def test_many_long_rows_shrink_tenfold_and_one_full_row_grows():
    flat, two_level = table_bytes([1700] * 256, 256, 131_072, 16, 128)
    assert flat == 8_388_608
    assert flat / two_level > 10
    full = table_bytes([131_072], 1, 131_072, 16, 128)
    assert full.two_level - full.flat == 4 * 64  # the directory comes on top


def test_bytes_are_those_of_a_table_that_was_filled():
    table = TwoLevelTable(max_sequences=3, max_blocks=11, leaf_entries=3, max_leaves=12)
    lengths = [33, 1, 0]
    for row, length in enumerate(lengths):
        table.add(row, list(range(-(-length // 4))))
    leaves = sum(leaf != EMPTY for directory in table.directories for leaf in directory)
    entries = sum(map(len, table.directories)) + leaves * 3
    assert table_bytes(lengths, 3, 44, 4, 3).two_level == 4 * entries


def test_a_table_is_small_beside_what_it_points_to():
    kv_bytes = 1700 * LLAMA_3_8B.kv_bytes_per_token()
    assert table_bytes([1700], 1, 131_072, 16, 128).flat < kv_bytes / 6000


def test_refusals():
    table = TwoLevelTable(max_sequences=2, max_blocks=4, leaf_entries=2, max_leaves=3)
    table.add(0, [7, 8, 9])
    with pytest.raises(SequenceExists, match="row 0 is in use with 3"):
        table.add(0, [])
    with pytest.raises(OutOfBlocks):
        table.add(1, [1, 2, 3])
    with pytest.raises(UnknownSequence, match="row 1"):
        table.free(1)  # the refused row was not begun
    with pytest.raises(KVCacheError, match=r"3 \+ 2 blocks.*room for 4"):
        table.extend(0, [1, 2])
    with pytest.raises(UnknownSequence, match="row 2 of a table of 2"):
        table.add(2, [])
    with pytest.raises(KVCacheError, match="block 3 of row 0, which has 3"):
        table.block(0, 3)
    with pytest.raises(KVCacheError, match="use at least 1"):
        TwoLevelTable(1, 1, 0, 1)
    assert table.flat(0) == [7, 8, 9, EMPTY]
    table.check()
