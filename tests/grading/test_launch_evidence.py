"""Counted and compiled evidence from launches: cheats fail for their own reason, honest answers pass, live and judged alike."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import torch

from course_lib.course import judge as judge_module
from course_lib.course import live
from course_lib.course.judge import judge
from course_lib.course.live import check_live
from course_lib.grading.inside.attempt import attempt
from course_lib.grading.judging import conclude, plan
from course_lib.grading.launch_compile import compiled
from course_lib.grading.launches import inputs_of, with_launch_evidence
from course_lib.grading.outcome import State
from course_lib.interpreter.recorded.recording import record

from . import launch_answers as answers
from . import launch_runner as runner
from .launch_exercises import COPY, MATMUL, TARGET

P, F = State.PASSED, State.FAILED
ELSEWHERE = "lies in memory that none of your launches was given: torch or numpy made it, outside of them"
HONEST = {
    answers.tiled: (MATMUL, [P, P]),
    answers.upper_and_lower: (MATMUL, [P, P]),
    answers.row_by_row: (MATMUL, [P, F]),
    answers.row_by_row_with_atomics: (MATMUL, [P, F]),
    answers.copied: (COPY, [P]),
    answers.copied_twice: (COPY, [F]),
}
CHEATS = {  # answer -> (exercise, what its first failed criterion says)
    answers.torch_alone: (MATMUL, "your function launched no kernel"),
    answers.another_jit: (MATMUL, "your function launched no kernel"),
    answers.silent_recorder: (MATMUL, "your function launched no kernel"),
    answers.torch_beside_a_launch: (MATMUL, f"your answer {ELSEWHERE}"),
    answers.numpy_beside_a_launch: (MATMUL, f"your answer {ELSEWHERE}"),
    answers.torch_through_a_copy: (MATMUL, "launch 1 (copy_kernel): argument src_ptr holds values that no launch of yours wrote"),
    answers.touched_afterwards: (MATMUL, "launch 1 (look_kernel): argument x_ptr holds values that no launch of yours wrote"),
    answers.written_over: (MATMUL, "do not give your answer: 323 of 323 values differ, first at [0, 0]: you returned"),
    answers.broken_recorder: (MATMUL, "your launches, run again on their own, do not give your answer"),
    answers.as_numbers: (MATMUL, "expected a tensor"),
    answers.out_of_bounds: (MATMUL, "raised KernelMistake: beyond_kernel, line 52 `tl.store(c_ptr + index, tl.load(a_ptr + n"),
    answers.copied_by_torch: (COPY, "elements of your answer were written by no launch: they are a copy of an input"),
    answers.a_clone: (COPY, "elements of your answer were written by no launch: they are a copy of an input"),
    answers.half_by_torch: (COPY, "do not give your answer: 1 of "),
    answers.input_itself: (COPY, "elements of your answer were written by no launch: they are a copy of an input"),
}


@pytest.fixture(scope="module")
def verdicts():
    """Verdict of every answer; the launches of all of them are replayed by one process. What compiles is judged elsewhere."""
    found = {}
    for exercise in (MATMUL, COPY):
        mine = [answer for answer, (known, _) in (HONEST | CHEATS).items() if known is exercise]
        jobs = [job for job in plan(exercise, "check", seed=3) if exercise.in_cell("check")[job.criterion].kind != "compiled"]
        made = [attempt(getattr(runner, exercise.in_cell("check")[job.criterion].run), answer, job.case, None, record)
                for answer in mine for job in jobs]  # fmt: skip
        made = with_launch_evidence(exercise, "check", jobs * len(mine), made, runner, cached=True)
        trimmed = replace(exercise, criteria=[c for c in exercise.criteria if c.kind != "compiled"])
        for place, answer in enumerate(mine):
            own = made[place * len(jobs) : (place + 1) * len(jobs)]
            found[answer] = conclude(trimmed, "check", jobs, own)
    return found


@pytest.mark.parametrize("answer", HONEST, ids=lambda a: a.__name__)
def test_honest_answers_earn_what_their_counts_allow(verdicts, answer):
    outcomes = verdicts[answer].outcomes
    assert [outcome.state for outcome in outcomes] == HONEST[answer][1], [outcome.reason for outcome in outcomes]


def test_a_wasteful_kernel_is_told_by_how_much(verdicts):
    reason = verdicts[answers.row_by_row].outcomes[1].reason
    # 19 rows read b (24 x 17 fp16) each and 24 values of a, where 2 x 2 tiles read 2 x 16 x 24 values
    assert "loaded_bytes: 16,416, 2.67 times the bound of 6,144" in reason
    assert "case 'awkward'" in reason
    assert ", 2.00 times the bound of " in verdicts[answers.copied_twice].outcomes[0].reason


def test_evidence_holds_the_counts(verdicts):
    counts = verdicts[answers.tiled].outcomes[1].evidence["counts"]
    assert counts["launches"] == 1
    assert counts["loaded_bytes"] == counts["loaded_bytes[a_ptr]"] + counts["loaded_bytes[b_ptr]"] > 0


@pytest.mark.parametrize("answer", CHEATS, ids=lambda a: a.__name__)
def test_a_cheat_fails_for_its_own_reason(verdicts, answer):
    outcomes = verdicts[answer].outcomes
    assert all(outcome.state is F for outcome in outcomes), [outcome.state for outcome in outcomes]
    assert CHEATS[answer][1] in outcomes[0].reason


def test_the_judges_own_copies_have_the_layout_that_the_runner_gives():
    case = next(job.case for job in plan(MATMUL, "check", seed=1) if job.case["strided"])
    a, b = inputs_of(runner.matmul, case)
    assert a.stride() == (32, 2)
    assert torch.equal(a, case["a"])
    assert a.untyped_storage().nbytes() == 2 * 20 * 16 * 2
    assert torch.equal(b, case["b"])


def test_without_a_recording_the_points_are_blocked():
    jobs = plan(COPY, "check", seed=1)
    made = [attempt(runner.copy_into, answers.copied, job.case) for job in jobs]
    (outcome,) = conclude(COPY, "check", jobs, with_launch_evidence(COPY, "check", jobs, made, runner, cached=True)).outcomes
    assert outcome.state is State.BLOCKED
    assert "launches were not recorded here" in outcome.reason


FORGED = {
    "launches": torch.zeros(0), "kernels": torch.zeros(2), "storages": [400, 10**5000], "version": 10**5000, "compiled": [[]],
}  # fmt: skip


@pytest.mark.parametrize("field", FORGED)
def test_a_forged_recording_ends_in_a_verdict(field):
    (job, *_) = plan(COPY, "check", seed=1)
    made = attempt(runner.copy_into, answers.copied, job.case, None, record)
    made["launches"]["tape"][field] = FORGED[field]
    (outcome,) = conclude(COPY, "check", [job], with_launch_evidence(COPY, "check", [job], [made], runner, cached=True)).outcomes
    unread = field in ("version", "compiled")  # nothing follows from these
    assert outcome.state is (P if unread else F), outcome.reason


@pytest.mark.parametrize("damage", [{"options": None}, {"options": {"num_warps": 10**5000}}, {"arguments": {"src_ptr": {}}}])
def test_a_forged_launch_is_not_compiled(damage):
    criterion = MATMUL.criteria[2]
    (job, *_) = plan(COPY, "check", seed=1)
    made = attempt(runner.copy_into, answers.copied, job.case, None, record)
    made["launches"]["tape"]["launches"][0] |= damage
    (evidence,) = compiled([(criterion, job.case, made)], cached=False)
    assert "the launches cannot be compiled apart" in evidence["failed"]


def test_a_recorder_that_does_not_fit_blocks_and_runs_the_answer_all_the_same():
    def unfit():
        raise RuntimeError("Triton 9.9 is not known")

    (job, *_) = plan(COPY, "check", seed=1)
    made = attempt(runner.copy_into, answers.copied, job.case, None, unfit)
    assert made["status"] == "returned"
    assert made["launches"] == {"blocked": "Triton 9.9 is not known"}


def notebook(exercise, answer):
    source = Path(answers.__file__).read_text() + f"\n\n{exercise.entry} = {answer.__name__}\n"
    cell = nbformat.v4.new_code_cell(source, metadata={"nbgrader": {"grade_id": exercise.cell_id}})
    return nbformat.v4.new_notebook(cells=[cell])


@pytest.fixture
def as_exercise(monkeypatch, tmp_path):
    """Makes the course know one exercise of ours, and keeps compile reports out of the user's cache."""

    def known(exercise):
        monkeypatch.setattr(live, "exercise", lambda _: exercise)
        for module in (live.runners, judge_module.runners):
            monkeypatch.setattr(module, "load", lambda _: runner)
            monkeypatch.setattr(module, "files", lambda _: {"runner.py": Path(runner.__file__).read_bytes()})
        monkeypatch.setenv("COURSE_COMPILE_CACHE", str(tmp_path / "cache"))
        return exercise

    return known


