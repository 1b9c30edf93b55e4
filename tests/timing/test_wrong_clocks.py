"""Wrong clocks, on a simulated device, are wrong by what one expects; rows of results stand beside the right one."""

import pytest
import torch

from course_lib.timing import wrong_clocks
from course_lib.timing.wrong_clocks import RIGHT, Clock, as_rows, host_seconds, loop_averages, seconds_on_idle_device
from course_lib.workloads.simulated_gpu import simulated_gpu

DELAYS = {"kernel_us": 4.0, "launch_us": 8.0, "record_us": 1.0, "return_us": 10.0, "event_us": 0.0, "tick_us": 1e-3,
          "jitter": 0.0}  # fmt: skip


@pytest.fixture
def launch(monkeypatch):
    """The launch of a simulated device that stands in the place of CUDA."""
    gpu, launch, _ = simulated_gpu(DELAYS)
    monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)
    monkeypatch.setattr(torch.cuda, "Event", gpu.Event)
    monkeypatch.setattr(wrong_clocks.time, "perf_counter", gpu.perf_counter)
    return launch


def test_a_host_clock_without_a_wait_sees_the_launch(launch):
    assert [us * 1e6 for us in host_seconds(launch, 3, wait=False)] == pytest.approx([8.0] * 3, abs=0.5)


def test_a_host_clock_with_a_wait_sees_launch_kernel_and_return(launch):
    assert [us * 1e6 for us in host_seconds(launch, 3, wait=True)] == pytest.approx([22.0] * 3, abs=0.5)


def test_events_on_an_idle_device_see_launch_and_kernel(launch):
    assert [us * 1e6 for us in seconds_on_idle_device(launch, 3)] == pytest.approx([12.0] * 3, abs=0.5)


def test_a_loop_average_of_a_short_kernel_is_the_time_of_a_launch(launch):
    assert [us * 1e6 for us in loop_averages(launch, 3)] == pytest.approx([8.2] * 3, abs=0.5)


def test_a_row_has_the_right_clock_of_its_own_kernel_beside_it():
    clocks = [Clock("a", RIGHT, (2e-6,)), Clock("b", RIGHT, (4e-6,)), Clock("b", "slow", tuple(n * 1e-6 for n in range(1, 21)))]
    rows = as_rows(clocks)
    assert [row["ratio"] for row in rows] == pytest.approx([1.0, 1.0, 10.5 / 4])
    assert rows[2]["peer"] == pytest.approx(4.0)
    assert rows[2]["spread"] == pytest.approx([3.0, 18.0])  # 2 of 20 left out at either end
    assert len(rows[2]["samples_us"]) == 20
