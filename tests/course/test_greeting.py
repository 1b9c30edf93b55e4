"""What lab.start says of Triton: who interprets, where to read on, and what runs where there is none."""

import pytest
import torch

from course_lib.course import greeting as greeting_module
from course_lib.course.greeting import greeting
from course_lib.exercises import exercises_of
from course_lib.interpreter.entry import EntryState


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(greeting_module.after_import, "refusal", "")

    def triton(mode, reason):
        monkeypatch.setattr(greeting_module.entry, "state", lambda: EntryState(mode, reason))
        return greeting(1).splitlines()

    return triton


def test_an_interpreted_phase_names_its_page(without_gpu):
    lines = without_gpu("interpreter", "Kernels run in Triton's interpreter, on the CPU: why.")
    assert lines[3] == "Kernels run in Triton's interpreter, on the CPU: why."
    assert "docs/no-gpu.md" in lines[4]
    assert len(lines) == 5


def test_without_triton_the_kernels_are_named_and_the_others_run(without_gpu):
    lines = without_gpu("no triton", "Triton is not installed: its kernels cannot run here.")
    others = sum("triton" not in exercise.may_import for exercise in exercises_of(1))
    assert others == len(exercises_of(1)) - 1
    assert lines[3:] == [
        "Triton is not installed: its kernels cannot run here.",
        f"1.4 is about kernels, which can be read; the other {others} run.",
    ]


@pytest.mark.parametrize("phase", [1, 2])
def test_a_gpu_is_told_which_points_wait_for_the_one_on_which_bars_were_set(monkeypatch, phase):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    assert greeting(phase).splitlines()[2] == "device: NVIDIA H200; everything in this phase can be judged here"
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H100 80GB HBM3")
    waiting = sum(points for exercise in exercises_of(phase) for points, _ in exercise.bars())
    assert 0 < waiting <= sum(exercise.points("timed") for exercise in exercises_of(phase))
    line = greeting(phase).splitlines()[2]
    assert f"{waiting:g} are for speed, with bars set on an NVIDIA H200: here their ratios are shown" in line
