"""Many answers to a kernel exercise at once: their launches are replayed by one process, where one each would take minutes."""

import pytest

from course_lib.exercises import exercise
from course_lib.grading.criteria import Finding
from course_lib.grading.inside.attempt import attempt
from course_lib.grading.judging import conclude, plan
from course_lib.grading.launches import with_launch_evidence
from course_lib.grading.outcome import State
from course_lib.interpreter.recorded.recording import record

SEED = 11


def attempts(number, runner, answers):
    """(answer, job, what came of it) of every answer and every case of the check cell."""
    known = exercise(number)
    for answer in answers:
        for job in plan(known, "check", seed=SEED):
            criterion = known.criteria[job.criterion]
            recorder = record if criterion.launches else None
            yield answer, job, attempt(getattr(runner, criterion.run), answer, job.case, None, recorder)


def with_evidence(number, runner, jobs, made, reports):
    """Bytes, FLOPs and compiled code for each of `made`. reports: a folder for compilations, where no other test looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_COMPILE_CACHE", str(reports))
        return with_launch_evidence(exercise(number), "check", jobs, made, runner, cached=True)


def findings(number, runner, wrong, right, reports, *, from_launches, whole=()):
    """answer -> {criterion's name: its findings, None for a pass}. wrong: {answer: names of the criteria that it must fail}.

    Launches take seconds to replay and compile. A wrong answer's are looked at by the criteria of `from_launches` that it must
    fail; by all others its output is weighed. `whole`: wrong answers of which everything is looked at.
    """
    known, found = exercise(number), {}
    whose, jobs, made = [], [], []
    for answer, job, one in attempts(number, runner, [*wrong, *right]):
        criterion = known.criteria[job.criterion]
        if answer not in wrong or answer in whole or criterion.name in wrong[answer] & set(from_launches):
            whose.append(answer)
            jobs.append(job)
            made.append(one)
        else:
            of_output = one["message"] if one["status"] != "returned" else criterion.mistake(job.case, one)
            found.setdefault(answer, {}).setdefault(criterion.name, []).append(of_output)
    made = with_evidence(number, runner, jobs, made, reports)
    for answer, job, one in zip(whose, jobs, made, strict=True):
        criterion = known.criteria[job.criterion]
        finding = criterion.judge(job.case, one) if one["status"] == "returned" else Finding(State.FAILED, one["message"])
        passed = finding.state is State.PASSED
        found.setdefault(answer, {}).setdefault(criterion.name, []).append(None if passed else finding)
    return found


def verdicts(number, runner, answers, reports):
    """{answer: its verdict}."""
    who, jobs, made = zip(*attempts(number, runner, answers), strict=True)
    made = with_evidence(number, runner, list(jobs), list(made), reports)
    rows = list(zip(who, jobs, made, strict=True))
    known, found = exercise(number), {}
    for answer in answers:
        own = [(job, one) for whose, job, one in rows if whose is answer]
        found[answer] = conclude(known, "check", *map(list, zip(*own, strict=True)))
    return found
