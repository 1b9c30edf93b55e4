"""What the time of a kernel beside its peer is weighed with: what came out, whose work it was, and on which device."""

import pytest

from course_lib.exercises import exercise
from course_lib.exercises.phase2 import attend_rows_cases, flash_cases, paged_cases, split_decode_cases
from course_lib.grading.outcome import State

MEASURED = {"device": "NVIDIA H200", "rounds": 15, "wrong_rounds": 0, "torch_operations": [], "far": "right"}
TIMES = {  # exercise and criterion -> the peer, ratios to it, the share of a roof
    ("1.4", "this device"): ("torch's copy_", [0.99, 0.98, 1.0], 0.9),
    ("2.2", "this device"): ("torch's sum of each row", [0.96, 0.93, 0.95], 0.85),
    ("2.4", "this device"): ("cuDNN's attention", [0.69, 0.66, 0.68], 0.4),
    ("2.8", "this device"): ("a kernel that only reads K and V", [0.66, 0.63, 0.65], 0.6),
    ("2.9", "one long context"): ("a plain read of K and V", [0.85, 0.84, 0.86], 0.7),
    ("2.9", "a batch"): ("a plain read of K and V", [0.85, 0.84, 0.86], 0.7),
}
FAR = {"1.4": "2**31 + 65,536 elements"}
OUTPUTS = {  # what is right for a case
    "1.4": lambda case: case["x"],
    "2.2": lambda case: tuple(part.float() for part in attend_rows_cases.expected(case)),
    "2.4": lambda case: flash_cases.expected(case).to(case["q"].dtype),
    "2.8": lambda case: paged_cases.expected(case).to(case["q"].dtype),
    "2.9": lambda case: (split_decode_cases.expected(case)[0].to(case["q"].dtype), split_decode_cases.expected(case)[1].float()),
}


def weighed(number, name, change):
    (timed,) = (criterion for criterion in exercise(number).in_cell("timed") if criterion.name == name)
    (case,) = timed.cases(3)
    peer, ratios, roof_share = TIMES[number, name]
    evidence = MEASURED | {"peer": peer, "ratios": ratios, "roof_share": roof_share} | change
    touched = ["out"] if number == "1.4" else []
    record = {"output": OUTPUTS[number](case), "changed": touched, "aliases": touched, "evidence": evidence}
    return timed, timed.judge(case, record)


@pytest.mark.parametrize(("number", "name"), TIMES)
def test_a_right_result_is_worth_its_time(number, name):
    peer, ratios, _ = TIMES[number, name]
    middle = f"{sorted(ratios)[1]:.2f}"
    timed, finding = weighed(number, name, {})
    assert (finding.state, f"{middle} of {peer} on NVIDIA H200" in finding.reason) == (State.PASSED, True), finding.reason
    _, finding = weighed(number, name, {"far": "not tried: 9.0 GB must be free"})
    assert (finding.state, middle in finding.reason) == (State.PASSED, True), finding.reason
    _, finding = weighed(number, name, {"ratios": [timed.goal + 0.01]})
    assert (finding.state, "(goal reached)" in finding.reason) == (State.PASSED, True), finding.reason
    _, finding = weighed(number, name, {"ratios": [timed.bar - 0.02]})
    assert (finding.state, f"the bar is {timed.bar}" in finding.reason) == (State.FAILED, True), finding.reason


@pytest.mark.parametrize(("number", "name"), TIMES)
@pytest.mark.parametrize(
    ("change", "state", "words"),
    [
        ({"far": "wrong"}, State.FAILED, None),
        ({"wrong_rounds": 2, "roof_share": 0.0}, State.FAILED, "in 2 of 15 rounds"),
        ({"torch_operations": ["_softmax"]}, State.FAILED, "torch worked inside your function (_softmax)"),
        ({"device": "NVIDIA L4"}, State.BLOCKED, "calibrated on NVIDIA H200"),
        ({"roof_share": 1.2}, State.BLOCKED, "cannot be true"),
        ({"far": None, "wrong_rounds": None, "rounds": None, "torch_operations": 3}, State.BLOCKED, "does not make sense"),
        ({"blocked": "cuDNN's attention does not run here"}, State.BLOCKED, "cuDNN"),
    ],
    ids=str,
)
def test_a_time_is_weighed_with_what_came_out(number, name, change, state, words):
    _, finding = weighed(number, name, change)
    assert (finding.state, (words or FAR.get(number, "2**31 elements")) in finding.reason) == (state, True), finding.reason
