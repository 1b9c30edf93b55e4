"""Seconds of calls that follow each other in a CUDA graph, as the kernels of a decode step do: no launch waits for the host."""

from collections.abc import Callable, Sequence

from .captured import captured
from .event_seconds import event_seconds


def graph_seconds(calls: Sequence[Callable[[], object]], *, repeats: int = 9) -> list[float]:
    """Capture the calls one after the other, replay them `repeats` times -> seconds of one call, from each replay.

    What the calls read should exceed the L2 many times over, or a replay finds it there. The first call runs once before the
    capture, which compiles it. Raises RuntimeError without a CUDA device.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("a CUDA graph needs a CUDA device, and this machine shows none")

    def one_after_the_other() -> None:
        for call in calls:
            call()

    replay = captured(one_after_the_other, warm_up=calls[0])
    return [seconds / len(calls) for seconds in event_seconds(replay, repeats=repeats)]
