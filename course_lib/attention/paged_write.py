"""Write new K and V into the paged cache, turned by their positions, and turn q in the same launch.

Layout   k, v [tokens, kv_heads, head_dim]; q [tokens, q_heads, head_dim]; cos, sin float32 [tokens, head_dim / 2]: each token's
         k_blocks, v_blocks [num_blocks, block_size, kv_heads, head_dim]; slots int64 [tokens]: block * block_size + place, or -1
"""

import torch
from torch import Tensor

from .checks import has_tensor_cores, launching_on, needs_gradient
from .paged_checks import choose_impl

HEADS_AT_ONCE = 16


def paged_write(
    k: Tensor, v: Tensor, k_blocks: Tensor, v_blocks: Tensor, slots: Tensor, *,
    cos: Tensor | None = None, sin: Tensor | None = None, q: Tensor | None = None, impl: str = "auto",
) -> Tensor | None:  # fmt: skip
    """Write k (turned by cos and sin, if given) and v at their slots -> q turned in the same way, a new tensor; None without q.

    Half-split pairing, float32 arithmetic, rounded once. A token with slot -1 leaves the cache as it is; its q is turned all
    the same. The cache keeps values: no gradient flows into it. Slots must name places in the pool, and each at most once:
    looked at on a CPU; on a GPU only by check_slots.
    """
    _require(k, v, k_blocks, v_blocks, slots, cos, sin, q)
    if impl == "auto":  # the kernel takes any head_dim and block size
        impl = "triton" if has_tensor_cores(k.device) and not (q is not None and needs_gradient(q)) else "dense"
    choose_impl(impl, k.detach() if q is None else q, k_blocks.shape[1])
    if not k.is_cuda:
        check_slots(slots, k_blocks.shape[0] * k_blocks.shape[1])
    if impl == "dense":
        return _dense(k, v, k_blocks, v_blocks, slots, cos, sin, q)
    q_out = None if q is None else torch.empty(q.shape, dtype=q.dtype, device=q.device)
    tokens, kv_heads, head_dim = k.shape
    if not tokens:
        return q_out
    from .paged_write_kernel import paged_write_kernel

    q_heads = 0 if q is None else q.shape[1]
    heads = min(HEADS_AT_ONCE, 1 << (max(kv_heads, q_heads) - 1).bit_length())
    queries, turned = (k, k) if q is None else (q, q_out)
    table = k if cos is None else cos
    with launching_on(k):
        paged_write_kernel[(tokens, -(-kv_heads // heads) + -(-q_heads // heads))](
            k, v, k_blocks, v_blocks, slots, table, table if sin is None else sin, queries, turned,
            k.stride(0), k.stride(1), v.stride(0), v.stride(1),
            queries.stride(0), queries.stride(1), turned.stride(0), turned.stride(1),
            k_blocks.stride(0), k_blocks.stride(1), k_blocks.stride(2),
            BLOCK_SIZE=k_blocks.shape[1], KV_HEADS=kv_heads, Q_HEADS=q_heads, HEADS=heads, HALF=head_dim // 2,
            BLOCK_HALF=1 << (head_dim // 2 - 1).bit_length(), ROPE=cos is not None, num_warps=4,
        )  # fmt: skip
    return q_out


def check_slots(slots: Tensor, places: int) -> None:
    """ValueError for a slot outside the pool's places, or one that two tokens would write. On a GPU this waits for the GPU."""
    found = slots.tolist()
    taken: dict[int, int] = {}
    for token, slot in enumerate(found):
        if slot < -1 or slot >= places:
            raise ValueError(f"token {token} has slot {slot}, and the pool has places 0..{places - 1}; -1 skips a token")
        if slot >= 0 and taken.setdefault(slot, token) != token:
            raise ValueError(f"tokens {taken[slot]} and {token} both have slot {slot}; each place is written at most once")


def _require(k, v, k_blocks, v_blocks, slots, cos, sin, q) -> None:  # type: ignore[no-untyped-def]
    if k.ndim != 3 or k.shape != v.shape:
        raise ValueError(f"k and v are both [tokens, kv_heads, head_dim], got {tuple(k.shape)} and {tuple(v.shape)}")
    tokens, kv_heads, head_dim = k.shape
    if k_blocks.ndim != 4 or k_blocks.shape != v_blocks.shape or k_blocks.shape[2:] != (kv_heads, head_dim):
        wanted = f"[num_blocks, block_size, {kv_heads}, {head_dim}]"
        raise ValueError(f"the cache of these k and v is {wanted}, got {tuple(k_blocks.shape)} and {tuple(v_blocks.shape)}")
    if head_dim % 2:
        raise ValueError(f"head_dim is even, since values turn in pairs; got {head_dim}")
    if slots.dtype != torch.int64 or slots.shape != (tokens,):
        raise ValueError(f"slots are int64 [{tokens}], one for each token, got {slots.dtype} {tuple(slots.shape)}")
    if (cos is None) != (sin is None) or (q is not None and cos is None):
        raise ValueError("cos and sin come together, and q only with them; without positions q needs no call")
    tensors = {"k": k, "v": v, "k_blocks": k_blocks, "v_blocks": v_blocks} | ({} if q is None else {"q": q})
    if len({t.dtype for t in tensors.values()}) > 1:
        raise TypeError(f"one dtype for all, got {', '.join(f'{n} {t.dtype}' for n, t in tensors.items())}; cast to the cache's")
    if q is not None and (q.ndim != 3 or q.shape[0] != tokens or q.shape[2] != head_dim or q.shape[1] % kv_heads):
        raise ValueError(f"q is [{tokens}, a multiple of {kv_heads}, {head_dim}], got {tuple(q.shape)}")
    for name, table in {} if cos is None else {"cos": cos, "sin": sin}.items():
        if table.dtype != torch.float32 or table.shape != (tokens, head_dim // 2) or not table.is_contiguous():
            found = f"{table.dtype} {tuple(table.shape)}, strides {table.stride()}"
            raise ValueError(f"{name} is float32 [{tokens}, {head_dim // 2}], contiguous, got {found}; bf16 loses far positions")
    strides = {name: t.stride() for name, t in tensors.items() if t.stride(-1) != 1}
    if strides or k_blocks.stride() != v_blocks.stride():
        raise ValueError(f"head_dim has a stride of 1, K and V blocks the same strides; got {strides or k_blocks.stride()}")
    for name, blocks in (("k_blocks", k_blocks), ("v_blocks", v_blocks)):
        if any(stride == 0 and size > 1 for stride, size in zip(blocks.stride(), blocks.shape, strict=True)):
            raise ValueError(f"{name} has strides {blocks.stride()}: several of its places are one; write to a cache of its own")
    if k_blocks.numel() and k_blocks.data_ptr() == v_blocks.data_ptr():
        raise ValueError("k_blocks and v_blocks are one memory, and v would be written over k; pass two caches")
    devices = {t.device for t in (*tensors.values(), slots, *([] if cos is None else [cos, sin]))}
    if len(devices) > 1:
        raise ValueError(f"all tensors are on one device, got {sorted(map(str, devices))}")


def _dense(k, v, k_blocks, v_blocks, slots, cos, sin, q) -> Tensor | None:  # type: ignore[no-untyped-def]
    """The same in plain torch, with one pass for each step."""
    live = slots >= 0
    block, place = slots[live] // k_blocks.shape[1], slots[live] % k_blocks.shape[1]
    k, v = k.detach(), v.detach()
    k_blocks[block, place] = (k if cos is None else turned(k, cos, sin))[live]
    v_blocks[block, place] = v[live]
    return None if q is None else turned(q, cos, sin)


def turned(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [tokens, heads, head_dim] turned by cos and sin [tokens, head_dim / 2], half-split, in float32."""
    a, b = x.float().chunk(2, dim=-1)
    cos, sin = cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1).to(x.dtype)
