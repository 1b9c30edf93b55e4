"""Device seconds and graphs, on simulated devices in the place of CUDA."""

import pytest
import torch

from course_lib.workloads import loop_for as loop_for_module
from course_lib.workloads.captured import captured
from course_lib.workloads.event_seconds import event_seconds
from course_lib.workloads.graph_seconds import graph_seconds
from course_lib.workloads.large_product import large_product_tflops
from course_lib.workloads.loop_for import loop_for
from course_lib.workloads.simulated_cuda import simulated_device
from course_lib.workloads.simulated_gpu import simulated_gpu

DELAYS = {"kernel_us": 40.0, "launch_us": 5.0, "record_us": 1.0, "event_us": 0.0, "tick_us": 1e-3, "jitter": 0.0}


@pytest.fixture
def gpu(monkeypatch):
    """(launch, machine) of a device with known delays."""
    gpu, launch, machine = simulated_gpu(DELAYS | {"ramp": [3.0, 2.0, 1.5]})
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)
    monkeypatch.setattr(torch.cuda, "Event", gpu.Event)
    monkeypatch.setattr(loop_for_module.time, "perf_counter", gpu.perf_counter)
    return launch, machine


def test_calls_after_the_warm_up_are_timed_one_behind_the_other(gpu):
    launch, machine = gpu
    seconds = event_seconds(launch, repeats=4)
    # the device waits for the first launch to arrive, and is behind the host from then on
    assert [s * 1e6 for s in seconds] == pytest.approx([45.0, 40.0, 40.0, 40.0], abs=0.01)
    assert len(machine.launches) == 3 + 4


def test_a_loop_ends_at_the_first_wait_after_its_time(gpu):
    launch, machine = gpu
    assert loop_for(0.001, launch, 10) == len(machine.launches) == 30  # 10 launches are 0.4 ms and more
    assert machine.now_us == pytest.approx(1300, abs=150)


def test_a_captured_call_runs_once_to_warm_up_and_then_only_in_replays(monkeypatch):
    device, _ = simulated_device([])
    for name in ("Stream", "stream", "current_stream", "CUDAGraph", "graph"):
        monkeypatch.setattr(torch.cuda, name, getattr(device.cuda, name))
    x, warmed = torch.zeros(2), []
    with device:
        replay = captured(lambda: x.add_(1.0))
        assert x.tolist() == [1.0, 1.0]
        replay()
        assert x.tolist() == [2.0, 2.0]
        other = captured(lambda: x.mul_(2.0), warm_up=lambda: warmed.append(True))
        assert warmed == [True]
        assert x.tolist() == [2.0, 2.0]
        other()
        assert x.tolist() == [4.0, 4.0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="says so only without a GPU")
@pytest.mark.parametrize(
    "measure",
    [large_product_tflops, lambda: event_seconds(print), lambda: graph_seconds([print])],
    ids=["product", "events", "graph"],
)
def test_without_a_device_it_says_so(measure):
    with pytest.raises(RuntimeError, match="CUDA device, and this machine shows none"):
        measure()
