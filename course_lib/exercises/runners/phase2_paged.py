"""Exercise 2.8: calls of the learner's paged write and paged decode, and the decode's time beside one read of K and V on a GPU.

Where there is a GPU the tensors lie on it, so that the kernels are compiled; elsewhere they are interpreted.
"""

from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file

ROWS, TOKENS, HEADS, HEAD_DIM, BLOCK = 64, 8192, 8, 128, 16
FAR = 2**31  # elements, of two bytes each
POISON = float("nan")


def paged_write(entry: Any, case: dict) -> dict:
    """All memory of the cache, after the learner's function was given k and v, and no q."""
    case = _placed(case)
    k, v, memory = laid_out(case)
    new_k, new_v = new_tokens(case)
    _without_copies(entry, None, new_k, new_v, k, v, case["slots"], None, None)
    return {"memory": memory}


def paged_decode(entry: Any, case: dict) -> Any:
    """What the learner's function makes of q, when it is given no new tokens."""
    case = _placed(case)
    k, v, _ = laid_out(case)
    return _without_copies(entry, _begins_at(case["q"], case["q_offset"]), None, None, k, v, None, _wide(case), case["lengths"])


def paged_step(entry: Any, case: dict) -> Any:
    """Both: new tokens are written, and then attended to."""
    case = _placed(case)
    k, v, _ = laid_out(case)
    q, (new_k, new_v) = case["q"], new_tokens(case)
    return _without_copies(entry, q, new_k, new_v, k, v, case["slots"], _wide(case), case["lengths"])


def laid_out(case: dict) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """k_blocks and v_blocks of a case, and the memory in which they lie; NaN is in the rest of it.

    together  one tensor [num_blocks, 2, ...]: K and V of a block side by side
    apart     K between other heads, behind two blocks of others; V in a memory of its own, where a head lies behind the other
    """
    k, v = case["k_blocks"], case["v_blocks"]
    blocks, size, heads, dim = k.shape
    if case["layout"] == "together":
        both = k.new_full((blocks, 2, size, heads, dim), POISON)
        both[:, 0], both[:, 1] = k, v
        return both[:, 0], both[:, 1], [both]
    if case["layout"] == "apart":
        wide = k.new_full((blocks + 2, size, heads + 2, dim), POISON)
        other = k.new_full((blocks + 2, heads + 2, size, dim), POISON)
        own, turned = wide[2:, :, 1 : heads + 1], other[2:, :heads].transpose(1, 2)
        own[:], turned[:] = k, v
        return own, turned, [wide, other]
    return k, v, [k, v]


def new_tokens(case: dict) -> tuple[torch.Tensor, torch.Tensor]:
    """k and v of the new tokens; outside of layout "plain" they are parts of one product, as a projection leaves them."""
    k, v = case["k"], case["v"]
    if case["layout"] == "plain":
        return k, v
    product = torch.cat([torch.full_like(k, POISON), k, v], 1)
    return product[:, k.shape[1] : 2 * k.shape[1]], product[:, 2 * k.shape[1] :]


def _wide(case: dict) -> torch.Tensor:
    """The block tables, as the first columns of wider ones where the case says so."""
    tables, more = case["tables"], case["more_columns"]
    if not more:
        return tables
    return torch.cat([tables, tables.new_full((len(tables), more), 2**31 - 1)], 1)[:, : tables.shape[1]]


def _begins_at(tensor: torch.Tensor, offset: int) -> torch.Tensor:
    """The same values, `offset` elements behind the start of a memory."""
    if not offset:
        return tensor
    memory = tensor.new_empty(tensor.numel() + offset)
    memory[offset:] = tensor.flatten()
    return memory[offset:].view(tensor.shape)


def _placed(case: dict) -> dict:
    if torch.cuda.is_available():
        case.update({name: value.cuda() for name, value in case.items() if isinstance(value, torch.Tensor)})
    return case


def _without_copies(entry: Any, *inputs: Any) -> Any:
    from course_lib.workloads.no_copies import without_copies

    return without_copies(entry, *inputs)


def paged_on_this_device(entry: Any, case: dict) -> dict:
    """Time the learner's decode in turns with a kernel that only reads K and V; q has fresh content before each call."""
    from course_lib.workloads.beside_peer import Peer, beside_peer

    work = 2 * ROWS * TOKENS * HEADS * HEAD_DIM * 2 / 1e9
    peer = Peer("a kernel that only reads K and V", work, "GB/s", "hbm_gb_per_s")
    evidence = beside_peer(case, peer, lambda: _turns(entry))
    return evidence if "blocked" in evidence else evidence | {"far": _beyond_int32(entry)}


