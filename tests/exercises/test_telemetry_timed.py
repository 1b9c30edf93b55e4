"""The timed part of 1.7 with a device that is played: what earns it, what fails, and what blocks it with a reason."""

import copy
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from course_lib.exercises import exercise
from course_lib.exercises.phase1.telemetry_cases import activity_cases, device_cases
from course_lib.exercises.runners import phase1_telemetry as runner
from course_lib.grading.outcome import State
from course_lib.workloads import device_counters
from tests.exercises.answers.phase1.telemetry import step_by_step, the_roadmaps_way

(TIMED,) = exercise("1.7").in_cell("timed")


@contextmanager
def played_counters(uuid):
    assert uuid.startswith("GPU-")
    yield SimpleNamespace(power_limit_watts=lambda: 700.0)


@pytest.fixture
def recordings(monkeypatch):
    """A device whose two recordings come from the cases: the kernel that spins, and a decode loop as the product."""
    spin, product = (c for c in activity_cases(5)[:2])
    made = {"spin": dict(spin), "product": dict(product)}
    for recording in made.values():
        recording.pop("peaks")
        for sample in recording["samples"]:
            if recording["window"][0] <= sample["seconds"] <= recording["window"][1]:
                sample["power_mw"] = 400_000
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(uuid="1234"))
    monkeypatch.setattr(device_counters, "DeviceCounters", played_counters)
    monkeypatch.setattr(runner, "_spinning", lambda counters: made["spin"])
    monkeypatch.setattr(runner, "_multiplying", lambda counters: made["product"])
    return made


def finding(answer):
    (case,) = device_cases(3)
    evidence = runner.figures_of_this_device(answer, copy.deepcopy(case))
    attempt = {"output": runner.honest_figures(answer, case), "changed": [], "aliases": [], "evidence": evidence}
    return TIMED.judge(case, attempt), evidence


def test_a_right_answer_passes_and_shows_the_two_ways_to_power(recordings):
    found, evidence = finding(step_by_step)
    assert found.state is State.PASSED, found.reason
    assert "the power readings, by the energy counter" in found.reason
    assert evidence["figures"]["spin"]["busy_time_share"] > 0.9
    assert evidence["figures"]["spin"]["tensor_share"] == 0.0
    assert evidence["power_limit_watts"] == 700.0


def test_an_answer_that_is_right_on_the_case_only_fails(recordings):
    def memorised(samples, window, tokens, peaks):
        figures = step_by_step(samples, window, tokens, peaks)
        return figures | {"tensor_share": figures["busy_time_share"]} if tokens == 0 else figures

    found, _ = finding(memorised)
    assert found.state is State.FAILED
    assert found.reason.startswith("the recording 'spin': tensor_share")
    assert finding(the_roadmaps_way)[0].state is State.FAILED


def test_an_answer_cannot_change_the_recording_that_it_is_held_against(recordings):
    def forges(samples, window, tokens, peaks):
        figures = step_by_step(samples, window, tokens, peaks)
        for sample in samples:
            sample["busy_percent"] = 0
        return figures | {"busy_time_share": 0.0}

    (case,) = device_cases(3)
    evidence = runner.figures_of_this_device(forges, case)
    assert {s["busy_percent"] for s in evidence["recordings"]["spin"]["samples"]} > {0}
    assert "busy_time_share: got 0" in TIMED.confirm(case, evidence).reason


@pytest.mark.parametrize(("spoil", "said"), [
    (lambda sample: sample.update(gpm={"tensor_percent": 40.0, "dram_percent": 9.0}), "somebody else uses this GPU"),
    (lambda sample: sample.update(busy_percent=40), "sample period is longer"),
])  # fmt: skip
def test_a_device_that_is_not_alone_blocks_the_points(recordings, spoil, said):
    for sample in recordings["spin"]["samples"]:
        spoil(sample)
    found, _ = finding(step_by_step)
    assert found.state is State.BLOCKED
    assert said in found.reason


def test_counters_that_are_refused_block_the_points_with_the_reason(recordings, monkeypatch):
    def refused(uuid):
        raise device_counters.CountersUnavailableError("nvmlGpmSampleGet answers: no permission (code 4)")

    monkeypatch.setattr(device_counters, "DeviceCounters", refused)
    assert "no permission" in finding(step_by_step)[0].reason


def test_a_gpu_without_a_row_in_the_sheet_blocks(recordings, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA Nothing")
    found, _ = finding(step_by_step)
    assert found.state is State.BLOCKED
    assert "gpus.toml has no row" in found.reason


@pytest.mark.skipif(torch.cuda.is_available(), reason="blocked only without a device")
def test_without_a_device_the_points_wait():
    found, _ = finding(step_by_step)
    assert found.state is State.BLOCKED
    assert "needs a CUDA device" in found.reason
