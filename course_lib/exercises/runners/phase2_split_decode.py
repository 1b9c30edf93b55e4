"""Exercise 2.9: the learner's two functions, a plan of work and a decode step that follows one, and their time on a GPU.

Where there is a GPU the tensors lie on it, so that kernels are compiled; elsewhere they are interpreted.
"""

from operator import index
from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file

Q_HEADS, KV_HEADS, HEAD_DIM, BLOCK_SIZE = 32, 8, 128, 16
DEVICE = "cuda"
FAR = 2**31  # elements, of two bytes each
L2_FLUSH = 2**28  # bytes, more than an L2 holds
NAMES = ("q", "k_blocks", "v_blocks", "block_tables", "kv_lengths", "items", "first")


def plan_splits(entry: Any, case: dict) -> Any:
    """{"items": what the learner's plan returned, as a tensor [n, 4] where it is one, "again": whether a second call agrees}."""
    plan, _ = _functions(entry)
    rest = case["kv_heads"], case["block_size"], case["programs"]
    items, again = (plan(list(case["lengths"]), *rest) for _ in range(2))
    return {"items": _as_tensor(items), "again": "the same" if items == again else "another"}


def split_decode(entry: Any, case: dict) -> Any:
    """What the learner's decode makes of the judge's work list."""
    _, decode = _functions(entry)
    return _without_copies(decode, [_placed(case[name]) for name in NAMES])


def split_decode_of_views(entry: Any, case: dict) -> Any:
    """q lies beside other heads, K and V side by side in one pool."""
    _, decode = _functions(entry)
    wide, pool = _placed(case["wide"]), _placed(case["pool"])
    views = [wide[:, : case["q_heads"]], pool[:, 0], pool[:, 1]]
    return _without_copies(decode, [*views, *(_placed(case[name]) for name in NAMES[3:])])


def _functions(entry: Any) -> tuple[Any, Any]:
    """(plan, decode). Whoever asks what the learner's function is handed passes one that looks, and returns nothing."""
    made = entry()
    if made is None:
        return entry, entry
    if not isinstance(made, (tuple, list)) or len(made) != 2 or not all(map(callable, made)):
        raise TypeError(f"split_kv returns two functions, (plan_splits, split_decode), got {type(made).__name__}")
    return made[0], made[1]


