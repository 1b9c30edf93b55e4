"""Exercise 2.4: calls of the learner's attention, and its time beside cuDNN's on a GPU.

Where there is a GPU the tensors lie on it, so that the kernel is compiled; elsewhere it is interpreted.
"""

import statistics
from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file

BATCH, TOKENS, HEADS, HEAD_DIM = 4, 4096, 16, 128
FLOPS = 4 * BATCH * HEADS * TOKENS * TOKENS * HEAD_DIM / 2  # causal: half, as papers count
ROUNDS = 15
AHEAD_CYCLES = 1_000_000  # about half a millisecond
FAR = 2**31  # elements, of two bytes each


def flash_attention(entry: Any, case: dict) -> Any:
    if torch.cuda.is_available():
        case.update({name: case[name].cuda() for name in ("q", "k", "v")})
    return entry(case["q"], case["k"], case["v"], case["causal"])


def flash_views(entry: Any, case: dict) -> Any:
    """q, k and v are views of one buffer: heads of q, of k, of v, one behind the other."""
    if torch.cuda.is_available():
        case["buffer"] = case["buffer"].cuda()
    buffer = case["buffer"].transpose(1, 2) if case["head_major"] else case["buffer"]
    q_heads, kv_heads = case["q_heads"], case["kv_heads"]
    q, k, v = buffer.split([q_heads, kv_heads, kv_heads], dim=2)
    return entry(q[:, : case["q_len"]], k[:, : case["kv_len"]], v[:, : case["kv_len"]], case["causal"])


def flash_on_this_device(entry: Any, case: dict) -> dict:
    """Time the learner's function in turns with cuDNN's attention; q has fresh content before each call, and L2 is cold."""
    if not torch.cuda.is_available():
        return {"blocked": "needs a CUDA device, and this machine shows none"}
    torch.manual_seed(case["seed"])
    device = torch.cuda.get_device_name()
    row = next((row for row in case["sheet"] if device.removeprefix("NVIDIA ").strip() in row["names"]), None)
    try:
        for _ in range(2):  # a share of the roof beyond belief is measured once more
            own, theirs, wrong, operations = _rounds(entry)
            rate, peer_rate = (FLOPS / statistics.median(side) / 1e12 for side in (own, theirs))
            sheet = row["bf16_tflops"] if row else None
            roof_share = 0.0 if wrong else rate / (sheet or peer_rate)  # what is wrong has no rate
            if roof_share <= 1.05:
                break
    except _NoPeer as error:
        return {"blocked": f"cuDNN's attention does not run here: {error}"}
    of_the_sheet = f", {roof_share:.2f} of the sheet's {sheet:.0f}" if sheet else ""
    return {
        "device": device,
        "peer": f"cuDNN's attention ({peer_rate:.0f} TFLOP/s; yours {rate:.0f}{of_the_sheet})",
        "ratios": [peer / mine for peer, mine in zip(theirs, own, strict=True)],
        "roof_share": roof_share,
        "tflops": rate,
        "cudnn_tflops": peer_rate,
        "rounds": len(own),
        "wrong_rounds": wrong,
        "torch_operations": operations,
        "far": _beyond_int32(entry),
    }


class _NoPeer(Exception):
    """Nothing to compare with."""


def _cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)


def _rounds(entry: Any) -> tuple[list[float], list[float], int, list[str]]:
    """-> (own seconds, cuDNN's seconds, rounds whose result was wrong, what torch did in the learner's function)."""
    shape = (BATCH, TOKENS, HEADS, HEAD_DIM)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    flush = torch.empty(2**28, dtype=torch.int8, device="cuda")  # more than an L2 holds
    result: list[Any] = [None, None]

    def mine() -> None:
        result[0] = entry(q, k, v, True)

    def peer() -> None:
        result[1] = _cudnn(q, k, v)

    mine()
    try:
        peer()
    except RuntimeError as error:
        raise _NoPeer(str(error).splitlines()[0]) from error
    for call in (mine, peer):  # compiled and tuned by now; warm up
        call()
    operations = _torch_operations(mine)
    own: list[float] = []
    theirs: list[float] = []
    wrong = 0
    for turn in range(ROUNDS):
        q.normal_()
        sides = [(mine, own), (peer, theirs)]
        result[0] = None
        for call, seconds in sides[:: 1 if turn % 2 else -1]:
            seconds.append(_seconds(call, flush))
        wrong += int(not _close(result[0], result[1], v))
    return own, theirs, wrong, operations


def _close(got: Any, want: torch.Tensor, v: torch.Tensor) -> bool:
    """Each rounds its weights and its result to bf16, and is off by at most 2 ** -7 of the largest value."""
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return False
    return bool((got.float() - want.float()).abs().max() <= 2 * 2**-7 * v.abs().max())  # False for a NaN


def _seconds(call: Any, flush: torch.Tensor) -> float:
    """Device seconds of one call. The device is kept busy before it, so that no time of the host's lies between the marks."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(AHEAD_CYCLES)
    flush.zero_()
    start.record()
    call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def _torch_operations(call: Any) -> list[str]:
    """Names of the torch operations inside a call that move or compute values. Views, new memory and one value are free."""
    from torch.utils._python_dispatch import TorchDispatchMode

    free = {"empty", "empty_like", "new_empty", "empty_strided", "zeros", "zeros_like", "full", "zero_", "fill_", "view",
            "_unsafe_view", "reshape", "slice", "select", "as_strided", "detach", "alias", "t", "transpose", "permute",
            "unsqueeze", "squeeze", "unbind", "split", "expand"}  # fmt: skip
    seen: set[str] = set()

    class Look(TorchDispatchMode):
        def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.add(operation.overloadpacket.__name__)
            return operation(*args, **(kwargs or {}))

    with Look():
        call()
    return sorted(seen - free)


def _beyond_int32(entry: Any) -> str:
    """K and V of three sequences that begin 2**30 elements apart -> "right", "wrong", or why it was not tried.

    Before the first lie 2**31 elements of ours: an offset that wraps around to a negative one meets memory that is there.
    """
    keys, part = 150, 150 * HEAD_DIM
    needed = 2 * (2 * FAR + 2 * part) + 2**28
    if torch.cuda.mem_get_info()[0] < needed:
        return f"not tried: {needed / 1e9:.1f} GB must be free"
    buffer = torch.zeros(2 * FAR + 2 * part, dtype=torch.bfloat16, device="cuda")
    shape, strides = (3, keys, 1, HEAD_DIM), (FAR // 2, HEAD_DIM, HEAD_DIM, 1)
    k, v = (buffer.as_strided(shape, strides, FAR + place) for place in (0, part))
    q = torch.randn(3, 130, 1, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    k.normal_(), v.normal_()
    got = entry(q, k, v, False)
    torch.cuda.synchronize()
    q_, k_, v_ = (x.float().transpose(1, 2) for x in (q, k, v))
    want = ((q_ @ k_.transpose(2, 3) * HEAD_DIM**-0.5).softmax(-1) @ v_).transpose(1, 2)
    return "right" if _close(got, want, v) else "wrong"