def _turns(entry: Any) -> Any:
    from course_lib.workloads.beside_peer import take_turns
    from course_lib.workloads.read_curve_kernel import read_kernel

    blocks = ROWS * TOKENS // BLOCK
    q = torch.randn(ROWS, HEADS, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    k, v = (torch.empty(blocks, BLOCK, HEADS, HEAD_DIM, device="cuda", dtype=torch.bfloat16).normal_() for _ in range(2))
    tables = torch.randperm(blocks, device="cuda").to(torch.int32).view(ROWS, -1)
    lengths = torch.full((ROWS,), TOKENS, device="cuda", dtype=torch.int32)
    own_k, own_v = (_gathered(x, tables) for x in (k, v))
    words, part = k.numel() // 2, 4096
    sums = torch.empty(words // part, device="cuda", dtype=torch.int32)
    result: list[Any] = [None]

    def mine() -> None:
        result[0] = entry(q, None, None, k, v, None, tables, lengths)

    def read() -> None:
        for x in (k, v):
            read_kernel[(words // part,)](x.view(torch.int32), sums, words, BLOCK=part, num_warps=8)

    def fresh() -> None:
        result[0] = None
        q.normal_()

    return take_turns(mine, read, fresh=fresh, is_right=lambda: _close(result[0], _attention(q, own_k, own_v)))


def _gathered(blocks: torch.Tensor, tables: torch.Tensor) -> torch.Tensor:
    """[rows, heads, tokens, head_dim]: each row's tokens in order."""
    return torch.stack([blocks[row.long()].flatten(0, 1).transpose(0, 1) for row in tables])


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    import torch.nn.functional as F

    return F.scaled_dot_product_attention(q[:, :, None], k, v)[:, :, 0]


def _close(got: Any, want: torch.Tensor) -> bool:
    """Of thousands of tokens little is left: each rounds its weights and its result to bf16, by 2 ** -8 of their size."""
    if not isinstance(got, torch.Tensor) or got.shape != want.shape:
        return False
    return bool((got.float() - want.float()).abs().max() <= 2 * 2**-7 * want.float().abs().max())  # False for a NaN


def _beyond_int32(entry: Any) -> str:
    """Three blocks that begin 2**30 elements apart, in K and in V -> "right", "wrong", or why it was not tried.

    Before the first lie 2**31 elements of ours: an offset that wraps around to a negative one meets memory that is there.
    """
    part = BLOCK * HEAD_DIM
    needed = 2 * (2 * FAR + 2 * part) + 2**28
    if torch.cuda.mem_get_info()[0] < needed:
        return f"not tried: {needed / 1e9:.1f} GB must be free"
    buffer = torch.zeros(2 * FAR + 2 * part, dtype=torch.bfloat16, device="cuda")
    shape, strides = (3, BLOCK, 1, HEAD_DIM), (FAR // 2, HEAD_DIM, HEAD_DIM, 1)
    k, v = (buffer.as_strided(shape, strides, FAR + place) for place in (0, part))
    new_k, new_v = (torch.randn(3 * BLOCK, 1, HEAD_DIM, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    slots = torch.randperm(3 * BLOCK, device="cuda")
    entry(None, new_k, new_v, k, v, slots, None, None)
    torch.cuda.synchronize()
    if not all(torch.equal(x.flatten(0, 1)[slots], new) for x, new in ((k, new_k), (v, new_v))):
        return "wrong"
    k.normal_(), v.normal_()
    tables = torch.tensor([[2, 0, 1], [1, 2, -1]], device="cuda", dtype=torch.int32)
    lengths = torch.tensor([3 * BLOCK, 2 * BLOCK], device="cuda", dtype=torch.int32)
    q = torch.randn(2, 1, HEAD_DIM, device="cuda", dtype=torch.bfloat16)
    got = entry(q, None, None, k, v, None, tables, lengths)
    torch.cuda.synchronize()
    rows = [_attention(q[:1], *(_gathered(x, tables[:1]) for x in (k, v)))]
    rows.append(_attention(q[1:], *(_gathered(x, tables[1:, :2]) for x in (k, v))))
    want = torch.cat(rows)
    return "right" if _close(got, want) else "wrong"
