"""A function's time on a device beside a named peer's, in turns, as evidence for a timed criterion; runners of kernel exercises.

Each call gets fresh inputs, finds the device busy, and its result is looked at before the inputs change again. What torch does
inside the learner's function is written down, since a call of torch's own kernel is not the learner's.
"""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

ROUNDS = 15
AHEAD_CYCLES = 1_000_000  # about half a millisecond
FREE = frozenset({  # views, new memory, and one value for all of it
    "alias", "as_strided", "detach", "empty", "empty_like", "empty_strided", "expand", "fill_", "full", "new_empty", "permute",
    "reshape", "select", "slice", "split", "squeeze", "t", "transpose", "unbind", "unsqueeze", "_unsafe_view", "view", "zero_",
    "zeros", "zeros_like",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Peer:
    """What a rate means. work: bytes or FLOPs of one call, in billions for GB/s and trillions for TFLOP/s; sheet: the key of
    the data sheet's rate in a row of case["sheet"]."""

    name: str
    work: float
    unit: str
    sheet: str


@dataclass(slots=True)
class Turns:
    """Seconds of each call, rounds whose result was wrong, and what torch did in the learner's function."""

    own: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    wrong: int = 0
    torch_operations: list[str] = field(default_factory=list)


def beside_peer(case: Mapping[str, Any], peer: Peer, turns: Callable[[], Turns]) -> dict[str, Any]:
    """The evidence of a timed criterion without a runner's own additions; {"blocked": why} without a CUDA device.

    A share of the roof above 1.05 is measured once more. The roof is the data sheet's, else the peer's own rate.
    """
    import torch

    if not torch.cuda.is_available():
        return {"blocked": "needs a CUDA device, and this machine shows none"}
    torch.manual_seed(case["seed"])
    device = torch.cuda.get_device_name()
    row = next((row for row in case["sheet"] if device.removeprefix("NVIDIA ").strip() in row["names"]), None)
    sheet = row[peer.sheet] if row else None
    for _ in range(2):
        taken = turns()
        rate, peer_rate = (peer.work / statistics.median(side) for side in (taken.own, taken.theirs))
        roof_share = 0.0 if taken.wrong else rate / (sheet or peer_rate)  # what is wrong has no rate
        if roof_share <= 1.05:
            break
    of_the_sheet = f", {roof_share:.2f} of the sheet's {sheet:.0f}" if sheet else ""
    return {
        "device": device,
        "peer": f"{peer.name} ({peer_rate:.0f} {peer.unit}; yours {rate:.0f}{of_the_sheet})",
        "ratios": [theirs / own for theirs, own in zip(taken.theirs, taken.own, strict=True)],
        "roof_share": roof_share,
        "rate": rate,
        "rate_spread": [peer.work / max(taken.own), peer.work / min(taken.own)],
        "peer_rate": peer_rate,
        "rounds": len(taken.own),
        "wrong_rounds": taken.wrong,
        "torch_operations": taken.torch_operations,
    }


def take_turns(
    mine: Callable[[], Any], peer: Callable[[], Any], *,
    fresh: Callable[[], Any], is_right: Callable[[], bool], rounds: int = ROUNDS,
) -> Turns:  # fmt: skip
    """Warm both up, then time them in turns, the other one first in every second round.

    fresh      gives the inputs new content, before each timed call; is_right   looks at what `mine` just made of them
    """
    for call in (mine, peer, mine, peer):  # compile, tune, warm up
        call()
    turns = Turns(torch_operations=torch_operations(mine))
    for number in range(rounds):
        sides = [(mine, turns.own), (peer, turns.theirs)]
        for call, seconds in sides[:: 1 if number % 2 else -1]:
            seconds.append(busy_seconds(call, fresh))
            turns.wrong += int(call is mine and not is_right())
    return turns


def busy_seconds(call: Callable[[], Any], fresh: Callable[[], Any]) -> float:
    """Device seconds of one call. The device is kept busy before it, so that no time of the host's lies between the marks; and
    the inputs get their content last, so that a kernel which does not wait for the stream finds what was there before."""
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(AHEAD_CYCLES)
    fresh()
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def torch_operations(call: Callable[[], Any]) -> list[str]:
    """Names of the torch operations inside a call that move or compute values; those of FREE do neither."""
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: set[str] = set()

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.add(operation.overloadpacket.__name__)
            return operation(*args, **(kwargs or {}))

    with Look():
        call()
    return sorted(seen - FREE)
