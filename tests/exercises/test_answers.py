"""Every criterion proves itself: wrong answers fail it, right ones written differently pass, over several seeds."""

import pytest

from course_lib.course.live import check_live
from course_lib.exercises import all_exercises, exercise
from course_lib.grading.outcome import ExerciseState, Kind, State

from .answers import RIGHT, WRONG

# launches are replayed by a process of their own, seconds each; test_soak.py tries many more seeds
SEEDS, SEEDS_WITH_LAUNCHES = range(3), range(1)
WRONG_ANSWERS = [(number, answer, must) for number, rows in WRONG.items() for answer, must in rows]
RIGHT_ANSWERS = [(number, answer) for number, answers in RIGHT.items() for answer in answers]


def seeds(number):
    return SEEDS_WITH_LAUNCHES if any(criterion.launches for criterion in exercise(number).criteria) else SEEDS


@pytest.mark.parametrize(("number", "answer", "must_fail"), WRONG_ANSWERS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_answer_fails_exactly_the_criteria_it_breaks(number, answer, must_fail):
    for seed in seeds(number):
        verdict = check_live(number, answer, seed=seed)
        failed = {outcome.name for outcome in verdict.outcomes if outcome.state is State.FAILED}
        assert failed == must_fail, [(o.name, o.state, o.reason) for o in verdict.outcomes]
        assert verdict.score < verdict.max_points


@pytest.mark.parametrize(("number", "answer"), RIGHT_ANSWERS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_right_answer_written_differently_passes(number, answer):
    for seed in seeds(number):
        verdict = check_live(number, answer, seed=seed)
        assert verdict.state is ExerciseState.DONE, [(o.name, o.reason) for o in verdict.outcomes]


@pytest.mark.parametrize("known", all_exercises(), ids=lambda e: e.id)
def test_every_criterion_has_both_kinds_of_proof(known):
    assert len(RIGHT.get(known.id, [])) >= 2, f"{known.id} wants right answers written differently"
    caught = set().union(*(must for _, must in WRONG.get(known.id, [])))
    for criterion in known.criteria:
        if criterion.kind is not Kind.TIMED:  # what a device measures is proven in tests/gpu
            assert criterion.name in caught, f"nothing is known to fail {known.id} '{criterion.name}'"


@pytest.mark.parametrize("known", all_exercises(), ids=lambda e: e.id)
def test_fresh_seeds_give_fresh_cases_and_a_seed_repeats_them(known):
    from course_lib.grading.inside.border import pack
    from course_lib.grading.judging import plan

    for cell in known.cells:
        first, again, other = (b"".join(pack(job.case) for job in plan(known, cell, seed)) for seed in (1, 1, 2))
        assert first == again
        assert first != other
