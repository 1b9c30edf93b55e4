"""Exercise 2.6 speaks to a learner, cannot be misled by strange results, and shows a listing that is wrong in three ways."""

import random
from pathlib import Path

import nbformat
import pytest
import torch

from course_lib.course.live import check_live
from course_lib.exercises.phase2.blocks import expected_waste
from course_lib.exercises.phase2.blocks_books import Books
from course_lib.exercises.phase2.blocks_cases import random_cases
from course_lib.kvcache import BlockPool, BlockTables, KVCacheError

from .answers.phase2 import blocks as answers

ROOT = Path(__file__).parents[2]
SAYS = {
    "roadmap": "Does the last block have room for this token?",
    "opens_a_block_too_early": "A block is opened by the first token in it.",
    "place_in_the_block_only": "Which block?",
    "slots_of_all_tokens": "Which of them are new?",
    "starts_over_with_each_append": "The sequence has tokens already.",
    "nothing_comes_back": "were not given back",
    "frees_what_others_hold": "When is a block free?",
    "shares_the_last_block_too": "What does the child need of its own?",
    "copies_every_block": "Is there a reason to have it twice?",
    "destination_first": "Source first",
    "the_same_list": "Do two of them share a list?",
    "takes_what_there_is": "First find out whether everything is possible",
    "one_block_is_kept": "The last free block can be had",
    "longer_before_it_is_certain": "This sequence was refused something before.",
    "waste_the_other_way_round": "Which of the two will still be used?",
    "paged_for_all_that_comes": "Blocks are opened as tokens come",
    "paged_a_block_ahead": "just full",
    "power_of_the_next_one": "smallest power of two that holds 256",
    "power_of_the_sum": "rounded first",
    "not_rounded_by_the_buddy": "is a power of two",
    "beyond_the_longest": "longer than max_length",
}


def wrong(name):
    return next(answer for answer, _ in answers.WRONG if answer.__name__ == name)


@pytest.mark.parametrize("slip", SAYS)
def test_a_usual_slip_gets_its_hint(slip):
    hints = [outcome.hint for outcome in check_live("2.6", wrong(slip), seed=5).outcomes]
    assert any(SAYS[slip] in hint for hint in hints), hints


def test_a_refusal_that_is_none_and_an_error_of_another_kind_are_told_with_numbers():
    (said,) = [o.reason for o in check_live("2.6", wrong("a_sequence_twice"), seed=1).outcomes if o.reason]
    assert "add('a'): was accepted, though there is a sequence 'a' already" in said
    said = next(o.reason for o in check_live("2.6", wrong("keyerror_when_full"), seed=1).outcomes if o.reason)
    assert "raised KeyError" in said
    assert "and that is a ValueError" in said


def test_half_of_the_exercise_earns_its_points():
    def only_waste(num_blocks, block_size):
        memory = answers.counted(num_blocks, block_size)

        def later(*arguments):
            raise NotImplementedError("2.6: append is yours to write")

        memory.append = later
        return memory

    verdict = check_live("2.6", only_waste, seed=1)
    assert {o.name: o.points for o in verdict.outcomes if o.points} == {"waste": 1.5}


@pytest.mark.parametrize("value", [None, "slots", [1.5], [[1], 2], {"a": 1}, [10**30], torch.zeros(2, 2), iter([1])])
def test_strange_results_are_wrong_and_break_nothing(value):
    def strange(num_blocks, block_size):
        memory = answers.counted(num_blocks, block_size)
        memory.append = lambda name, tokens: value
        memory.waste = lambda requests, max_length: value
        return memory

    assert check_live("2.6", strange, seed=2).score == 0


def test_the_books_agree_with_the_library():
    """Blocks, refusals and free blocks are those of BlockTables, when its children copy their last block at once."""
    for case in random_cases(3):
        books = Books(case["num_blocks"], case["block_size"])
        tables = BlockTables(BlockPool(case["num_blocks"], case["block_size"]))
        for operation in case["operations"]:
            refused = False
            try:
                _carry_out(tables, operation)
            except KVCacheError:
                refused = True
            assert refused == bool(books.refusal(operation)), operation
            if not refused:
                books.apply(operation)
            tables.check()
            assert tables.pool.num_free == books.num_free
            assert {name: len(tables.blocks(name)) for name in books.tables} == {n: len(t) for n, t in books.tables.items()}
            assert books.tokens == {name: tables.length(name) for name in tables.sequences()}


def _carry_out(tables, operation):
    kind, name = operation[0], operation[1]
    if kind == "fork":
        parent, child, length = name, operation[2], tables.length(name)
        full = tables.blocks(parent)[: length // tables.pool.block_size]
        tables.pool.retain(full)
        try:
            tables.add(child, length, full)
        except KVCacheError:
            tables.pool.release(full)
            raise
    elif kind == "append":
        tables.append(name, operation[2])
    else:
        {"add": lambda: tables.add(name, 0), "free": lambda: tables.free(name)}[kind]()


def test_waste_on_paper():
    """The text's table, and C016: half a block of 1024 is 23.13% of 1700 tokens and it."""
    case = {"requests": [[100, 300, 200]], "max_length": 2048, "block_size": 16}
    assert expected_waste(case) == {"max_length": (100, 1648), "power_of_two": (100, 624), "paged": (4, 0)}
    every_end = {"requests": [[n - 1, 1, 1] for n in range(1024, 2048)], "max_length": 2048, "block_size": 1024}
    empty = sum(expected_waste(every_end)["paged"]) / 1024
    assert empty == 511.5
    assert 100 * empty / (1700 + empty) == pytest.approx(23.13, abs=0.005)


def test_three_allocators_on_one_wasted_slot_more_or_less():
    """Nothing is reserved when all is written, and a longer greatest length is internal waste and no more."""
    draw = random.Random(5)
    for _ in range(50):
        prompt, output = draw.randint(1, 300), draw.randint(1, 300)
        request = {"requests": [[prompt, output, output]], "block_size": 16}
        shorter, longer = (expected_waste(request | {"max_length": most}) for most in (1024, 1025))
        assert all(reserved == 0 for reserved, _ in shorter.values())
        assert longer["max_length"] == (0, shorter["max_length"][1] + 1)
        assert shorter["paged"] == longer["paged"]
        assert shorter["paged"][1] < 16


@pytest.fixture
def listing():
    notebook = nbformat.read(ROOT / "solutions/phase2_attention/phase2_attention.ipynb", as_version=4)
    (source,) = [cell.source for cell in notebook.cells if cell.source.startswith("class PagedKVCache")]
    space = {"torch": torch}
    exec(source, space)
    return space


def test_c013_the_roadmaps_append_fails_at_the_first_token(listing):
    cache = listing["PagedKVCache"](2, 4, page_size=8)
    with pytest.raises(RuntimeError, match=r"shape|size|expand"):
        cache.append(torch.ones(2, 4), torch.ones(2, 4))


def test_c013_with_room_for_both_it_opens_a_page_for_each_token_and_writes_slot_0(listing):
    cache = listing["WithRoomForBoth"](2, 4, page_size=8)
    for token in range(3):
        cache.append(torch.full((2, 4), float(token)), torch.zeros(2, 4))
    assert len(cache.pages) == 3  # a cache that works has one
    assert [[slot for slot in range(8) if not page[slot].isnan().all()] for page in cache.pages] == [[0], [0], [0]]
    assert [page[0, 0, 0, 0].item() for page in cache.pages] == [0.0, 1.0, 2.0]
