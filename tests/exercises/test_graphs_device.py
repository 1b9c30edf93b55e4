"""The simulated device keeps the rules of CUDA graphs."""

import pytest
import torch

from course_lib.exercises.runners.phase1_graphs import graphed_calls
from course_lib.workloads.simulated_cuda import simulated_device


@pytest.fixture
def device():
    made, _ = simulated_device([])
    with made:
        yield made


def captured(device, make):
    graph = device.cuda.CUDAGraph()
    with device.cuda.graph(graph):
        out = make()
    return graph, out


def test_a_capture_runs_nothing_and_a_replay_runs_everything_on_the_same_memory(device):
    x = torch.ones(3)
    graph, out = captured(device, lambda: (x * 2 + 1).relu_())
    assert out.isnan().all()
    graph.replay()
    assert out.tolist() == [3.0, 3.0, 3.0]
    x.fill_(4.0)
    assert out.tolist() == [3.0, 3.0, 3.0]
    graph.replay()
    assert out.tolist() == [9.0, 9.0, 9.0]


def test_a_write_into_old_memory_waits_for_the_replay_too(device):
    x, y = torch.ones(3), torch.zeros(3)
    graph, _ = captured(device, lambda: y.copy_(x))
    assert y.tolist() == [0.0, 0.0, 0.0]
    graph.replay()
    assert y.tolist() == [1.0, 1.0, 1.0]


def test_launches_are_operations_outside_a_capture_and_replays(device):
    x = torch.ones(4, 4)
    graph, _ = captured(device, lambda: torch.tanh(x @ x))
    device.take_notes()
    x[:2].copy_(torch.empty(2, 4).view(4, 2).t()[:2].new_empty(2, 4))  # views and fresh memory are free, the copy is not
    assert device.take_notes()["launches"] == 1
    for _ in range(3):
        graph.replay()
    assert device.take_notes()["launches"] == 3
    torch.tanh(x @ x)
    assert device.take_notes()["launches"] == 2


def test_what_a_capture_forbids(device):
    x = torch.ones(3)
    for forbidden in (lambda: x.sum().item(), device.cuda.synchronize, lambda: bool(x[0] > 0)):
        with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
            captured(device, forbidden)
        assert not device.cuda.is_current_stream_capturing()
    graph, _ = captured(device, lambda: x + 1)
    with pytest.raises(RuntimeError, match="replay"):
        captured(device, graph.replay)
    with pytest.raises(RuntimeError, match="holds a capture already"), device.cuda.graph(graph):
        pass
    with pytest.raises(RuntimeError, match="the graph is empty"):
        captured(device, lambda: x.view(3, 1))
    with pytest.raises(RuntimeError, match="holds nothing"):
        device.cuda.CUDAGraph().replay()


def test_a_name_that_it_lacks_is_answered_with_those_it_has(device):
    with pytest.raises(AttributeError, match=r"no make_graphed_callables; it has CUDAGraph, graph, Stream"):
        getattr(device.cuda, "make_graphed_" + "callables")


def test_the_step_compiles_at_its_first_call_with_a_size_and_its_runs_are_noted():
    device, step = simulated_device([torch.eye(2)])
    with device:
        x = torch.ones(3, 2)
        with pytest.raises(RuntimeError, match="compiles at its first call with 3 rows"):
            captured(device, lambda: step(x))
        step(x)
        graph, out = captured(device, lambda: step(x))
        graph.replay()
        notes = device.take_notes()
    assert notes["eager_rows"] == notes["captured_rows"] == notes["replayed_rows"] == [3]
    torch.testing.assert_close(out, torch.tanh(x), rtol=0, atol=0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch.cuda works where there is a GPU")
@pytest.mark.parametrize("name", ["CUDAGraph", "Stream", "synchronize"])
def test_who_reaches_for_torch_cuda_is_told_of_the_one_that_was_given(name):
    case = {"weights": [], "example": torch.zeros(1, 2), "buckets": [1], "inputs": []}
    with pytest.raises((RuntimeError, AssertionError), match="the `cuda` that your function is given does not"):
        graphed_calls(lambda *given: getattr(torch.cuda, name)(), case)
