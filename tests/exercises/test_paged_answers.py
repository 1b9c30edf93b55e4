"""Exercise 2.8 against many answers at once."""

import pytest

from course_lib.exercises import exercise
from course_lib.exercises.runners import phase2_paged as runner
from course_lib.grading.inside.attempt import attempt
from course_lib.grading.judging import plan
from course_lib.grading.outcome import State

from . import judged_together
from .answers.phase2 import paged as answers

WRONG = dict(answers.MORE_WRONG)
BY_LAUNCHES = {"write traffic", "write compiled", "decode traffic", "decode compiled"}
SAYS = {  # what a learner reads, where the words are the point
    answers.by_torch: "an input outside of your launches",
    answers.written_twice: "Each element is loaded once",
    answers.dead_scores: "Which score has a weight of 0?",
    answers.dead_values: "is nothing loaded from behind the last token?",
    answers.empty_is_nan: "What is acc / l when l is 0",
    answers.no_table: "table[p // block_size]",
    answers.whole_last_block: "Slots behind the last token are read as well",
    answers.gathers_first: "or a copy of it before?",
    answers.narrow_decode: "the widest load of a thread is 8 bytes",
}


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    reports, whole = tmp_path_factory.mktemp("reports"), (answers.by_torch,)
    return judged_together.findings("2.8", runner, WRONG, answers.MORE_RIGHT, reports, from_launches=BY_LAUNCHES, whole=whole)


def of_output(criterion, job, one):
    return one["message"] if one["status"] != "returned" else criterion.mistake(job.case, one)


@pytest.mark.compile
@pytest.mark.parametrize("answer", WRONG, ids=lambda a: a.__name__)
def test_a_wrong_cache_fails_exactly_the_criteria_it_breaks(findings, answer):
    of_each = findings[answer]
    assert {name for name, found in of_each.items() if any(found)} == WRONG[answer], of_each
    assert SAYS.get(answer, "") in " ".join(str(one) for found in of_each.values() for one in found)


@pytest.mark.compile
@pytest.mark.parametrize("answer", answers.MORE_RIGHT, ids=lambda a: a.__name__)
def test_a_right_cache_passes_however_it_is_written(findings, answer):
    of_each = findings[answer]
    assert len(of_each) == 10
    assert not any(one for found in of_each.values() for one in found), of_each


@pytest.mark.parametrize(
    ("answer", "name", "words"),
    [
        (answers.always_16, "write", "Blocks have 32 slots here, and slots were found as if they had 16"),
        (answers.maximum_falls, "lengths", "m must never fall"),
        (answers.first_tile_only, "lengths", "Only the first tile is read"),
        (answers.whole_tiles_only, "lengths", "a last tile that is not full"),
        (answers.head_in_group, "heads", "h % group is something else"),
        (answers.blocks_touch, "layouts", "K and V have strides of their own here"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_a_slip_that_one_case_shows_is_named(answer, name, words):
    known = exercise("2.8")
    jobs = [job for job in plan(known, "check", seed=judged_together.SEED) if known.criteria[job.criterion].name == name]
    criterion = known.criteria[jobs[0].criterion]
    of_each = {
        each: [of_output(criterion, job, attempt(getattr(runner, criterion.run), each, job.case)) for job in jobs]
        for each in (answer, answers.one_tile)
    }
    assert words in str(next(filter(None, of_each[answer])))
    assert not any(of_each[answers.one_tile])


@pytest.mark.soak
@pytest.mark.parametrize("answer", answers.REST_RIGHT, ids=lambda a: a.__name__)
def test_another_right_cache_passes(answer, tmp_path):
    verdict = judged_together.verdicts("2.8", runner, [answer], tmp_path)[answer]
    assert [o.state for o in verdict.outcomes] == [State.PASSED] * 10, [(o.name, o.reason) for o in verdict.outcomes]


@pytest.mark.soak
@pytest.mark.parametrize(("answer", "must"), [*answers.REST_WRONG, *answers.MORE_WRONG], ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_output_is_wrong_whatever_the_seed(answer, must):
    known = exercise("2.8")
    for seed in range(40):
        failed = set()
        for job in plan(known, "check", seed=seed):
            criterion = known.criteria[job.criterion]
            one = attempt(getattr(runner, criterion.run), answer, job.case, None, None)
            failed |= {criterion.name} if of_output(criterion, job, one) else set()
        by_launches = BY_LAUNCHES if must <= BY_LAUNCHES or answer is answers.by_torch else set()
        assert failed - by_launches <= must, (seed, failed)
        assert answer is answers.by_torch or must - BY_LAUNCHES <= failed, (seed, failed)


def test_bounds_are_those_that_paper_gives():
    """130 tokens, 4 query heads on 2 KV heads of 64 in fp16: each query head reads 256 bytes and a table entry a token."""
    from course_lib.exercises.phase2.paged_cases import decode_traffic_cases, write_traffic_cases
    from course_lib.exercises.phase2.paged_traffic import decode_bounds, write_bounds

    case = decode_traffic_cases(0)[1]
    assert case["lengths"].tolist() == [130]
    assert decode_bounds(case) == {"loaded_bytes": 4 * 130 * 260 + 4 * (128 + 4), "stored_bytes": 4 * 128}
    (case,) = write_traffic_cases(0)
    live = int((case["slots"] >= 0).sum())
    assert (len(case["slots"]), live) == (20, 16)
    assert write_bounds(case) == {"loaded_bytes": 20 * (2 * 4 * 128 + 2 * 4 * 8), "stored_bytes": 16 * 2 * 4 * 128}
