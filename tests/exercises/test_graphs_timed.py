"""The timed part of 1.9 without a GPU: its race on the simulated device, and evidence as a device would give it."""

import pytest
import torch

from course_lib.exercises.phase1.graphs import CUDA_GRAPHS
from course_lib.exercises.runners import phase1_graphs
from course_lib.grading.outcome import State
from course_lib.workloads.simulated_cuda import simulated_device
from tests.exercises.answers.phase1 import graphs as answers

TIMED = CUDA_GRAPHS.criteria[-1]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(phase1_graphs, "LAYERS", 3)
    monkeypatch.setattr(phase1_graphs, "WIDTH", 64)
    monkeypatch.setattr(phase1_graphs, "CALLS", 3)
    monkeypatch.setattr(phase1_graphs, "ROUNDS", 3)


def race(answer):
    torch.manual_seed(0)
    device, _ = simulated_device([])
    with device:
        return phase1_graphs.race(answer, device.cuda, "cpu")


def judged(ratio, device="NVIDIA H200", wrong="", roof_share=0.9):
    evidence = {"device": device, "peer": "our graph", "ratios": [ratio] * 3, "roof_share": roof_share, "wrong": wrong}
    return TIMED.judge({"name": "this device"}, {"output": None, "evidence": evidence, "changed": [], "aliases": []})


@pytest.mark.parametrize("answer", [*answers.RIGHT, answers.every_kernel_by_hand], ids=lambda a: a.__name__)
def test_right_results_are_found_right(answer):
    evidence = race(answer)
    assert evidence["wrong"] == ""
    assert len(evidence["ratios"]) == 3
    assert evidence["eager_ratio"] > 0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (answers.never_copies_in, "differs from the step"),
        (answers.name_bound_anew, "differs from the step"),
        (answers.hands_out_its_own_memory, "differs from the step"),
        (answers.all_rows_of_the_bucket, "expected a tensor of shape [3, 64], got [4, 64]"),
        (answers.the_input, "differs from the step"),
        (lambda cuda, step, example, buckets: lambda x: None, "expected a tensor of shape [1, 64], got NoneType"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_wrong_results_are_found_wrong(answer, said):
    assert said in race(answer)["wrong"]


def test_a_result_kept_from_the_last_call_is_found():
    """A function that only looks fast: it remembers."""

    def keeps(cuda, step, example, buckets):
        kept = {}
        return lambda x: kept.setdefault(len(x), step(x)).clone()

    assert "differs from the step" in race(keeps)["wrong"]


def test_the_bar_the_line_below_it_and_what_cannot_be_trusted():
    assert judged(1.0).state is State.PASSED
    assert judged(0.5).share == 0.0
    assert judged(0.7).share == pytest.approx(0.5)
    assert judged(1.0, wrong="a result with 3 rows differs").state is State.FAILED
    assert judged(1.0, device="NVIDIA A10").state is State.BLOCKED
    assert judged(3.0, roof_share=2.0).state is State.BLOCKED


@pytest.mark.skipif(torch.cuda.is_available(), reason="says blocked only without a GPU")
def test_without_a_device_it_is_blocked():
    assert "needs a CUDA device" in phase1_graphs.graphs_on_this_device(answers.concatenated, {})["blocked"]