@pytest.mark.compile
def test_a_right_kernel_earns_everything_live_and_judged(as_exercise):
    exercise = as_exercise(MATMUL)
    here = check_live(exercise.id, answers.tiled, seed=5)
    apart = judge(notebook(exercise, answers.tiled), exercise, seed=5)
    assert here.outcomes == apart.outcomes
    assert [outcome.state for outcome in here.outcomes] == [P, P, P], [outcome.reason for outcome in here.outcomes]
    (row,) = here.outcomes[2].evidence["targets"]
    assert row["target"] == TARGET
    assert Counter(row["tensor_cores"]).total() > 0


def test_a_cheat_is_told_alike_live_and_judged(as_exercise):
    exercise = as_exercise(replace(MATMUL, criteria=MATMUL.criteria[:2]))
    here = check_live(exercise.id, answers.torch_through_a_copy, seed=5)
    apart = judge(notebook(exercise, answers.torch_through_a_copy), exercise, seed=5)
    assert here.outcomes == apart.outcomes
    assert [outcome.state for outcome in here.outcomes] == [F, F]
    assert "argument src_ptr holds values" in here.outcomes[0].reason
    assert "a converted copy is work as well" in here.outcomes[0].hint


def test_a_mistake_is_told_alike_where_nothing_is_recorded(as_exercise):
    """The child runs kernels with the course's interpreter and its checks, whether launches are asked for or not."""
    exercise = as_exercise(replace(MATMUL, criteria=[replace(MATMUL.criteria[0], launches=False)]))
    here = check_live(exercise.id, answers.out_of_bounds, seed=5)
    apart = judge(notebook(exercise, answers.out_of_bounds), exercise, seed=5)
    assert here.outcomes == apart.outcomes
    assert here.outcomes[0].reason.startswith("raised KernelMistake: beyond_kernel, line 52 `tl.store(c_ptr + index")
    assert "cannot load" in here.outcomes[0].reason


@pytest.mark.compile
def test_of_several_kernels_the_worst_decides(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_COMPILE_CACHE", str(tmp_path / "cache"))
    criterion = MATMUL.criteria[2]
    (case,) = criterion.cases(5)

    def both(a, b):
        answers.tiled(a, b)
        return answers.row_by_row(a, b)

    made = attempt(runner.matmul, both, case, None, record)
    (evidence,) = compiled([(criterion, case, made)], cached=False)
    assert [one["kernel"] for one in evidence["kernels"]] == ["matmul_kernel", "row_kernel"]
    one, other = (kernel["targets"][0] for kernel in evidence["kernels"])
    (worst,) = evidence["targets"]
    assert worst["shared_bytes"] == max(one["shared_bytes"], other["shared_bytes"]) > 0
    assert worst["tensor_cores"] == one["tensor_cores"] != {}
    assert other["tensor_cores"] == {}
    strict = replace(criterion, max_spills=-1)  # a bound that no kernel keeps: the evidence is weighed
    assert strict.judge(case, {**made, "evidence": evidence}).state is F
    assert criterion.judge(case, {**made, "evidence": evidence}).state is P
