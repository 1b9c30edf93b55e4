"""FP8 attention on Hopper: queries, keys and values as e4m3 with a scale for each head, and the values transposed ahead.

from course_lib.attention.hopper_fp8 import hopper_attention_fp8, quantise_heads, rotated, transpose_values

e4m3 has 3 bits behind the point: a number is off by up to 1/16 of itself, and what is 2**15 times smaller than the largest of its
head is lost. One outlier therefore costs a whole head its precision. `rotated` spreads it: q and k are both multiplied by one
orthogonal matrix, which changes no score, and leaves no direction in which one element can stand out.
Source   FlashAttention-3, arXiv 2407.08608, section 3.3: block quantisation and incoherent processing
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .checks import check_scale
from .hopper_forward import CAPABILITY
from .hopper_ladder import EVERY_STEP
from .hopper_launch import EIGHT_TILES, Work, launch

E4M3_MAX = 448.0
KEYS_IN_ORDER = 16  # keys within which the operand's order differs, and a stride of bytes that TMA takes


def quantise_heads(x: Tensor) -> tuple[Tensor, Tensor]:
    """x [batch, rows, heads, head_dim] -> (e4m3 of the same shape, scale [batch, heads] float32): x is about e4m3 * scale."""
    largest = x.abs().amax((1, 3)).float()
    scale = torch.where(largest > 0, largest / E4M3_MAX, 1.0)
    quantised = (x.float() / scale[:, None, :, None]).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return quantised, scale


def transpose_values(v: Tensor) -> Tensor:
    """e4m3 [batch, rows, heads, head_dim] -> [batch, heads, head_dim, rows filled up with zeros to a multiple of 16].

    In each 16 rows key 8 b + 2 t + e is at place 4 t + 2 b + e; hopper_eight.py says why.
    """
    batch, rows, heads, head_dim = v.shape
    padded = F.pad(v.view(torch.uint8), (0, 0, 0, 0, 0, -rows % KEYS_IN_ORDER))
    ordered = padded.view(batch, -1, 2, 4, 2, heads, head_dim).permute(0, 5, 6, 1, 3, 2, 4)  # h, b, t, e -> h, t, b, e
    return ordered.reshape(batch, heads, head_dim, -1).contiguous().view(torch.float8_e4m3fn)


def rotated(x: Tensor, seed: int = 0) -> Tensor:
    """x times D H / sqrt(head_dim): H the Hadamard matrix, D random signs, the same for every call with this seed. Orthogonal."""
    head_dim = x.shape[-1]
    if head_dim & (head_dim - 1):
        raise ValueError(f"a Hadamard matrix of this kind has a power of two of rows, got head_dim {head_dim}")
    matrix = torch.ones(1, 1)
    while matrix.shape[0] < head_dim:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    signs = torch.randint(0, 2, (head_dim,), generator=torch.Generator().manual_seed(seed)) * 2 - 1
    return (x.float() @ (signs[:, None] * matrix / math.sqrt(head_dim)).to(x.device)).to(x.dtype)


def hopper_attention_fp8(
    q: Tensor, k: Tensor, v: Tensor, q_scale: Tensor, k_scale: Tensor, v_scale: Tensor, *, causal: bool = False,
    scale: float | None = None, return_lse: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Attention of what these stand for -> out [batch, q_len, q_heads, head_dim] bfloat16, or (out, lse).

    q, k     e4m3 [batch, rows, heads, 128], contiguous; scales float32 [batch, heads] as `quantise_heads` gives them
    v        as `transpose_values` gives it
    Raises ValueError or RuntimeError with the numbers.
    """
    _check(q, k, v, (q_scale, k_scale, v_scale))
    batch, q_len, heads, head_dim = q.shape
    out = torch.empty(q.shape, dtype=torch.bfloat16, device=q.device)
    lse = torch.empty(batch, heads, q_len, dtype=torch.float32, device=q.device) if return_lse else None
    scales = (q_scale, k_scale, v_scale)
    work = Work(q, k, v, out, lse, causal, check_scale(scale, head_dim), q_len, k.shape[1], None, scales)
    launch(work, EVERY_STEP, EIGHT_TILES[head_dim])
    return (out, lse) if return_lse else out


def _check(q: Tensor, k: Tensor, v: Tensor, scales: tuple[Tensor, Tensor, Tensor]) -> None:
    if q.dim() != 4 or k.dim() != 4 or q.shape[3] not in EIGHT_TILES or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"q and k must be [batch, rows, heads, 128] of one batch, got {[*q.shape]} and {[*k.shape]}")
    batch, kv_len, kv_heads, head_dim = k.shape
    if not q.numel() or not k.numel() or q.shape[2] % kv_heads:
        raise ValueError(f"q and k must hold something, q_heads be a multiple of kv_heads; got {[*q.shape]} and {[*k.shape]}")
    wanted = [batch, kv_heads, head_dim, -(-kv_len // KEYS_IN_ORDER) * KEYS_IN_ORDER]
    if [*v.shape] != wanted:
        raise ValueError(f"v must be as transpose_values makes it, {wanted}, got {[*v.shape]}")
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dtype != torch.float8_e4m3fn or not x.is_contiguous():
            raise ValueError(f"{name} must be contiguous float8_e4m3fn, got {x.dtype} with strides {x.stride()}")
    for name, x, heads in zip(("q_scale", "k_scale", "v_scale"), scales, (q.shape[2], kv_heads, kv_heads), strict=True):
        if x.dtype != torch.float32 or [*x.shape] != [batch, heads] or not x.is_contiguous():
            raise ValueError(f"{name} must be float32 {[batch, heads]}, contiguous, got {x.dtype} {[*x.shape]}")
    if not q.is_cuda or torch.cuda.get_device_capability(q.device) != CAPABILITY:
        raise RuntimeError(f"the Hopper kernel needs a GPU of compute capability {CAPABILITY}, and q is on {q.device}")
