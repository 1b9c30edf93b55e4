"""Exercise 1.3: the simulated device has the delays that it says, gives nothing away, and is run again as it was."""

import pytest

from course_lib.exercises import exercise
from course_lib.exercises.phase1.timer import _check_budget, _check_time, _confirm_device
from course_lib.exercises.runners.phase1_timer import time_kernel, timer_on_this_device
from course_lib.grading.judging import plan
from course_lib.grading.outcome import State
from course_lib.workloads.simulated_gpu import Machine, replayed, simulated_gpu

from .answers.phase1 import timer as answers

PLAIN = {"kernel_us": 100.0, "launch_us": 5.0, "record_us": 1.0, "jitter": 0.0, "event_us": 0.0, "tick_us": 1e-3,
         "return_us": 0.0}  # fmt: skip


def machine_after(*operations, **delays):
    return replayed(PLAIN | delays, "\n".join(operations))


def test_a_launch_returns_while_the_kernel_still_runs():
    machine = machine_after("launch", "launch")
    assert machine.now_us == 10.0
    assert [(one["start_us"], one["end_us"]) for one in machine.launches] == [(5.0, 105.0), (105.0, 205.0)]
    machine.synchronize()
    assert machine.now_us == 205.0


def test_two_events_around_a_short_kernel_see_the_launch_unless_the_device_is_busy():
    idle = machine_after("record 0", "launch", "record 1", "synchronize", kernel_us=2.0)
    assert idle.elapsed(0, 1) * 1e3 == pytest.approx(7.0)  # 5 to launch, 2 to run
    busy = machine_after("flush", "record 0", "launch", "record 1", "synchronize", kernel_us=2.0, flush_us=50.0)
    assert busy.elapsed(0, 1) * 1e3 == pytest.approx(2.0)


def test_the_l2_is_warm_after_a_launch_and_cold_after_a_flush():
    machine = machine_after("launch", "launch", "flush", "launch", cold_factor=1.5)
    assert [one["end_us"] - one["start_us"] for one in machine.launches] == pytest.approx([150.0, 100.0, 150.0])


def test_the_first_launches_compile_and_find_a_low_clock():
    machine = machine_after(*["launch"] * 3, compile_us=1000.0, ramp=[2.0, 1.5])
    assert [one["end_us"] - one["start_us"] for one in machine.launches] == pytest.approx([200.0, 150.0, 100.0])
    assert machine.launches[0]["start_us"] == 1005.0


def test_a_full_queue_makes_the_host_wait():
    assert machine_after(*["launch"] * 8, queue_depth=1024).now_us == 40.0
    assert machine_after(*["launch"] * 8, queue_depth=2).now_us > 500.0


def test_work_of_others_runs_first():
    assert machine_after("launch", queued_us=300.0).launches[0]["start_us"] == 300.0


def test_an_event_that_has_not_happened_has_no_time():
    machine = machine_after("record 0", "launch", "record 1")
    with pytest.raises(RuntimeError, match="device not ready"):
        machine.elapsed(0, 1)
    with pytest.raises(RuntimeError, match="never recorded"):
        machine.elapsed(0, 7)


def test_what_was_done_is_run_again_to_the_same_times():
    for job in plan(exercise("1.3"), "check", 3):
        gpu, launch, machine = simulated_gpu(job.case["device"])
        answers.marks_first_read_last(gpu, launch, job.case["repeats"])
        assert replayed(job.case["device"], "\n".join(machine.operations)).rows == machine.rows


def test_the_objects_that_an_answer_gets_hold_functions_only():
    gpu, launch, _ = simulated_gpu({"kernel_us": 1234.5})
    event = gpu.Event(enable_timing=True)
    assert set(vars(gpu)) == {"Event", "synchronize", "flush_l2", "perf_counter"}
    for name in dir(event):
        if not name.startswith("__"):
            assert callable(getattr(event, name)), name
    assert launch() is None
    assert gpu.flush_l2() is None


