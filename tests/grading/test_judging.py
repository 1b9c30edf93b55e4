"""Attempts become outcomes: the first failed case decides, blocked points wait, and any evidence can be stored."""

import json

import nbformat
import pytest
import torch

from course_lib.course.shown import Shown
from course_lib.grading.criteria import Correct, Timed
from course_lib.grading.evidence import json_safe
from course_lib.grading.exercise import Exercise
from course_lib.grading.inside.border import Opaque
from course_lib.grading.judging import conclude, derive_seed, plan, refused
from course_lib.grading.outcome import ExerciseState, Mistake, State
from course_lib.grading.verdict import Verdict


def cases(seed):
    return [{"name": "small", "n": 1}, {"name": "large", "n": 2}]


def check(case, output):
    return None if output == case["n"] else Mistake(f"got {output}")


COMMON = {"claim": "c", "cases": cases, "check": check, "run": "call"}
EXERCISE = Exercise(
    id="1.1", title="t", entry="f", params=("n",), returns="n", runner="phase1_ridge",
    criteria=(Correct(name="a", points=1.0, **COMMON), Correct(name="b", points=2.0, **COMMON),
              Timed(name="c", points=4.0, bar=1.0, **COMMON)),
)  # fmt: skip


def attempt(output=None, status="returned", evidence=None, **more):
    base = {"status": status, "message": "", "where": "", "output": output, "changed": [], "aliases": [], "evidence": evidence}
    return base | {"printed": "", "seconds": 1.0} | more


def end(*attempts, cell="check"):
    jobs = plan(EXERCISE, cell, 1)
    return conclude(EXERCISE, cell, jobs, attempts)


def test_each_criterion_is_judged_on_its_own_cases():
    verdict = end(attempt(1), attempt(2), attempt(1), attempt(99))
    assert [(o.state, o.points) for o in verdict.outcomes] == [(State.PASSED, 1.0), (State.FAILED, 0.0)]
    assert verdict.outcomes[1].reason == "case 'large': got 99"


def test_the_cells_share_out_the_criteria():
    assert EXERCISE.cells == ("check", "timed")
    assert [EXERCISE.points(cell) for cell in EXERCISE.cells] == [3.0, 4.0]
    assert EXERCISE.points() == 7.0
    assert EXERCISE.grade_id("timed") == "ex-1-1-timed"
    assert {job.criterion for job in plan(EXERCISE, "timed", 1)} == {0}


@pytest.mark.parametrize(
    ("status", "words"),
    [("raised", "raised E: m (line 3)"), ("exited", "called E: m (line 3)"), ("interrupted", "was interrupted after 1.0 s"),
     ("timeout", "ran longer than its limit: E: m"), ("died", "took its process down: E: m"), ("malformed", "E: m"),
     ("forged", "ended as 'forged'")],
)  # fmt: skip
def test_every_bad_end_has_its_words_and_no_points(status, words):
    bad = attempt(1, status=status, message="E: m", where="line 3")
    verdict = end(bad, bad, bad, bad)
    assert verdict.score == 0
    assert words in verdict.outcomes[0].reason


def test_an_exercise_is_open_when_every_case_meets_its_stub_and_only_then():
    stub, torchs = attempt(status="open", message="1.1: yours"), attempt(status="open", message='"mul" not implemented for')
    verdict = end(stub, stub, stub, stub)
    assert verdict.state is ExerciseState.OPEN
    assert verdict.note == "1.1: yours"
    for attempts in ([attempt(1), attempt(2), stub, attempt(2)], [torchs] * 4, [attempt(status="open", message="1.2: x")] * 4):
        verdict = end(*attempts)
        assert verdict.state is ExerciseState.PARTIAL
        assert "raised NotImplementedError: " in verdict.outcomes[1].reason


def timed(*ratios):
    evidence = [{"device": "D", "peer": "p", "ratios": [r], "roof_share": 0.5} if r else {"blocked": "no GPU"} for r in ratios]
    return end(*(attempt(n, evidence=e) for n, e in zip((1, 2), evidence, strict=True)), cell="timed")


def test_partial_points_are_those_of_the_worst_case_and_a_blocked_case_blocks():
    assert timed(2.0, 1.0).score == 4.0
    assert timed(0.75, 0.5).score == 2.0
    assert timed(2.0, None).waiting_points == 4.0
    assert timed(0.5, None).outcomes[0].state is State.FAILED


def test_a_refusal_fails_every_criterion_for_one_reason():
    verdict = refused(EXERCISE, "check", "no function")
    assert {o.reason for o in verdict.outcomes} == {"no function"}
    assert (verdict.score, verdict.max_points) == (0.0, 3.0)


STRANGE = {
    "ridge": torch.ones(1, 1, dtype=torch.float64), "big": torch.zeros(1000), "complex": torch.ones(1, dtype=torch.complex64),
    "nan": float("nan"), "opaque": Opaque("a.B"), "bytes": b"123", "tuple": (1, [2, {"x": float("inf")}]), "text": "x" * 10_000,
}  # fmt: skip


def test_any_evidence_can_be_stored_in_a_notebook_and_read_again():
    evidence = {"device": "D", "peer": "p", "ratios": [1.0], "roof_share": 0.5, **STRANGE}
    verdict = end(attempt(1, evidence=evidence), attempt(2, evidence=evidence), cell="timed")
    assert verdict.outcomes[0].evidence["ridge"] == [[1.0]]
    text = json.dumps(verdict.to_json(), allow_nan=False)
    assert Verdict.from_json(json.loads(text)) == verdict
    bundle = Shown(verdict)._repr_mimebundle_()
    cell = nbformat.v4.new_code_cell(outputs=[nbformat.v4.new_output("execute_result", bundle)])
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))


def test_json_safe_bounds_what_it_keeps():
    deep = value = {}
    for _ in range(50):
        value["x"] = value = {}
    assert len(json.dumps(json_safe({"deep": deep, "many": list(range(10**5))}))) < 2000


def test_seeds_of_criteria_are_unrelated_and_repeatable():
    seeds = {derive_seed(1, "1.1", "a"), derive_seed(1, "1.1", "b"), derive_seed(2, "1.1", "a"), derive_seed(1, "1.1a", "")}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert derive_seed(1, "1.1", "a") == derive_seed(1, "1.1", "a")
