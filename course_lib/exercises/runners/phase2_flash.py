"""Exercise 2.4: calls of the learner's attention, and its time beside cuDNN's on a GPU.

Where there is a GPU the tensors lie on it, so that the kernel is compiled; elsewhere it is interpreted.
"""

from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file

BATCH, TOKENS, HEADS, HEAD_DIM = 4, 4096, 16, 128
FLOPS = 4 * BATCH * HEADS * TOKENS * TOKENS * HEAD_DIM / 2  # causal: half, as papers count
FAR = 2**31  # elements, of two bytes each


def flash_attention(entry: Any, case: dict) -> Any:
    if torch.cuda.is_available():
        case.update({name: case[name].cuda() for name in ("q", "k", "v")})
    return _without_copies(entry, case["q"], case["k"], case["v"], case["causal"])


def flash_views(entry: Any, case: dict) -> Any:
    """q, k and v are views of one buffer: heads of q, of k, of v, one behind the other. Or v is one of a buffer of its own."""
    if torch.cuda.is_available():
        case.update({name: case[name].cuda() for name in ("buffer", "values") if name in case})
    buffer = case["buffer"].transpose(1, 2) if case["head_major"] else case["buffer"]
    q_heads, kv_heads = case["q_heads"], case["kv_heads"]
    q, k, v = buffer[:, :, :q_heads], buffer[:, :, q_heads:][:, :, :kv_heads], buffer[:, :, q_heads + kv_heads :]
    if "values" in case:
        v = case["values"].transpose(1, 2)[:, :, :: q_heads + kv_heads - 1]
    return _without_copies(entry, q[:, : case["q_len"]], k[:, : case["kv_len"]], v[:, : case["kv_len"]], case["causal"])


def _without_copies(entry: Any, *arguments: Any) -> Any:
    from course_lib.workloads.no_copies import without_copies

    return without_copies(entry, *arguments)


def flash_on_this_device(entry: Any, case: dict) -> dict:
    """Time the learner's function in turns with cuDNN's attention; q has fresh content before each call, and L2 is cold."""
    from course_lib.workloads.beside_peer import Peer, beside_peer

    try:
        evidence = beside_peer(case, Peer("cuDNN's attention", FLOPS / 1e12, "TFLOP/s", "bf16_tflops"), lambda: _turns(entry))
    except _NoPeer as error:
        return {"blocked": f"cuDNN's attention does not run here: {error}"}
    return evidence if "blocked" in evidence else evidence | {"far": _beyond_int32(entry)}


class _NoPeer(Exception):
    """Nothing to compare with."""


def _cudnn(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    import torch.nn.functional as F
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True).transpose(1, 2)


def _turns(entry: Any) -> Any:
    from course_lib.workloads.beside_peer import take_turns

    shape = (BATCH, TOKENS, HEADS, HEAD_DIM)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    flush = torch.empty(2**28, dtype=torch.int8, device="cuda")  # more than an L2 holds
    result: list[Any] = [None]
    try:
        _cudnn(q, k, v)
    except RuntimeError as error:
        raise _NoPeer(str(error).splitlines()[0]) from error

    def mine() -> None:
        result[0] = entry(q, k, v, True)

    def fresh() -> None:
        result[0] = None
        q.normal_()
        flush.zero_()

    return take_turns(mine, lambda: _cudnn(q, k, v), fresh=fresh, is_right=lambda: _close(result[0], _cudnn(q, k, v), v))


def _close(got: Any, want: torch.Tensor, v: torch.Tensor) -> bool:
    """Each rounds its weights and its result to bf16, and is off by at most 2 ** -7 of the largest value."""
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return False
    return bool((got.float() - want.float()).abs().max() <= 2 * 2**-7 * v.abs().max())  # False for a NaN


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
