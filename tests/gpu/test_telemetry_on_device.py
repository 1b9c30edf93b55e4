"""On a device with NVML and GPM: counters that move as they should, and the timed part of 1.7 is judged."""

import time

import pytest
import torch

from course_lib import lab
from course_lib.grading.outcome import ExerciseState, State
from course_lib.telemetry import Recorder
from course_lib.workloads.spin import spin
from tests.exercises.answers.phase1.telemetry import step_by_step, the_roadmaps_way

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def spinning():
    """Summary of two seconds of one block that spins."""
    spin(0.001)
    torch.cuda.synchronize()
    turns = spin(4.0)
    time.sleep(1.3)
    with Recorder() as recorder:
        time.sleep(2.0)
    torch.cuda.synchronize()
    assert turns.item() > 1000
    summary = recorder.summary()
    if summary.gpm_why_not:
        pytest.skip(f"blocked: {summary.gpm_why_not}")
    return summary


def test_spin_lasts_as_long_as_it_was_told():
    spin(0.001)
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    spin(0.2)
    end.record()
    torch.cuda.synchronize()
    assert end.elapsed_time(begin) < 0
    assert begin.elapsed_time(end) == pytest.approx(200, rel=0.05)


def test_utilisation_is_full_while_one_block_spins_and_nothing_works(spinning):
    """Claims C059 and C244."""
    assert spinning.busy_time_percent > 95
    assert spinning.tensor_percent < 0.5
    assert spinning.dram_percent < 2
    assert spinning.sm_percent < 5  # one of more than a hundred SMs


def test_the_two_ways_to_energy_agree(spinning):
    """The counter and the power readings come from the same board; over two seconds 15% covers the driver's averaging."""
    assert spinning.joules == pytest.approx(spinning.integrated_joules, rel=0.15)


def test_a_product_works_the_tensor_cores_and_draws_more_power(spinning):
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
    with Recorder() as recorder:
        until = time.perf_counter() + 2
        while time.perf_counter() < until:
            for _ in range(20):
                a @ a
            torch.cuda.synchronize()
    product = recorder.summary()
    assert product.tensor_percent > 40
    assert product.mean_watts > 1.5 * spinning.mean_watts
    assert product.hmma_percent == pytest.approx(product.tensor_percent, rel=0.1)


def test_gpm_tells_the_rate_of_a_copy_and_utilisation_times_capacity_does_not():
    """Claim C060: a copy of known bytes and time."""
    from course_lib.hardware import find_spec

    spec = find_spec(torch.cuda.get_device_name())
    source = torch.randn(2**29, device="cuda")
    target = torch.empty_like(source)
    for _ in range(20):
        target.copy_(source)
    torch.cuda.synchronize()
    with Recorder() as recorder:
        begin, copies = time.perf_counter(), 0
        while time.perf_counter() < begin + 2:
            for _ in range(20):
                target.copy_(source)
            torch.cuda.synchronize()
            copies += 20
        seconds = time.perf_counter() - begin
    found = recorder.summary()
    known = copies * 2 * source.nbytes / seconds / 1e9
    assert found.dram_percent / 100 * spec.hbm_gb_per_s == pytest.approx(known, rel=0.15)
    assert found.memory_busy_time_percent / 100 * spec.hbm_gb < known / 10


def test_a_right_answer_earns_the_timed_point_of_1_7():
    verdict = lab.check_timed("1.7", step_by_step).verdict
    (outcome,) = verdict.outcomes
    assert verdict.state is ExerciseState.DONE, outcome.reason
    assert 0.7 < outcome.evidence["ratio"] < 1.3
    assert 0 < outcome.evidence["roof_share"] <= 1.05


def test_utilisation_for_tensor_activity_fails_on_the_device():
    (outcome,) = lab.check_timed("1.7", the_roadmaps_way).verdict.outcomes
    assert outcome.state is State.FAILED
