"""Put what a call launches into a CUDA graph."""

from collections.abc import Callable
from typing import Any


def captured(call: Callable[[], Any], warm_up: Callable[[], Any] | None = None) -> Callable[[], None]:
    """A call that replays what `call` launches, on the same memory each time; that memory lives as long as it does.

    warm_up  runs once before the capture, since no capture allows to compile or to choose kernels; by default `call` itself
    """
    import torch

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        (warm_up or call)()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = call()

    def replay(kept: Any = (call, made)) -> None:
        graph.replay()

    return replay
