"""Block tables: boundaries with their numbers, sharing, copy-on-write, and what M blocks ahead cost."""

import pytest
import torch

from course_lib.kvcache import BlockPool, BlockTables, blocks_for
from course_lib.kvcache.errors import KVCacheError, NotHeld, OutOfBlocks, SequenceExists, UnknownSequence


def tables_of(num_blocks=16, block_size=4, **options):
    return BlockTables(BlockPool(num_blocks, block_size), **options)


@pytest.mark.parametrize(("tokens", "blocks"), [(0, 0), (1, 1), (3, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_block_is_opened_by_the_first_token_in_it(tokens, blocks):
    """block_size 4: 4 tokens -> 1 block, 5 tokens -> 2."""
    assert blocks_for(tokens, 4) == blocks
    tables = tables_of()
    tables.add("a", tokens)
    tables.add("b", 0)
    for _ in range(tokens):
        assert tables.append("b") == []
    assert len(tables.blocks("a")) == len(tables.blocks("b")) == blocks


@pytest.mark.parametrize("prompt", [3, 4, 5, 7, 8, 9])
def test_slots_go_on_where_the_prompt_ends(prompt):
    """Prompts of k * 4 - 1, k * 4 and k * 4 + 1 tokens, then 1 to 5 more: no slot twice, none left out."""
    tables = tables_of()
    tables.add("a", prompt)
    for total in range(prompt + 1, prompt + 6):
        tables.append("a")
        blocks = tables.blocks("a")
        assert len(blocks) == -(-total // 4)
        assert tables.slots("a") == [blocks[t // 4] * 4 + t % 4 for t in range(total)]
        tables.check()


def test_a_fork_shares_until_somebody_writes():
    tables = tables_of()
    tables.add("parent", 6)
    tables.fork("parent", "child")
    first, second = tables.blocks("parent")
    assert tables.blocks("child") == [first, second]
    assert tables.blocks_needed({"child": 1, "parent": 1}) == 1
    assert tables.append("child") == [(second, 2)]  # slots 4 and 5 are copied, the child writes slot 6 of its own block
    assert tables.append("parent") == []  # the last holder writes in place
    assert tables.blocks("child") == [first, 2]
    assert tables.pool.ref_count(first) == 2
    tables.check()


def test_a_fork_at_a_block_boundary_copies_nothing():
    tables = tables_of()
    tables.add("parent", 8)
    tables.fork("parent", "child")
    assert tables.append("child") == tables.append("parent") == []
    assert len({tables.blocks("child")[2], tables.blocks("parent")[2]}) == 2


def test_of_three_in_one_block_two_copy():
    tables = tables_of()
    tables.add("a", 2)
    tables.fork("a", "b")
    tables.fork("a", "c")
    assert tables.append_all({"a": 1, "b": 1, "c": 1}) == [(0, 1), (0, 2)]
    assert [tables.blocks(seq) for seq in "abc"] == [[1], [2], [0]]
    tables.check()


def test_a_step_that_does_not_fit_changes_no_sequence():
    tables = tables_of(num_blocks=4)
    tables.add("a", 4)
    tables.add("b", 6)
    tables.fork("b", "c")
    with pytest.raises(OutOfBlocks, match="2 blocks wanted, 1 free"):
        tables.append_all({"a": 1, "b": 1, "c": 1})
    assert [tables.length(seq) for seq in "abc"] == [4, 6, 6]
    assert tables.append_all({"b": 1, "c": 1}) == [(2, 3)]
    tables.check()


def test_a_sequence_that_is_freed_is_gone():
    tables = tables_of()
    tables.add("a", 6)
    tables.fork("a", "b")
    tables.free("a")
    assert tables.pool.num_held == 2
    for call in (
        lambda: tables.free("a"), lambda: tables.fork("a", "c"), lambda: tables.append("a"), lambda: tables.slots("a"),
        lambda: tables.as_tensor(["b", "a"]), lambda: tables.truncate("a", 0), lambda: tables.append_all({"b": 1, "a": 1}),
    ):  # fmt: skip
        with pytest.raises(UnknownSequence, match="no sequence 'a': never added, or freed; 1 are known"):
            call()
    tables.check()
    tables.free("b")
    assert tables.pool.num_free == 16
    tables.check()


def test_a_name_in_use_is_refused():
    tables = tables_of()
    tables.add("a", 6)
    for call in (lambda: tables.add("a", 1), lambda: tables.fork("a", "a")):
        with pytest.raises(SequenceExists, match="'a' exists, with 6 tokens"):
            call()
    tables.check()


def test_shared_blocks_come_with_their_references():
    tables = tables_of()
    taken = tables.pool.allocate(2)
    with pytest.raises(KVCacheError, match="of 7 tokens: 2 shared blocks hold 8"):
        tables.add("a", 7, taken)
    with pytest.raises(NotHeld, match="shared block 9 has no reference"):
        tables.add("a", 8, [0, 9])
    with pytest.raises(KVCacheError, match="a block comes twice"):
        tables.add("a", 8, [0, 0])
    with pytest.raises(OutOfBlocks):
        tables.add("a", 100, taken)
    tables.check(also=[taken])
    tables.add("a", 9, taken)
    assert tables.blocks("a") == [0, 1, 2]
    tables.check()


def test_truncating_gives_back_what_holds_no_token():
    tables = tables_of()
    tables.add("a", 9)
    tables.fork("a", "b")
    tables.truncate("a", 6)
    assert tables.blocks("a") == [0, 1]
    assert tables.append("a", 4) == [(1, 3)]  # "b" reads block 1
    tables.check()
    with pytest.raises(KVCacheError, match="has 10 tokens, not 11 to cut to; use 0 to 10"):
        tables.truncate("a", 11)
    with pytest.raises(KVCacheError, match="-1 tokens to append"):
        tables.append("a", -1)
    with pytest.raises(KVCacheError, match=r"slots 0 to 10 .* not 8 to 11"):
        tables.slots("a", 8, 11)


def test_as_tensor_pads_with_minus_one():
    tables = tables_of()
    tables.add("a", 9)
    tables.add("b", 4)
    tables.add("empty", 0)
    made = tables.as_tensor(["b", "a", "empty"], width=4)
    assert made.dtype == torch.int32
    assert made.tolist() == [[3, -1, -1, -1], [0, 1, 2, -1], [-1, -1, -1, -1]]
    assert tables.as_tensor(["empty"]).tolist() == [[-1]]
    assert tables.as_tensor([]).shape == (0, 1)
    with pytest.raises(KVCacheError, match="a table of 3 blocks in a tensor of width 2"):
        tables.as_tensor(["a"], width=2)


def test_what_blocks_ahead_of_need_cost():
    """Ten sessions of 20 tokens, block_size 4: on demand 5 blocks each, with 16 ahead 11 of each are reserved for nothing."""
    on_demand, ahead = tables_of(200), tables_of(200, preallocate=16)
    for tables in (on_demand, ahead):
        for seq in range(10):
            tables.add(seq, 18)
            tables.append(seq, 2)
        tables.check()
    assert (on_demand.waste().internal_tokens, on_demand.waste().reserved_tokens, on_demand.waste().share) == (0, 0, 0.0)
    assert (ahead.waste().internal_tokens, ahead.waste().reserved_tokens) == (0, 10 * 11 * 4)
    assert ahead.waste().share == pytest.approx(440 / 640)
    ahead.append(0, 50)
    assert len(ahead.blocks(0)) == 18  # beyond the reserve it is on demand again
    ahead.fork(0, "child")
    ahead.fork(1, "young child")
    assert ahead.blocks("young child")[:5] == ahead.blocks(1)[:5]
    assert not set(ahead.blocks("young child")[5:]) & set(ahead.blocks(1))
    ahead.truncate("child", 3)
    assert len(ahead.blocks("child")) == 16  # as many as at its start, and shared: so what it writes next moves
    copies = ahead.append("child", 30)
    assert copies == [(ahead.blocks(0)[0], ahead.blocks("child")[0])]
    assert not set(ahead.blocks("child")[:9]) & set(ahead.blocks(0))
    ahead.check()
    assert ahead.as_tensor([1]).shape == (1, 5)  # kernels see blocks with tokens only


def test_waste_counts_a_shared_block_once():
    tables = tables_of()
    tables.add("a", 6)
    tables.fork("a", "b")
    tables.fork("a", "cut")
    tables.truncate("cut", 5)  # slot 5 is still the others'
    assert (tables.waste().internal_tokens, tables.waste().used_tokens) == (2, 6)
    tables.free("cut")
    tables.append("b")
    assert (tables.waste().internal_tokens, tables.waste().used_tokens) == (3, 9)


def test_a_block_can_be_read_from_an_equal_one():
    tables = tables_of()
    tables.add("a", 9)
    tables.add("b", 9)
    tables.replace("b", 1, tables.blocks("a")[1])
    assert tables.blocks("b") == [3, 1, 5]
    assert tables.pool.ref_count(4) == 0
    for index, block in ((2, 0), (-1, 0), (0, 1), (0, 5)):
        with pytest.raises(KVCacheError, match="cannot read its block number"):
            tables.replace("b", index, block)
    with pytest.raises(NotHeld):
        tables.replace("b", 0, 4)
    tables.check()


@pytest.mark.parametrize(("break_it", "words"), [
    (lambda tables: tables._tables["a"].blocks.pop(), "6 tokens need 2 blocks, it has 1"),
    (lambda tables: tables._tables["a"].blocks.__setitem__(1, 0), "has a block twice"),
    (lambda tables: tables.pool.retain([1]), "references counted and found"),
    (lambda tables: tables._tables.pop("a"), "references counted and found"),
])  # fmt: skip
def test_check_says_what_is_wrong(break_it, words):
    tables = tables_of()
    tables.add("a", 6)
    break_it(tables)
    with pytest.raises(AssertionError, match=words):
        tables.check()
