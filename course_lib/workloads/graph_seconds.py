"""Seconds of calls that follow each other in a CUDA graph, as the kernels of a decode step do: no launch waits for the host."""

from collections.abc import Callable, Sequence


def graph_seconds(calls: Sequence[Callable[[], object]], *, repeats: int = 9) -> list[float]:
    """Capture the calls one after the other, replay them `repeats` times -> seconds of one call, from each replay.

    What the calls read should exceed the L2 many times over, or a replay finds it there. The first call runs once before the
    capture, which compiles it. Raises RuntimeError without a CUDA device.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("a CUDA graph needs a CUDA device, and this machine shows none")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        calls[0]()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    for _ in range(3):
        graph.replay()
    marks = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for start, end in marks:
        start.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return [start.elapsed_time(end) / 1e3 / len(calls) for start, end in marks]
