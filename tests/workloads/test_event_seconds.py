"""Device seconds and graphs, on simulated devices in the place of CUDA."""

import pytest
import torch

from course_lib.workloads import graph_seconds as graph_seconds_module
from course_lib.workloads import large_product, product_curve, read_curve
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


def test_the_seconds_of_a_graph_are_those_of_one_of_its_calls(gpu, monkeypatch):
    launch, machine = gpu
    monkeypatch.setattr(graph_seconds_module, "captured", lambda call, warm_up: call)
    assert graph_seconds([launch] * 4, repeats=2) == pytest.approx([40e-6] * 2, rel=0.05)  # a wait for the host at first
    assert len(machine.launches) == 4 * (3 + 2)


def test_a_read_of_the_curve_is_one_of_those_in_its_graph(gpu, monkeypatch):
    launch, _ = gpu
    monkeypatch.setattr(read_curve, "captured", lambda call, warm_up: lambda: [launch() for _ in range(8)])
    pool, reads = torch.zeros(1024, dtype=torch.int32), read_curve.Reads(4096, (0,) * 8)
    for seconds in read_curve._graph_seconds(pool, pool, reads, 3, launch):
        assert seconds == pytest.approx(40e-6, rel=0.01)


def test_a_large_product_has_two_operations_for_each_of_its_multiplications(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "randn", lambda *shape, device, dtype: torch.zeros(shape, dtype=dtype))
    monkeypatch.setattr(large_product, "SIZE", 100)
    monkeypatch.setattr(large_product, "event_seconds", lambda call, repeats: [1e-6] * repeats)
    assert large_product_tflops(repeats=3) == pytest.approx([2.0] * 3)  # 2e6 FLOP in a microsecond


def test_a_point_of_the_product_curve_is_its_weights_bytes_and_the_seconds_of_one_product(monkeypatch):
    empty = torch.empty
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (3 * 2**22, 2**40))
    for name in ("randn", "empty"):
        monkeypatch.setattr(torch, name, lambda *shape, device, dtype: empty(shape, dtype=dtype))
    monkeypatch.setattr(product_curve, "graph_seconds", lambda calls, repeats: [1e-6 * len(calls)] * 2 + [9e-6 * len(calls)])
    curve = product_curve.measure_product_curve()
    assert curve["bytes"] == [2**20, 2**21]  # half of the room is the largest
    assert curve["seconds"] == [4e-6, 2e-6]  # as many weights of each size as the pool holds
    assert curve["spread"] == [[4e-6, 36e-6], [2e-6, 18e-6]]
    assert curve["gb_per_s"] == pytest.approx([2**20 / 4e3, 2**21 / 2e3])


@pytest.mark.skipif(torch.cuda.is_available(), reason="says so only without a GPU")
@pytest.mark.parametrize(
    "measure",
    [large_product_tflops, lambda: event_seconds(print), lambda: graph_seconds([print])],
    ids=["product", "events", "graph"],
)
def test_without_a_device_it_says_so(measure):
    with pytest.raises(RuntimeError, match="CUDA device, and this machine shows none"):
        measure()
