"""Exercise 2.2: calls of the learner's softmax kernel, and its time beside one read of the scores on a GPU.

Where there is a GPU the tensors lie on it, so that the kernel is compiled; elsewhere it is interpreted.
"""

import statistics
from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file

ROWS, KEYS = 4096, 32_768  # 512 MiB of float32, and more under way than an L2 holds
ROUNDS = 15
AHEAD_CYCLES = 1_000_000  # about half a millisecond
FAR = 2**31  # elements, of two bytes each


def attend_rows(entry: Any, case: dict) -> Any:
    """What the learner's function makes of contiguous rows."""
    return entry(*_placed(case))


def attend_rows_apart(entry: Any, case: dict) -> Any:
    """scores is a view of a buffer's first columns."""
    buffer, values = _placed(case)
    return entry(buffer[:, : case["keys"]], values)


def _placed(case: dict) -> tuple[torch.Tensor, torch.Tensor]:
    if torch.cuda.is_available():
        case["scores"], case["values"] = case["scores"].cuda(), case["values"].cuda()
    return case["scores"], case["values"]


def attend_rows_on_this_device(entry: Any, case: dict) -> dict:
    """Time the learner's function in turns with torch's sum of each row; scores have fresh content before each call."""
    if not torch.cuda.is_available():
        return {"blocked": "needs a CUDA device, and this machine shows none"}
    torch.manual_seed(case["seed"])
    device = torch.cuda.get_device_name()
    row = next((row for row in case["sheet"] if device.removeprefix("NVIDIA ").strip() in row["names"]), None)
    for _ in range(2):  # a share of the roof beyond belief is measured once more
        own, theirs, wrong, operations = _rounds(entry)
        rate, torch_rate = (4 * ROWS * KEYS / statistics.median(side) / 1e9 for side in (own, theirs))
        roof_share = 0.0 if wrong else rate / (row["hbm_gb_per_s"] if row else torch_rate)  # what is wrong has no rate
        if roof_share <= 1.05:
            break
    of_the_sheet = f", {roof_share:.2f} of the sheet's {row['hbm_gb_per_s']:.0f}" if row else ""
    return {
        "device": device,
        "peer": f"torch's sum of each row ({torch_rate:.0f} GB/s; yours {rate:.0f}{of_the_sheet})",
        "ratios": [peer / mine for peer, mine in zip(theirs, own, strict=True)],
        "roof_share": roof_share,
        "gb_per_s": rate,
        "torch_gb_per_s": torch_rate,
        "rounds": len(own),
        "wrong_rounds": wrong,
        "torch_operations": operations,
        "far": _beyond_int32(entry),
    }


def _rounds(entry: Any) -> tuple[list[float], list[float], int, list[str]]:
    """-> (own seconds, torch's seconds, rounds whose result was wrong, what torch did in the learner's function)."""
    scores = torch.randn(ROWS, KEYS, device="cuda")
    values = torch.randn(KEYS, device="cuda")
    result: list[Any] = [None]

    def mine() -> None:
        result[0] = entry(scores, values)

    def peer() -> None:
        torch.sum(scores, 1)

    for call in (mine, peer, mine, peer):  # compile, tune, warm up
        call()
    operations = _torch_operations(mine)
    own: list[float] = []
    theirs: list[float] = []
    wrong = 0
    for turn in range(ROUNDS):
        sides = [(mine, own), (peer, theirs)]
        for call, seconds in sides[:: 1 if turn % 2 else -1]:
            seconds.append(_seconds(call, scores))
            wrong += int(call is mine and not _is_right(result[0], scores, values))
    return own, theirs, wrong, operations


def _is_right(result: Any, scores: torch.Tensor, values: torch.Tensor) -> bool:
    if not (isinstance(result, (tuple, list)) and len(result) == 2 and all(isinstance(part, torch.Tensor) for part in result)):
        return False
    out, lse = result
    want_lse = torch.logsumexp(scores.float(), 1)
    want = torch.exp(scores.float() - want_lse[:, None]) @ values.float()
    return out.shape == want.shape and lse.shape == want.shape and bool(
        torch.allclose(out.float(), want, rtol=1e-3, atol=1e-4) and torch.allclose(lse.float(), want_lse, rtol=1e-5, atol=1e-4)
    )  # fmt: skip


def _seconds(call: Any, scores: torch.Tensor) -> float:
    """Device seconds of one call. The device is kept busy before it, so that no time of the host's lies between the marks; and
    scores get their content last, so that a kernel which does not wait for the stream reads what was there before."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(AHEAD_CYCLES)
    scores.normal_()
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def _torch_operations(call: Any) -> list[str]:
    """Names of the torch operations inside a call that move or compute values. Views, new memory and one value are free."""
    from torch.utils._python_dispatch import TorchDispatchMode

    free = {"empty", "empty_like", "new_empty", "empty_strided", "zeros", "full", "zero_", "fill_", "view", "_unsafe_view",
            "reshape", "slice", "select", "as_strided", "detach", "alias", "t", "transpose", "unsqueeze", "squeeze", "unbind",
            "split", "expand"}  # fmt: skip
    seen: set[str] = set()

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.add(operation.overloadpacket.__name__)
            return operation(*args, **(kwargs or {}))

    with Look():
        call()
    return sorted(seen - free)


def _beyond_int32(entry: Any) -> str:
    """Three rows that begin 2**30 elements apart -> "right", "wrong", or why it was not tried.

    Before the first lie 2**31 elements of ours: an offset that wraps around to a negative one meets memory that is there.
    """
    keys = 5000
    needed = 2 * (2 * FAR + keys) + 2**28
    if torch.cuda.mem_get_info()[0] < needed:
        return f"not tried: {needed / 1e9:.1f} GB must be free"
    buffer = torch.zeros(2 * FAR + keys, dtype=torch.bfloat16, device="cuda")
    scores = buffer.as_strided((3, keys), (FAR // 2, 1), FAR)
    scores.normal_()
    values = torch.randn(keys, device="cuda")
    result = entry(scores, values)
    torch.cuda.synchronize()
    return "right" if _is_right(result, scores, values) else "wrong"
