"""Exercise 2.7: its reference against brute force, and what a judge says of records that make no sense."""

import pytest

from course_lib.exercises import exercise
from course_lib.exercises.phase2 import prefix_cases, prefix_room_cases
from course_lib.exercises.phase2.prefix_replay import Reference, replay
from course_lib.exercises.runners.phase2_prefix import play

from .answers.phase2 import prefix as answers

DRAWN = (prefix_cases.hit_cases, prefix_cases.whole_prompt_cases, prefix_cases.tenant_cases)


def longest_published(published, tokens, salt, size):
    """Every published text, token by token: the longest beginning in whole blocks that leaves a token over."""
    best = 0
    for text, whose in published:
        same = 0
        while same < min(len(text), len(tokens)) and text[same] == tokens[same]:
            same += 1
        if whose == salt:
            best = max(best, min(same // size * size, (len(tokens) - 1) // size * size))
    return best


@pytest.mark.parametrize("cases", DRAWN, ids=lambda f: f.__name__)
@pytest.mark.parametrize("seed", range(5))
def test_hits_of_the_reference_are_the_longest_published_beginnings(cases, seed):
    for case in cases(seed):
        reference, published, hits = Reference(case["num_blocks"], case["block_size"]), [], 0
        for operation, seq, *rest in case["operations"]:
            if operation == "start":
                expected = longest_published(published, *rest, case["block_size"])
                assert reference.start(seq, *rest) == expected
                hits += expected > 0
            else:
                if operation == "publish":
                    text, salt = reference.texts[seq]
                    published.append((list(text), salt))
                getattr(reference, operation)(seq, *rest)
            reference.tables.check()
            reference.prefixes.check()
        assert hits, "a case in which nothing is ever found proves nothing"


@pytest.mark.parametrize("seed", range(5))
def test_evictions_and_refusals_come_up_and_the_books_balance(seed):
    evicted, refused = 0, 0
    for case in [*prefix_room_cases.eviction_cases(seed), *prefix_room_cases.room_cases(seed)]:
        reference = Reference(case["num_blocks"], case["block_size"])
        for operation, *arguments in case["operations"]:
            refused += getattr(reference, operation)(*arguments) is None
            reference.tables.check()
            reference.prefixes.check()
        assert reference.pool.num_held == 0 or case["name"] in ("refused, and served later", "no room for a copy")
        evicted += reference.prefixes.stats.evicted_blocks
    assert evicted > 20
    assert refused >= 8


def test_a_refusal_that_need_not_be_is_what_the_learner_hears_of():
    answer = next(a for a, _ in answers.WRONG if a.__name__ == "keeps_what_was_computed_twice")
    case = prefix_room_cases.room_cases(3)[3]
    mistake = replay(case, play(answer, case))
    assert "raised MemoryError" in mistake.reason
    assert "publish give back what two computed twice" in mistake.hint


def test_hits_in_blocks_are_told_from_hits_in_tokens():
    answer = next(a for a, _ in answers.WRONG if a.__name__ == "counts_blocks")
    case = prefix_cases.hit_cases(0)[0]
    assert replay(case, play(answer, case)).hint == "Hits are counted in tokens, not in blocks."


@pytest.mark.parametrize("spoil", [
    lambda records: None,
    lambda records: [],
    lambda records: records[:-1],
    lambda records: [*records, records[-1]],
    lambda records: [{"result": None, "refused": True, "tables": {}} for _ in records],
    lambda records: [{**record, "tables": {}} for record in records],
    lambda records: [{**record, "result": "8"} for record in records],
    lambda records: [{**record, "tables": dict.fromkeys(record["tables"], 3)} for record in records],
    lambda records: [{**record, "tables": {name: [-1] * len(t) for name, t in record["tables"].items()}} for record in records],
    lambda records: [17] * len(records),
])  # fmt: skip
def test_records_that_make_no_sense_fail(spoil):
    known = exercise("2.7")
    case = prefix_cases.hit_cases(1)[0]
    records = play(answers.with_a_chain, case)
    assert replay(case, records) is None
    attempt = {"output": spoil(records), "changed": [], "aliases": []}
    assert known.criteria[0].mistake(case, attempt) is not None
