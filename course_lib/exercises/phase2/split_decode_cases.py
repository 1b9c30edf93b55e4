"""Cases of exercise 2.9, second half: lengths around a block's and a part's end, heads, parts without a token; and the oracle."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...grading.criteria import Case
from ..kernel_cases import data_sheets, generator

if TYPE_CHECKING:
    from torch import Tensor

POISON = float("nan")
FP16, BF16 = "float16", "bfloat16"
MANY = 132  # parts of a pair: more than a merge takes at a time, and as many as a plan may make of one long context
WIDE = 3  # heads that lie behind q in its buffer


def expected(case: Case) -> tuple["Tensor", "Tensor"]:
    """(out [sequences, q_heads, head_dim], lse [sequences, q_heads]) in double precision."""
    from ...attention.paged_reference import decode_reference

    return decode_reference(*inputs(case), case["block_tables"], case["kv_lengths"])


def inputs(case: Case) -> tuple["Tensor", "Tensor", "Tensor"]:
    """q, K and V as the learner's function gets them: tensors of the case, or views."""
    if "wide" in case:
        return case["wide"][:, : case["q_heads"]], case["pool"][:, 0], case["pool"][:, 1]
    return case["q"], case["k_blocks"], case["v_blocks"]


def cut(lengths: Sequence[int], kv_heads: int, block_size: int, most: int) -> list[tuple[int, int, int, int]]:
    """A work list: each pair in pieces of at most so many blocks."""
    return [
        (sequence, head, first, min(first + most, -(-length // block_size)))
        for sequence, length in enumerate(lengths)
        for head in range(kv_heads)
        for first in range(0, -(-length // block_size), most)
    ]


def _case(
    name: str, lengths: Sequence[int], draw: Any, *, kv_heads: int = 2, group: int = 4, head_dim: int = 64, block_size: int = 16,
    dtype: str = FP16, most: int = 2, items: Any = None,
) -> Case:  # fmt: skip
    """Blocks anywhere in a pool; NaN wherever no token lies, and -1 behind each table's end."""
    import torch

    kind = getattr(torch, dtype)
    blocks = [-(-length // block_size) for length in lengths]
    order = (1 + torch.randperm(sum(blocks) + 2, generator=draw)).tolist()  # block 0 is nobody's
    tables = torch.full((len(lengths), max(blocks, default=0) + 1), -1, dtype=torch.int32)
    shape = 1 + len(order), block_size, kv_heads, head_dim
    k, v = torch.full(shape, POISON), torch.full(shape, POISON)
    for sequence, length in enumerate(lengths):
        mine = [order.pop() for _ in range(blocks[sequence])]
        tables[sequence, : len(mine)] = torch.tensor(mine, dtype=torch.int32)
        for place, block in enumerate(mine):
            held = min(length - place * block_size, block_size)
            for pool in (k, v):
                pool[block, :held] = torch.randn(held, kv_heads, head_dim, generator=draw)
    items = cut(lengths, kv_heads, block_size, most) if items is None else sorted(items)
    pairs = torch.tensor([sequence * kv_heads + head for sequence, head, _, _ in items], dtype=torch.int64)
    counts = torch.bincount(pairs, minlength=len(lengths) * kv_heads)
    first = torch.cat([torch.zeros(1, dtype=torch.int64), counts.cumsum(0)]).int()
    return {
        "name": f"{name} in {dtype}, {group} query heads a KV head, head_dim {head_dim}, blocks of {block_size}",
        "q": torch.randn(len(lengths), kv_heads * group, head_dim, generator=draw).to(kind),
        "k_blocks": k.to(kind), "v_blocks": v.to(kind), "block_tables": tables,
        "kv_lengths": torch.tensor(lengths, dtype=torch.int32),
        "items": torch.tensor(items, dtype=torch.int32).reshape(-1, 4), "first": first,
    }  # fmt: skip


def part_cases(seed: int) -> list[Case]:
    """One part, many parts; one token, and just before, at and behind the end of a block."""
    draw = generator(seed)
    long = 200 + seed % 90
    return [
        _case(f"{long} and 70 tokens, in parts of 4 blocks", [long, 70], draw, most=4),
        _case("1, 15, 16, 17, 32 and 33 tokens, in parts of a block", [1, 15, 16, 17, 32, 33], draw, most=1, kv_heads=1),
        _rising(_case("150 and 129 tokens, each pair in one part", [150, 129], draw, most=99, head_dim=128, dtype=BF16)),
        _rising(_case("90 and 64 tokens, in parts of a block", [90, 64], draw, most=1, block_size=32, dtype=BF16, kv_heads=1)),
        _case("300 and 64 tokens, in parts of 3 blocks", [300, 64], draw, most=3, block_size=64, kv_heads=1),
        _rising(_case(f"{MANY * 16 - 5} tokens, in parts of a block", [MANY * 16 - 5], draw, most=1, kv_heads=1, group=2)),
    ]


def _rising(case: Case) -> Case:
    """Later keys are longer, so that scores rise, and a sum that is not rescaled shows."""
    size = case["k_blocks"].shape[1]
    for sequence, length in enumerate(case["kv_lengths"].tolist()):
        for token in range(length):
            case["k_blocks"][int(case["block_tables"][sequence, token // size]), token % size] *= 1 + 3 * token / length
    return case


def head_cases(seed: int) -> list[Case]:
    """Each KV head's values lie around a number of its own, so that a wrong map of heads shows."""
    draw = generator(seed)
    cases = []
    for group, kv_heads in ((5, 2), (1, 3), (8, 2)):
        case = _case(
            f"{group * kv_heads} query heads on {kv_heads} KV heads", [40 + seed % 20], draw, group=group, kv_heads=kv_heads
        )
        case["v_blocks"] = _around_numbers(case["v_blocks"])
        cases.append(case)
    return cases


def _around_numbers(v: "Tensor") -> "Tensor":
    import torch

    return (0.25 * v.float() + 1 + torch.arange(v.shape[2])[None, None, :, None]).to(v.dtype)


def view_cases(seed: int) -> list[Case]:
    import torch

    draw = generator(seed)
    case = _case("q beside other heads, K and V side by side in one pool", [50 + seed % 14, 20], draw)
    q_heads = case["q"].shape[1]
    beside = torch.full((len(case["q"]), WIDE, case["q"].shape[2]), POISON).to(case["q"].dtype)
    wide = torch.cat([case.pop("q"), beside], 1)
    pool = torch.stack([case.pop("k_blocks"), case.pop("v_blocks")], 1)
    return [{**case, "wide": wide, "pool": pool, "q_heads": q_heads}]


def edge_cases(seed: int) -> list[Case]:
    """Sequences without tokens and without items, items without blocks, nothing at all, and scores of any size."""
    draw = generator(seed)
    length = 33 + seed % 15
    some = [
        (1, 0, 0, 1),
        (1, 0, 1, 1),
        (1, 0, 1, 3),
        (1, 1, 0, 0),
        (1, 1, 0, 3),
        (3, 0, 0, 2),
        (3, 1, 0, 2),
        (3, 1, 2, 2),
        (2, 0, 0, 0),
    ]
    cases = [
        _case("sequences without tokens", [0, 40, 0, 17], draw),
        _case("items without a block", [0, length, 0, 20], draw, items=some),
        _case("no token anywhere", [0, 0], draw),
    ]
    words = "scores of -20,000 in one part, 20,000 in another, -20,000 in all, and 20,000 long before -20,000"
    falls = [
        (2, 0, 0, 14),
        *[(2, 0, 14, 14)] * (MANY - 2),
        (2, 0, 14, 15),
    ]  # behind the first block all is low, by tokens and by parts
    falling = _case(words, [64, 64, 240], draw, kv_heads=1, items=[*cut([64, 64], 1, 16, 2), *falls])
    falling["q"] = falling["q"] * 0 + 50
    k = falling["k_blocks"]
    for sequence, signs in enumerate(([-1, -1, 1, 1], [-1] * 4, [1] + [-1] * 14)):
        for place, sign in enumerate(signs):
            block = int(falling["block_tables"][sequence, place])
            k[block] = 50 * sign
            k[block, :, :, 0] += 0.25 * (k.new_tensor(range(16))[:, None] % 4)
    return [*cases, {**falling, "falls": 2}]


def traffic_cases(seed: int) -> list[Case]:
    """Many tokens; and many last blocks that are nearly empty, where reading all of them would show."""
    draw, long = generator(seed), 400 + seed % 100
    return [
        _rising(_case(f"{long} and 130 tokens, in parts of 9 blocks", [long, 130], draw, most=9, kv_heads=1, head_dim=128)),
        _case("9 sequences of 17 tokens", [17] * 9, draw, most=2, kv_heads=1, group=7),
    ]


def compile_cases(seed: int) -> list[Case]:
    """Strides are multiples of 16 elements, of which the compiler makes wide loads; lengths are not."""
    draw = generator(seed)
    return [_rising(_case("150 and 33 tokens, in parts of 4 blocks", [150, 33], draw, most=4, head_dim=128, dtype=BF16))]


def device_cases(seed: int, sequences: int, tokens: int) -> list[Case]:
    small = _case("100 tokens", [100], generator(seed), head_dim=128, dtype=BF16) | {"sheet": data_sheets("hbm_gb_per_s")}
    name = f"{sequences} x {tokens} tokens, 32 query heads on 8 KV heads"
    return [{**small, "name": name, "seed": seed % 2**31, "sequences": sequences, "tokens": tokens}]


def shown_case(tokens: int, most: int) -> Case:
    """One sequence in parts of at most so many blocks, for a cell that counts bytes."""
    return _case(f"{tokens} tokens", [tokens], generator(0), kv_heads=1, head_dim=128, most=most)