def _placed(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.cuda() if torch.cuda.is_available() else tensor


def _without_copies(decode: Any, tensors: list[torch.Tensor]) -> Any:
    from course_lib.workloads.no_copies import without_copies

    return without_copies(decode, *tensors)


def _as_tensor(items: Any) -> Any:
    """[n, 4] int64, or what came where that is no list of four whole numbers."""
    if not isinstance(items, (list, tuple)):
        return items
    try:
        rows = [[index(number) for number in item] for item in items]
        return torch.tensor(rows, dtype=torch.int64) if all(len(row) == 4 for row in rows) and rows else _none(rows)
    except (TypeError, ValueError, RuntimeError):
        return list(items)[:4]


def _none(rows: list[list[int]]) -> Any:
    return rows[:4] or torch.empty(0, 4, dtype=torch.int64)


def work_list(items: Any, sequences: int, kv_heads: int, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Items by sequence, head and first block, int32 [n, 4], and where each pair's begin, int32 [sequences * kv_heads + 1]."""
    rows = torch.tensor(sorted(map(tuple, items)), dtype=torch.int32).reshape(-1, 4)
    pairs = rows[:, 0].long() * kv_heads + rows[:, 1].long()
    counts = torch.bincount(pairs, minlength=sequences * kv_heads)
    first = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()
    return rows.to(device), first.to(device)


def split_decode_on_this_device(entry: Any, case: dict) -> dict:
    """Time plan and decode for case["sequences"] sequences of case["tokens"], in turns with a plain read of as many bytes."""
    from course_lib.workloads.beside_peer import Peer, beside_peer

    sequences, tokens = case["sequences"], case["tokens"]
    work = 2 * 2 * sequences * tokens * KV_HEADS * HEAD_DIM / 1e9
    peer = Peer("a plain read of K and V", work, "GB/s", "hbm_gb_per_s")
    evidence = beside_peer(case, peer, lambda: _turns(entry, sequences, tokens))
    return evidence if "blocked" in evidence else evidence | {"far": _beyond_int32(entry)}


def _turns(entry: Any, sequences: int, tokens: int) -> Any:
    import torch.nn.functional as F

    from course_lib.workloads.beside_peer import take_turns
    from course_lib.workloads.read_curve_kernel import read_kernel

    plan, decode = _functions(entry)
    blocks = tokens // BLOCK_SIZE
    both = torch.randn(2, sequences * blocks, BLOCK_SIZE, KV_HEADS, HEAD_DIM, device=DEVICE, dtype=torch.bfloat16)
    tables = torch.randperm(sequences * blocks, device=DEVICE).int().view(sequences, blocks)
    q = torch.empty(sequences, Q_HEADS, HEAD_DIM, device=DEVICE, dtype=torch.bfloat16)
    lengths = torch.full((sequences,), tokens, device=DEVICE, dtype=torch.int32)
    programs = 2 * torch.cuda.get_device_properties(DEVICE).multi_processor_count
    items, first = work_list(plan([tokens] * sequences, KV_HEADS, BLOCK_SIZE, programs), sequences, KV_HEADS, DEVICE)
    k, v = (pool[tables.flatten().long()].view(sequences, tokens, KV_HEADS, HEAD_DIM).transpose(1, 2) for pool in both)
    words, block = both.view(-1).view(torch.int32), 4096
    sums = torch.empty(words.numel() // block, device=DEVICE, dtype=torch.int32)
    flush = torch.empty(L2_FLUSH, dtype=torch.int8, device=DEVICE)
    result: list[Any] = [None]

    def mine() -> None:
        result[0] = decode(q, both[0], both[1], tables, lengths, items, first)

    def fresh() -> None:
        result[0] = None
        q.normal_()
        flush.zero_()

    def is_right() -> bool:
        want = F.scaled_dot_product_attention(q[:, :, None], k, v, enable_gqa=True)[:, :, 0]
        return _close(result[0], want)

    def read() -> None:
        read_kernel[(words.numel() // block,)](words, sums, words.numel(), BLOCK=block)

    return take_turns(mine, read, fresh=fresh, is_right=is_right)


def _close(result: Any, want: torch.Tensor) -> bool:
    """Weights and result are rounded to bf16, 2 ** -9 of each: of many keys what is left of that is far below 2 ** -6 of out."""
    if not isinstance(result, (tuple, list)) or len(result) != 2 or not isinstance(result[0], torch.Tensor):
        return False
    out = result[0]
    return out.shape == want.shape and bool(
        (out.float() - want.float()).abs().max() <= 2**-6 * want.float().abs().max()
    )  # False for a NaN


def _beyond_int32(entry: Any) -> str:
    """Blocks that begin 2**30 elements apart -> "right", "wrong", or why it was not tried.

    Before the first lie 2**31 elements of ours: an offset that wraps around to a negative one meets memory that is there.
    """
    _, decode = _functions(entry)
    size, part = BLOCK_SIZE * HEAD_DIM, 4 * BLOCK_SIZE * HEAD_DIM
    needed = 2 * (2 * FAR + 2 * part) + 2**28
    if torch.cuda.mem_get_info()[0] < needed:
        return f"not tried: {needed / 1e9:.1f} GB must be free"
    buffer = torch.zeros(2 * FAR + 2 * part, dtype=torch.bfloat16, device=DEVICE)
    shape, strides = (3, BLOCK_SIZE, 1, HEAD_DIM), (FAR // 2, HEAD_DIM, HEAD_DIM, 1)
    k, v = (buffer.as_strided(shape, strides, FAR + place) for place in (0, size))
    q = torch.randn(1, 4, HEAD_DIM, device=DEVICE, dtype=torch.bfloat16)
    k.normal_(), v.normal_()
    tables = torch.tensor([[2, 0, 1]], device=DEVICE, dtype=torch.int32)
    lengths = torch.tensor([40], device=DEVICE, dtype=torch.int32)
    items, first = work_list([(0, 0, 0, 1), (0, 0, 1, 3)], 1, 1, DEVICE)
    result = decode(q, k, v, tables, lengths, items, first)
    torch.cuda.synchronize()
    keys, values = (pool[[2, 0, 1]].reshape(-1, HEAD_DIM)[:40].float() for pool in (k, v))
    want = ((q[0].float() @ keys.T * HEAD_DIM**-0.5).softmax(-1) @ values)[None]
    return "right" if _close(result, want) else "wrong"
