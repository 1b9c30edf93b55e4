"""Exercise 2.2: calls of the learner's softmax kernel, and its time beside one read of the scores on a GPU.

Where there is a GPU the tensors lie on it, so that the kernel is compiled; elsewhere it is interpreted.
"""

from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file

ROWS, KEYS = 4096, 32_768  # 512 MiB of float32, and more under way than an L2 holds
FAR = 2**31  # elements, of two bytes each


def attend_rows(entry: Any, case: dict) -> Any:
    """What the learner's function makes of contiguous rows."""
    return _without_copies(entry, *_placed(case))


def attend_rows_apart(entry: Any, case: dict) -> Any:
    """scores is a view of a buffer's first columns."""
    buffer, values = _placed(case)
    return _without_copies(entry, buffer[:, : case["keys"]], values)


def _without_copies(entry: Any, scores: torch.Tensor, values: torch.Tensor) -> Any:
    from course_lib.workloads.no_copies import without_copies

    return without_copies(entry, scores, values)


def _placed(case: dict) -> tuple[torch.Tensor, torch.Tensor]:
    if torch.cuda.is_available():
        case["scores"], case["values"] = case["scores"].cuda(), case["values"].cuda()
    return case["scores"], case["values"]


def attend_rows_on_this_device(entry: Any, case: dict) -> dict:
    """Time the learner's function in turns with torch's sum of each row; scores have fresh content before each call."""
    from course_lib.workloads.beside_peer import Peer, beside_peer

    peer = Peer("torch's sum of each row", 4 * ROWS * KEYS / 1e9, "GB/s", "hbm_gb_per_s")
    evidence = beside_peer(case, peer, lambda: _turns(entry))
    return evidence if "blocked" in evidence else evidence | {"far": _beyond_int32(entry)}


def _turns(entry: Any) -> Any:
    from course_lib.workloads.beside_peer import take_turns

    scores, values = torch.randn(ROWS, KEYS, device="cuda"), torch.randn(KEYS, device="cuda")
    result: list[Any] = [None]

    def mine() -> None:
        result[0] = entry(scores, values)

    return take_turns(
        mine, lambda: torch.sum(scores, 1), fresh=scores.normal_, is_right=lambda: _is_right(result[0], scores, values)
    )


def _is_right(result: Any, scores: torch.Tensor, values: torch.Tensor) -> bool:
    if not (isinstance(result, (tuple, list)) and len(result) == 2 and all(isinstance(part, torch.Tensor) for part in result)):
        return False
    out, lse = result
    want_lse = torch.logsumexp(scores.float(), 1)
    want = torch.exp(scores.float() - want_lse[:, None]) @ values.float()
    return out.shape == want.shape and lse.shape == want.shape and bool(
        torch.allclose(out.float(), want, rtol=1e-3, atol=1e-4) and torch.allclose(lse.float(), want_lse, rtol=1e-5, atol=1e-4)
    )  # fmt: skip


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
