"""Four kinds of criteria: the output is judged before the evidence, and what could not be gathered blocks, never passes."""

import pytest

from course_lib.grading.criteria import Compiled, Correct, Counted, Timed
from course_lib.grading.outcome import Mistake, State

COMMON = {
    "name": "n", "claim": "c", "points": 4.0, "cases": lambda seed: [{"name": "one", "answer": 42}], "run": "call",
    "check": lambda case, output: None if output == case["answer"] else Mistake(f"got {output}", "count again"),
}  # fmt: skip
CASE = {"name": "one", "answer": 42}
CORRECT = Correct(**COMMON)
COUNTED = Counted(**COMMON, bounds=lambda case: {"bytes_loaded": 100, "passes": 1})
COMPILED = Compiled(**COMMON, targets=("sm_80", "sm_90"), tensor_cores=True)
TIMED = Timed(**COMMON, bar=0.8, zero_at=0.4, goal=0.95, devices=("NVIDIA H200",))
TARGET = {"target": "sm_90", "compiles": True, "shared_bytes": 10, "shared_limit_bytes": 100, "spills": 0, "tensor_cores": 4}
GOOD = {
    "counted": {"counts": {"bytes_loaded": 100, "passes": 1}},
    "compiled": {"targets": [TARGET, TARGET | {"target": "sm_80"}]},
    "timed": {"device": "NVIDIA H200", "peer": "cuBLAS", "ratios": [0.7, 0.85, 0.9], "roof_share": 0.6},
}
ALL = [CORRECT, COUNTED, COMPILED, TIMED]


def returned(output=42, evidence=None, **more):
    return {"status": "returned", "output": output, "evidence": evidence, "changed": [], "aliases": []} | more


def judge(criterion, evidence=None, **more):
    evidence = GOOD.get(str(criterion.kind)) if evidence is None else evidence
    return criterion.judge(CASE, returned(evidence=evidence, **more))


@pytest.mark.parametrize("criterion", ALL, ids=lambda c: c.kind)
def test_right_output_with_good_evidence_passes(criterion):
    assert judge(criterion).state is State.PASSED


@pytest.mark.parametrize("criterion", ALL, ids=lambda c: c.kind)
@pytest.mark.parametrize("attempt", [{"output": 41}, {"output": None}, {"changed": ["x"]}, {"aliases": ["x"]}], ids=str)
def test_a_wrong_output_fails_however_good_its_evidence(criterion, attempt):
    finding = judge(criterion, **attempt)
    assert finding.state is State.FAILED
    assert finding.share == 0
    assert finding.reason


@pytest.mark.parametrize("criterion", ALL[1:], ids=lambda c: c.kind)
@pytest.mark.parametrize("evidence", [{"blocked": "needs a GPU"}, "junk", 3, []], ids=str)
def test_missing_evidence_blocks_and_never_passes(criterion, evidence):
    finding = criterion.judge(CASE, returned(evidence=evidence))
    assert finding.state is State.BLOCKED
    assert finding.share == 0
    assert finding.reason
    assert criterion.judge(CASE, returned(evidence=None)).state is State.BLOCKED
    assert criterion.judge(CASE, returned(output=0, evidence=evidence)).state is State.FAILED


def test_declared_buffers_may_change_and_declared_views_may_share():
    free = Correct(**COMMON, may_change=("out",), may_alias=True)
    assert judge(free, changed=["out"], aliases=["out"]).state is State.PASSED
    assert judge(free, changed=["out", "q"]).state is State.FAILED


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ({"bytes_loaded": 101, "passes": 1}, "bytes_loaded: 101, 1.01 times the bound of 100"),
        ({"bytes_loaded": 100}, "passes was not counted"),
        ({"bytes_loaded": float("nan"), "passes": 1}, "was not counted"),
        ({"bytes_loaded": -1, "passes": 1}, "was not counted"),
        ({"bytes_loaded": "0", "passes": 1}, "was not counted"),
        ({}, "was not counted"),
    ],
)
def test_counts_beyond_the_bound_or_absent_fail(counts, words):
    finding = judge(COUNTED, {"counts": counts})
    assert finding.state is State.FAILED
    assert words in finding.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"compiles": False, "why_not": "no fp8 here"}, "sm_90: does not compile: no fp8 here"),
        ({"shared_bytes": 101}, "needs 101 bytes of shared memory, the limit is 100"),
        ({"spills": 8}, "spills 8"),
        ({"tensor_cores": 0}, "uses no tensor core"),
        ({"target": "sm_75"}, "sm_90: was not compiled"),
    ],
)
def test_a_kernel_that_does_not_fit_fails_and_names_the_target(change, words):
    finding = judge(COMPILED, {"targets": [TARGET | {"target": "sm_80"}, TARGET | change]})
    assert finding.state is State.FAILED
    assert words in finding.reason


