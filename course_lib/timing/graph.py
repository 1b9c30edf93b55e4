"""Times of calls inside a CUDA graph: without the host between one launch and the next."""

from collections.abc import Callable
from typing import Any, Protocol

from .events import CudaQueue, Queue, Timing, require_whole


class Graphs(Queue, Protocol):
    """A device that can record calls and run them again."""

    def capture(self, calls: Callable[[], Any]) -> Callable[[], Any]:
        """Run `calls` once for the record -> a call that runs what they queued."""


class CudaGraphs(CudaQueue):
    def capture(self, calls: Callable[[], Any]) -> Callable[[], Any]:
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            calls()
        return graph.replay


def time_in_graph(
    call: Callable[[], Any], *, calls_per_graph: int = 20, repeats: int = 10, warmup: int = 3, queue: Graphs | None = None
) -> Timing:
    """Device seconds per call of `calls_per_graph` calls that were captured as one CUDA graph, for each replay.

    The calls run back to back, so their data may stay in L2; a call that must read from memory takes another buffer each time it
    is called (the capture calls it `calls_per_graph` times). What cannot be captured raises torch's error: a host read, a
    synchronisation, an allocation outside the graph's pool.
    """
    require_whole(calls_per_graph=(calls_per_graph, 1), repeats=(repeats, 1), warmup=(warmup, 0))
    queue = queue or CudaGraphs()
    for _ in range(warmup):  # compile and load everything before the capture
        call()
    queue.wait()

    def calls() -> None:
        for _ in range(calls_per_graph):
            call()

    replay = queue.capture(calls)
    replay()
    queue.wait()
    marks = [(queue.mark(), queue.mark()) for _ in range(repeats)]
    queue.hold()
    for start, end in marks:
        start.record()
        replay()
        end.record()
    queue.wait()
    return Timing(tuple(start.elapsed_time(end) / 1e3 / calls_per_graph for start, end in marks))
