"""The timed part of 1.5, judged on evidence as a device would give it: no GPU is needed to see what passes and what does not."""

import pytest
import torch

from course_lib.exercises.phase1.sweep import BATCH_SWEEP
from course_lib.exercises.runners import phase1_sweep
from course_lib.grading.outcome import State
from course_lib.roofline.sweep import predict_sweep

from .answers.phase1 import sweep as answers

(TIMED,) = BATCH_SWEEP.in_cell("timed")
(CASE,) = TIMED.cases(3)
SIZES = [2.0**k for k in range(12, 31, 2)]
CURVES = {
    "read": {"bytes": SIZES, "seconds": [2.2e-6 + size / 4.4e12 for size in SIZES]},
    "product": {"bytes": SIZES, "seconds": [4.4e-6 + size / 4.2e12 for size in SIZES]},
}
WRONG = {answer.__name__: answer for answer, _ in answers.WRONG}


def tables():
    return {kind: {name: torch.tensor(values, dtype=torch.float64) for name, values in c.items()} for kind, c in CURVES.items()}


@pytest.fixture
def device(monkeypatch):
    """A device on which steps take what the prediction says, times a factor that a test may change."""
    factor = {"of": 1.0, "name": "NVIDIA H200", "free": 140e9}

    def steps(model, layers, batches, context):
        stack = next(stack for stack in CASE["stacks"] if stack["layers"] == layers)
        seconds = predict_sweep(stack["kernels"], tables(), 800.0, CASE["limits"])["step_seconds"].tolist()
        return [[s * factor["of"]] * 3 for s in seconds]

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: factor["name"])
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (int(factor["free"]), int(140e9)))
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: None)
    monkeypatch.setattr(phase1_sweep, "_curves", tables)
    monkeypatch.setattr(phase1_sweep, "_measure_product", lambda: 800.0)
    monkeypatch.setattr(phase1_sweep, "_measure_steps", steps)
    return factor


def judged(answer):
    evidence = phase1_sweep.sweep_of_this_device(answer, CASE)
    output = phase1_sweep.predict_sweep(answers.by_searching, CASE)
    attempt = {"output": output, "evidence": evidence, "changed": (), "aliases": ()}
    return TIMED.judge(CASE, attempt), evidence


@pytest.mark.parametrize("answer", answers.RIGHT, ids=lambda a: a.__name__)
def test_a_right_answer_passes_where_its_prediction_comes_true(device, answer):
    finding, evidence = judged(answer)
    assert finding.state is State.PASSED, finding.reason
    assert "batch 64: predicted" in finding.reason
    assert evidence["layers"] == 32


@pytest.mark.parametrize(("factor", "state"), [(1.14, "PASSED"), (0.88, "PASSED"), (1.19, "FAILED"), (2.0, "FAILED")])
def test_a_prediction_is_held_to_15_percent(device, factor, state):
    device["of"] = factor
    assert judged(answers.by_searching)[0].state is State[state]


@pytest.mark.parametrize("name", ["floor_only", "reads_for_everything", "count_ignored", "zeros", "the_input", "only_the_steps"])
def test_a_wrong_prediction_fails_and_is_told_what_differs(device, name):
    finding, _ = judged(WRONG[name])
    assert finding.state is State.FAILED
    assert "on the curves measured here" in finding.reason


def test_an_answer_that_changes_its_tables_does_not_change_the_measurement(device):
    def greedy(kernels, curves, peak_tflops, limits):
        out = answers.by_searching(kernels, curves, peak_tflops, limits)
        kernels["bytes"].zero_()
        curves["read"]["seconds"].fill_(1.0)
        return out

    finding, evidence = judged(greedy)
    assert finding.state is State.PASSED, finding.reason
    assert evidence["curves"] == CURVES
    assert float(CASE["stacks"][0]["kernels"]["bytes"].min()) > 0


def test_another_device_shows_the_ratio_and_its_points_wait(device):
    device["name"] = "NVIDIA A100-SXM4-80GB"
    finding, _ = judged(answers.by_searching)
    assert finding.state is State.BLOCKED
    assert "calibrated on NVIDIA H200" in finding.reason


@pytest.mark.parametrize(("free", "layers"), [(140e9, 32), (30e9, 16), (17e9, 8), (12.5e9, 4)])
def test_a_smaller_memory_gets_a_shorter_stack(device, free, layers):
    device["free"] = free
    assert judged(answers.by_searching)[1]["layers"] == layers


def test_where_no_stack_fits_it_says_how_much_it_needs(device):
    device["free"] = 6e9
    finding, _ = judged(answers.by_searching)
    assert finding.state is State.BLOCKED
    assert "6.0 GB of GPU memory are free; the smallest stack needs" in finding.reason


def test_a_step_faster_than_its_floor_is_never_a_record(device):
    device["of"] = 0.5
    finding, _ = judged(answers.by_searching)
    assert finding.state is State.BLOCKED
    assert "cannot be true" in finding.reason