@pytest.mark.parametrize(
    ("ratios", "state", "share"),
    [([0.8], State.PASSED, 1.0), ([0.4], State.FAILED, 0.0), ([0.6], State.FAILED, 0.5), ([0.1], State.FAILED, 0.0),
     ([0.1, 0.9, 0.9], State.PASSED, 1.0), ([0.96], State.PASSED, 1.0)],
)  # fmt: skip
def test_points_grow_in_a_straight_line_up_to_the_bar(ratios, state, share):
    finding = judge(TIMED, GOOD["timed"] | {"ratios": ratios})
    assert finding.state is state
    assert finding.share == pytest.approx(share)
    assert finding.evidence["ratio"] == pytest.approx(sorted(ratios)[len(ratios) // 2])
    assert ("goal reached" in finding.reason) == (ratios == [0.96])


@pytest.mark.parametrize(
    "change",
    [{"roof_share": 1.06}, {"roof_share": float("nan")}, {"roof_share": None}, {"ratios": []}, {"ratios": [0.9, float("inf")]},
     {"ratios": [-1.0]}, {"ratios": ["9"]}, {"device": "NVIDIA H100 PCIe"}],
    ids=str,
)  # fmt: skip
def test_times_that_cannot_be_trusted_block(change):
    finding = judge(TIMED, GOOD["timed"] | change)
    assert finding.state is State.BLOCKED
    assert finding.share == 0


@pytest.mark.parametrize(
    ("criterion", "evidence"),
    [(COUNTED, {"counts": 5}), (COUNTED, {"counts": {"bytes_loaded": 10**400, "passes": 1}}), (COMPILED, {"targets": [3]}),
     (COMPILED, {"targets": 3}), (COMPILED, {"targets": [TARGET | {"shared_bytes": "a"}, TARGET | {"target": "sm_80"}]}),
     (TIMED, GOOD["timed"] | {"ratios": 3.0}), (TIMED, GOOD["timed"] | {"ratios": [10**400]}), (TIMED, {"device": 1}),
     (TIMED, GOOD["timed"] | {"ratios": None})],
    ids=str,
)  # fmt: skip
def test_evidence_of_any_shape_never_passes_and_never_raises(criterion, evidence):
    finding = judge(criterion, evidence)
    assert finding.state is not State.PASSED
    assert finding.share == 0
    assert len(finding.reason) < 400


def test_a_bar_without_a_line_up_to_it_is_a_mistake_of_the_author():
    for wrong in ({"bar": 0.5, "zero_at": 0.5}, {"bar": 0.5, "zero_at": 0.6}, {"bar": 0.0, "zero_at": -1.0}):
        with pytest.raises(AssertionError, match="no line"):
            Timed(**COMMON, **wrong)


def test_on_another_device_the_ratio_is_shown_and_the_points_wait():
    finding = judge(TIMED, GOOD["timed"] | {"device": "NVIDIA A100"})
    assert "0.85 of cuBLAS on NVIDIA A100" in finding.reason
    assert "calibrated on NVIDIA H200" in finding.reason
    assert finding.evidence["ratio"] == 0.85


def test_confirm_can_refuse_what_a_ratio_does_not_show():
    strict = Timed(**COMMON, bar=0.0, confirm=lambda case, evidence: Mistake("the ridge is wrong"))
    assert judge(strict).reason == "the ridge is wrong"
    assert judge(strict).state is State.FAILED
