"""Cases of exercise 2.8: caches in blocks with NaN in every slot that no token holds, new tokens, their slots; and the oracle."""

from typing import TYPE_CHECKING, Any

from ...grading.criteria import Case
from ..kernel_cases import data_sheets, generator

if TYPE_CHECKING:
    from torch import Tensor

POISON = float("nan")
FP16, BF16 = "float16", "bfloat16"
NOWHERE = 2**31 - 1  # no pool has such a block
SPARE = 2  # blocks of a pool that no sequence holds


def expected(case: Case) -> "Tensor":
    """In double precision, [batch, q_heads, head_dim]; with new tokens after they were written."""
    from ...attention.paged_reference import decode_reference

    k, v = written(case) if "k" in case else (case["k_blocks"], case["v_blocks"])
    return decode_reference(case["q"], k, v, case["tables"], case["lengths"])[0]


def written(case: Case) -> tuple["Tensor", "Tensor"]:
    """k_blocks and v_blocks after the write."""
    slots, size = case["slots"], case["k_blocks"].shape[1]
    live = slots >= 0
    after = []
    for blocks, new in (("k_blocks", "k"), ("v_blocks", "v")):
        cache = case[blocks].clone()
        cache[slots[live] // size, slots[live] % size] = case[new][live]
        after.append(cache)
    return after[0], after[1]


def _case(
    name: str, lengths: list[int], draw: Any, *, heads: tuple[int, int] = (1, 1), head_dim: int = 64, block_size: int = 16,
    dtype: str = FP16, layout: str = "plain", unused: Any = -1, more_columns: int = 0,
) -> Case:  # fmt: skip
    """Sequences over blocks in random order. unused: what stands behind a row's last block, or "others": blocks of other rows."""
    import torch

    kind = getattr(torch, dtype)
    used = [-(-length // block_size) for length in lengths]
    order = [0, *(1 + torch.randperm(sum(used) + SPARE - 1, generator=draw)).tolist()]  # nobody holds block 0
    k = torch.full((len(order), block_size, heads[1], head_dim), POISON)
    v = k.clone()
    tables = torch.full((len(lengths), max(used) + 2), -1 if unused == "others" else unused, dtype=torch.int32)
    if unused == "others":
        tables = torch.randint(0, len(order), tables.shape, generator=draw, dtype=torch.int32)
    for row, (length, count) in enumerate(zip(lengths, used, strict=True)):
        blocks = [order.pop() for _ in range(count)]
        tables[row, :count] = torch.tensor(blocks, dtype=torch.int32)
        for pool in (k, v):
            tokens = torch.randn(length, heads[1], head_dim, generator=draw)
            for number, block in enumerate(blocks):
                part = tokens[number * block_size : (number + 1) * block_size]
                pool[block, : len(part)] = part
    return {
        "name": f"{name} in {dtype}, head_dim {head_dim}",
        "q": torch.randn(len(lengths), heads[0], head_dim, generator=draw).to(kind),
        "k_blocks": k.to(kind), "v_blocks": v.to(kind), "tables": tables, "lengths": torch.tensor(lengths, dtype=torch.int32),
        "layout": layout, "more_columns": more_columns, "q_offset": 0,
    }  # fmt: skip


def write_cases(seed: int) -> list[Case]:
    """Slots in no order, on either side of blocks' borders, three sizes of block and layouts; tokens to skip; a cache in use.

    Blocks of 32 come first with slots that lie in the cache even for who takes them for blocks of 16, so that a hint can say so.
    """
    import torch

    draw = generator(seed)
    cases = []
    for name, tokens, heads, head_dim, dtype, layout, size, skip in (
        (f"{9 + seed % 7} tokens", 9 + seed % 7, 2, 64, FP16, "plain", 16, 0),
        ("12 tokens, of which some are skipped, blocks of 32", 12, 3, 64, BF16, "plain", 32, 4),
        ("K and V of a block side by side, k and v parts of one product, blocks of 64", 7, 2, 128, BF16, "together", 64, 1),
        ("V in another order than K, k and v parts of one product", 6 + seed % 5, 2, 64, FP16, "apart", 16, 2),
        ("one token, and it is skipped", 1, 1, 64, FP16, "plain", 16, 1),
    ):
        case = _case("", [20, 5], draw, heads=(1, heads), head_dim=head_dim, dtype=dtype, layout=layout, block_size=size)
        slots = _free_slots(case, draw)
        slots = (slots[slots < 16 * len(case["k_blocks"])] if size == 32 else slots)[:tokens]
        slots[torch.randperm(tokens, generator=draw)[:skip]] = -1
        cases.append(_with_new(case | {"name": f"{name} in {dtype}"}, slots, draw))
    return cases


def _free_slots(case: Case, draw: Any) -> "Tensor":
    """Slots that hold no token, in no order: first the borders of one spare block, the first and the last slot of the pool."""
    import torch

    blocks, size = case["k_blocks"].shape[:2]
    free = case["k_blocks"][:, :, 0, 0].isnan().flatten().nonzero().flatten()
    spare = next(block for block in range(blocks) if case["k_blocks"][block].isnan().all())
    telling = torch.tensor([spare * size + size - 1, spare * size, 0, blocks * size - 1])
    telling = telling[torch.isin(telling, free)].unique()
    rest = free[~torch.isin(free, telling)]
    chosen = torch.cat([telling, rest[torch.randperm(len(rest), generator=draw)]])
    return torch.cat([chosen[: len(telling)][torch.randperm(len(telling), generator=draw)], chosen[len(telling) :]])


def _with_new(case: Case, slots: "Tensor", draw: Any) -> Case:
    import torch

    shape = len(slots), *case["k_blocks"].shape[2:]
    k, v = (torch.randn(shape, generator=draw).to(case["k_blocks"].dtype) for _ in range(2))
    return case | {"k": k, "v": v, "slots": slots}


def length_cases(seed: int) -> list[Case]:
    """Lengths of 0 and 1, and around a block's end, for each size of block; rising and falling scores; very low ones."""
    import torch

    draw = generator(seed)
    rising = _case("scores that rise along the sequence", [290 + seed % 60, 40], draw)
    falling = _case("scores that fall along the sequence", [150 + seed % 60], draw, block_size=32)
    _rise(rising, 1)
    _rise(falling, -1)
    low = _case("one token, whose score is -20,000", [1], draw, block_size=16)
    low["q"], low["k_blocks"][low["tables"][0, 0], 0] = torch.full_like(low["q"], 50.0), -50.0
    late = _case("scores of 20,000, and far lower ones behind", [300], draw)
    late["q"], late["falls"] = torch.full_like(late["q"], 50.0), True
    for token in range(300):
        late["k_blocks"][late["tables"][0, token // 16], token % 16] = 50.0 if token < 20 else -50.0
    return [
        rising,
        _case("lengths 0, 1, 15, 16 and 17, blocks of 16", [0, 1, 15, 16, 17], draw),
        _case("lengths 63, 64 and 65, blocks of 32", [63, 64, 65], draw, block_size=32, head_dim=128, dtype=BF16),
        _case("lengths 127, 128, 0 and 129, blocks of 64", [127, 128, 0, 129], draw, block_size=64, dtype=BF16),
        falling,
        low,
        late,
    ]


def _rise(case: Case, sign: int) -> None:
    """K's first number rises (or falls) along each sequence, and the scores with it: a later tile brings a larger one."""
    import torch

    size = case["k_blocks"].shape[1]
    case["q"][..., 0] = 4.0
    for row, length in enumerate(case["lengths"].tolist()):
        for token, value in enumerate((sign * torch.linspace(-8, 8, length)).tolist()):
            case["k_blocks"][case["tables"][row, token // size], token % size, :, 0] = value


def head_cases(seed: int) -> list[Case]:
    """Each KV head's values lie around a number of its own, so that a wrong map of heads shows."""
    import torch

    draw = generator(seed)
    cases = []
    for q_heads, kv_heads in ((6, 2), (4, 1), (3, 3)):
        words = f"{q_heads} query heads, {kv_heads} KV heads"
        case = _case(words, [19 + seed % 9, 7], draw, heads=(q_heads, kv_heads), block_size=16)
        case["v_blocks"] = (0.25 * case["v_blocks"].float() + 1 + torch.arange(kv_heads)[:, None]).to(case["v_blocks"].dtype)
        cases.append(case)
    return cases


def table_cases(seed: int) -> list[Case]:
    """Whatever may stand behind a row's last block; tables that are a part of wider ones."""
    draw = generator(seed)
    return [
        _case("the tables are the first columns of wider ones", [40 + seed % 9, 18, 33], draw, more_columns=3),
        _case("2**31 - 1 behind the last block of each row", [16, 30 + seed % 9], draw, unused=NOWHERE),
        _case("blocks of others behind the last block of each row", [33, 48, 5], draw, unused="others"),
    ]


def apart_cases(seed: int) -> list[Case]:
    """K and V in layouts of several engines."""
    draw = generator(seed)
    return [
        _case("K and V of a block side by side", [37 + seed % 9, 16], draw, heads=(2, 2), layout="together"),
        _case("V in another order than K", [21 + seed % 9, 33], draw, heads=(4, 2), layout="apart"),
    ]


def step_cases(seed: int) -> list[Case]:
    """The last token of each sequence is new: written, then attended to. With 17 it opens a block; one row is padding."""
    import torch

    draw = generator(seed)
    case = _case("one step: the newest token of each sequence is written first", [17, 30 + seed % 9, 0, 16], draw, heads=(4, 2))
    size, slots, lengths = case["k_blocks"].shape[1], [], case["lengths"].tolist()
    for row, length in enumerate(lengths):
        last = length - 1
        block = int(case["tables"][row, last // size]) if length else 0
        slots.append(block * size + last % size if length else -1)
        if length:
            case["k_blocks"][block, last % size] = case["v_blocks"][block, last % size] = POISON
    return [_with_new(case, torch.tensor(slots), draw)]


def write_traffic_cases(seed: int) -> list[Case]:
    import torch

    draw = generator(seed)
    case = _case("", [40, 20], draw, heads=(1, 4), block_size=32)
    slots = _free_slots(case, draw)[: 20 + seed % 9]
    slots[torch.arange(4, len(slots), 5)] = -1
    return [_with_new(case | {"name": f"{len(slots)} tokens of 4 heads, every fifth skipped"}, slots, draw)]


def decode_traffic_cases(seed: int) -> list[Case]:
    draw = generator(seed)
    first = 3 * 32 + 4 + seed % 8
    rising = _case(f"lengths {first}, 0 and 45, blocks of 32", [first, 0, 45], draw, heads=(2, 2), block_size=32)
    _rise(rising, 1)
    return [
        rising,
        _case("4 query heads on 2 KV heads, blocks of 16", [130 + seed % 4], draw, heads=(4, 2), unused="others"),
    ]


def write_compile_cases(seed: int) -> list[Case]:
    """Heads of 256: one head is 16 bytes for each thread of a warp, so that a warp for each head passes as well."""
    import torch

    draw = generator(seed)
    case = _case("2 tokens of 8 heads", [1], draw, heads=(8, 8), head_dim=256, dtype=BF16)
    return [_with_new(case, torch.tensor([20, 17]) + 0 * seed, draw)]


def decode_compile_cases(seed: int) -> list[Case]:
    """q begins 2 bytes behind a multiple of 16, so that what is wide can only be K and V."""
    words = "8 heads, blocks of 16, q beside a multiple of 16 bytes"
    case = _case(words, [19], generator(seed), heads=(8, 8), head_dim=128, dtype=BF16)
    return [case | {"q_offset": 1}]


def device_cases(seed: int) -> list[Case]:
    words = "64 sequences of 8192 tokens, 8 heads, blocks of 16"
    small = _case(words, [70, 33], generator(seed), heads=(8, 8), head_dim=128, dtype=BF16)
    return [{**small, "sheet": data_sheets("hbm_gb_per_s"), "seed": seed % 2**31}]
