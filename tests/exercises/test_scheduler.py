"""Further wrong schedulers for exercise 1.8: kin of those in its answers, each tried with one seed."""

import pytest

from course_lib.course.live import check_live
from course_lib.grading.outcome import State

from .answers.phase1.scheduler import MORE_WRONG


@pytest.mark.parametrize(("answer", "must_fail"), MORE_WRONG, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_scheduler_fails_exactly_the_criteria_it_breaks(answer, must_fail):
    verdict = check_live("1.8", answer, seed=101)
    failed = {outcome.name for outcome in verdict.outcomes if outcome.state is State.FAILED}
    assert failed == must_fail, [(o.name, o.state, o.reason) for o in verdict.outcomes]


def test_an_answer_cannot_change_what_the_engine_does():
    """It gets a copy: emptying the state, or giving oneself more blocks, changes nothing."""

    def meddler(state):
        plan = {"decode": [r["id"] for r in state["running"]], "prefill": [(r["id"], 1) for r in state["waiting"][:1]]}
        state["total_blocks"] = state["free_blocks"] = 10**9
        state["engine"]["ms_per_token"] = 0.0
        state["waiting"].clear()
        return plan

    def honest(state):
        return {"decode": [r["id"] for r in state["running"]], "prefill": [(r["id"], 1) for r in state["waiting"][:1]]}

    first, second = (check_live("1.8", answer, seed=5) for answer in (meddler, honest))
    assert first.outcomes == second.outcomes
    assert first.score < first.max_points