@pytest.mark.parametrize("operations", [None, 3, ["launch"], "launch 1 2", "set 1", "record x", "launch\n\nlaunch", "é"])
def test_a_forged_list_of_operations_is_a_mistake_and_no_crash(operations):
    case = plan(exercise("1.3"), "check", 0)[0].case
    for check in (_check_time, _check_budget):
        assert check(case, {"seconds": case["device"]["kernel_us"] / 1e6, "operations": operations})


@pytest.mark.parametrize("output", [None, 1.0, {}, {"operations": "launch\n" * 40 + "clock"}])
def test_an_output_that_is_no_output_is_a_mistake(output):
    case = plan(exercise("1.3"), "check", 0)[0].case
    assert _check_time(case, output)


def test_a_loop_without_end_is_told():
    def endless(gpu, launch, repeats):
        while True:
            gpu.perf_counter()

    with pytest.raises(RuntimeError, match="never end"):
        time_kernel(endless, {"device": PLAIN, "repeats": 1})


def test_odd_launches_are_spread_so_that_a_median_never_meets_them():
    for seed in range(50):
        machine = Machine(PLAIN | {"outlier_us": 900.0, "seed": seed})
        for _ in range(43):
            machine.launch()
        for step in (1, 2):  # whether an answer measures each launch or each second one
            us = sorted(one["end_us"] - one["start_us"] for one in machine.launches[1::step][:21])
            assert us[10] == pytest.approx(100.0)


def test_a_timer_that_differs_on_the_device_is_named():
    good = {"copy": [[1.0, 1.05]] * 3, "product": [[1e-3, 1e-3]] * 3, "short": [[3e-6, 4.5e-6]] * 3}
    assert _confirm_device({}, {"seconds": good}) is None
    assert "copy" in _confirm_device({}, {"seconds": good | {"copy": [[1.0, 1.2]] * 3}}).reason
    assert "short" in _confirm_device({}, {"seconds": good | {"short": [[9e-6, 4.5e-6]] * 3}}).reason
    assert _confirm_device({}, {"seconds": good | {"product": [[float("nan"), 1.0]]}})


def test_without_a_device_the_timed_part_is_blocked():
    import torch

    if torch.cuda.is_available():
        pytest.skip("a CUDA device is here; tests/gpu measures on it")
    assert "CUDA" in timer_on_this_device(answers.marks_first_read_last, {})["blocked"]


@pytest.fixture
def a_device(monkeypatch):
    """A simulated device in the place of CUDA, with the three kernels of the timed part."""
    import torch

    gpu, launch, machine = simulated_gpu({"flush_us": 100.0, "seed": 5})

    def launch_of(kernel_us):
        def one():
            machine.delays["kernel_us"] = kernel_us
            launch()

        return one

    kernels = {"copy": launch_of(500.0), "product": launch_of(200.0), "short": launch_of(3.0)}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a simulated device")
    monkeypatch.setattr("course_lib.exercises.runners.phase1_timer.real_gpu", lambda: gpu)
    monkeypatch.setattr("course_lib.exercises.runners.phase1_timer._kernels", lambda: kernels)
    monkeypatch.setattr("course_lib.exercises.runners.phase1_timer._back_to_back_us", lambda launch: 490.0)


def timed_outcome(answer):
    """The timed criterion's finding, with the evidence that the runner gathers."""
    criterion = exercise("1.3").in_cell("timed")[0]
    case = criterion.cases(3)[0]
    attempt = {"output": time_kernel(answers.marks_first_read_last, case), "evidence": timer_on_this_device(answer, case)}
    return criterion.judge(case, attempt | {"changed": [], "aliases": []})


@pytest.mark.parametrize("answer", answers.RIGHT, ids=lambda f: f.__name__)
def test_on_a_device_a_right_timer_agrees_with_ours(a_device, answer):
    finding = timed_outcome(answer)
    assert finding.state is State.PASSED, finding.reason
    assert finding.evidence["ratio"] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("name", ["host_clock", "in_milliseconds", "the_sum", "flush_inside_the_marks", "waits_behind_the_flush"])
def test_on_a_device_a_careless_timer_differs_from_ours(a_device, name):
    (answer,) = [answer for answer, _ in answers.WRONG if answer.__name__ == name]
    finding = timed_outcome(answer)
    assert finding.state is State.FAILED
    assert "your timer says" in finding.reason
