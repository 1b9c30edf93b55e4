"""What a clever or a careless answer to phase 1 might return: every criterion says what is wrong with it and none stumbles."""

import itertools

import pytest
import torch

from course_lib.course.live import check_live
from course_lib.course.shown import Shown
from course_lib.exercises import all_exercises, runners
from course_lib.grading.inside.border import Opaque, pack, unpack
from course_lib.grading.outcome import Kind, Mistake, State
from tests.exercises.answers import RIGHT

STRANGE = {
    "None": None, "NaN": float("nan"), "infinity": float("inf"), "an int beyond float": 10**400, "and below": -(10**5000),
    "a bool": True, "a lone surrogate": "\ud800", "an empty dict": {}, "other keys": {"a": 1}, "an empty list": [],
    "a NaN tensor": torch.full((3,), float("nan")), "a complex tensor": torch.ones(2, dtype=torch.complex64),
    "a tensor of no dimension": torch.tensor(1.0), "bools": torch.tensor([True]),
    "a float8 tensor": torch.zeros(2).to(torch.float8_e5m2),
    "what did not cross": Opaque("fractions.Fraction"), "a lazy object": Opaque("generator"), "bytes": b"\xff",
}  # fmt: skip
CRITERIA = [(known, c) for known in all_exercises() if known.phase == 1 for c in known.criteria if c.kind is not Kind.TIMED]
BY_NAME = pytest.mark.parametrize(("known", "criterion"), CRITERIA, ids=lambda v: getattr(v, "id", getattr(v, "name", "")))


def attempted(output):
    return {"status": "returned", "output": unpack(pack(output)), "changed": [], "aliases": [], "evidence": None}


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")  # a tensor where a runner gives a dict
@BY_NAME
def test_a_strange_answer_is_a_mistake_and_no_accident(known, criterion):
    case = criterion.cases(5)[0]
    for name, value in STRANGE.items():
        mistake = criterion.mistake(case, attempted(value))
        assert isinstance(mistake, Mistake), name
        assert mistake.reason


@BY_NAME
def test_a_right_answer_with_one_strange_part_is_a_mistake_or_no_matter(known, criterion):
    if known.id in ("1.4", "1.8"):  # no dict of the answer's own; plans are taken apart in the runner
        return
    case = criterion.cases(5)[0]
    right = getattr(runners.load(known.runner), criterion.run)(RIGHT[known.id][0], unpack(pack(case)))
    assert criterion.mistake(case, attempted(right)) is None
    for key, (name, value) in itertools.product(right if isinstance(right, dict) else (), STRANGE.items()):
        if known.id == "1.9" and key != "results":
            continue  # the runner's own notes
        strange = [value] * len(right[key]) if key == "results" else value
        mistake = criterion.mistake(case, attempted(right | {key: strange}))
        assert mistake is None or "cannot be compared" not in mistake.reason, (key, name, mistake)


def scheduled(plan):
    from course_lib.exercises.runners.phase1_scheduler import _plain

    return _plain(plan)


@pytest.mark.parametrize("part", ["decode", "prefill"])
def test_a_plan_without_end_comes_to_one(part):
    endless = itertools.count() if part == "decode" else zip(itertools.count(), itertools.count(1))
    assert "more than 10,000 entries" in scheduled({"decode": [], "prefill": []} | {part: endless})["malformed"]


@pytest.mark.parametrize("entry", [(10**400, 1), (1, -(10**400)), (1.0, 1), ("1", 1), (1,), (1, 2, 3), None])
def test_an_entry_that_is_no_pair_of_ints_is_named(entry):
    assert "all int" in scheduled({"decode": [], "prefill": [entry]})["malformed"]


class BadPlace(Exception):
    place = property(lambda self: 1 / 0)


class BadClass(Exception):
    __class__ = property(lambda self: 1 / 0)


RAISED = {
    "BadPlace": BadPlace, "BadClass": BadClass, "GeneratorExit": GeneratorExit, "BaseException": BaseException,
    "StopIteration": StopIteration, "sys.exit": lambda: SystemExit("\ud800"), "RecursionError": RecursionError,
    "MemoryError": MemoryError, "ExceptionGroup": lambda: ExceptionGroup("g", [ValueError(1)]), "interrupted": KeyboardInterrupt,
}  # fmt: skip


@pytest.mark.parametrize("name", RAISED)
def test_whatever_is_raised_the_verdict_says_so(name):
    def answer(peak_tflops, hbm_gb_per_s):
        raise RAISED[name]()

    verdict = check_live("1.1", answer, seed=5)
    assert {outcome.state for outcome in verdict.outcomes} == {State.FAILED}
    assert name in verdict.outcomes[0].reason
    str(Shown(verdict)._repr_mimebundle_()).encode()


def test_a_check_without_its_tools_ends_in_a_verdict(monkeypatch):
    monkeypatch.setattr(torch, "rand", None)
    verdict = check_live("1.1", lambda peak_tflops, hbm_gb_per_s: peak_tflops, seed=5)
    assert verdict.score == 0
    assert "the check itself failed" in verdict.outcomes[0].reason
    assert "restart the kernel" in verdict.outcomes[0].reason
