"""Cases of exercise 2.4: lengths around a tile's, the causal mask, shared heads, scores of any size, rows that lie apart."""

from typing import TYPE_CHECKING, Any

from ...grading.criteria import Case
from ..kernel_cases import data_sheets, generator

if TYPE_CHECKING:
    from torch import Tensor

POISON = float("nan")
FP16, BF16 = "float16", "bfloat16"


def inputs(case: Case) -> tuple["Tensor", "Tensor", "Tensor"]:
    """q, k and v as the learner's function gets them: tensors of the case, or views of the buffer that holds all three.

    With "values" in the case, v is the first and the last head of that one, where a head lies behind the other.
    """
    if "buffer" not in case:
        return case["q"], case["k"], case["v"]
    buffer = case["buffer"].transpose(1, 2) if case["head_major"] else case["buffer"]
    q_len, kv_len, q_heads, kv_heads = case["q_len"], case["kv_len"], case["q_heads"], case["kv_heads"]
    first_v = q_heads + kv_heads
    v = case["values"].transpose(1, 2)[:, :, :: first_v - 1] if "values" in case else buffer[:, :, first_v : first_v + kv_heads]
    return buffer[:, :q_len, :q_heads], buffer[:, :kv_len, q_heads:first_v], v[:, :kv_len]


def expected(case: Case) -> "Tensor":
    """In double precision, [batch, q_len, q_heads, head_dim]."""
    from ...attention.reference import attention_reference

    return attention_reference(*inputs(case), causal=case["causal"])[0]


def _case(
    name: str, q_len: int, kv_len: int, draw: Any, *, causal: bool = False, batch: int = 1, heads: tuple[int, int] = (1, 1),
    head_dim: int = 64, dtype: str = FP16,
) -> Case:  # fmt: skip
    import torch

    def normal(rows: int, count: int) -> "Tensor":
        return torch.randn(batch, rows, count, head_dim, generator=draw).to(getattr(torch, dtype))

    q, k, v = normal(q_len, heads[0]), normal(kv_len, heads[1]), normal(kv_len, heads[1])
    return {"name": f"{name} in {dtype}, head_dim {head_dim}", "q": q, "k": k, "v": v, "causal": causal}


def length_cases(seed: int) -> list[Case]:
    """Without a mask: one below, on and one above 64 and 128, on either side; each batch entry and each head has its own data."""
    draw = generator(seed)
    pairs = [(65 + seed % 60, 130 + seed % 60), (1, 1), (63, 65), (64, 64), (129, 63), (1, 129)]
    cases = [_case(f"{q} queries, {k} keys", q, k, draw) for q, k in pairs]
    cases.append(_case("65 queries, 128 keys", 65, 128, draw, head_dim=128, dtype=BF16))
    cases.append(_case("2 sequences of 17 queries, 33 keys, 2 heads", 17, 33, draw, batch=2, heads=(2, 2), head_dim=128))
    return cases


def causal_cases(seed: int) -> list[Case]:
    """Square, a chunk at the end of its keys, and more queries than keys: there the first rows see nothing."""
    draw = generator(seed)
    more = 66 + seed % 60
    pairs = [(more, more), (20, 130 + seed % 60), (130 + seed % 60, 70), (1, 65), (129, 1), (65, 64)]
    cases = [_case(f"causal, {q} queries, {k} keys", q, k, draw, causal=True) for q, k in pairs]
    cases.append(_case("causal, 63 queries, 127 keys", 63, 127, draw, causal=True, head_dim=128, dtype=BF16))
    return cases


def head_cases(seed: int) -> list[Case]:
    """Each KV head's values lie around a number of its own, so that a wrong map of heads shows."""
    import torch

    draw = generator(seed)
    cases = []
    for q_heads, kv_heads, batch in ((6, 2, 1), (8, 1, 1), (4, 4, 2)):
        words = f"{q_heads} query heads, {kv_heads} KV heads"
        case = _case(words, 3 + seed % 5, 9 + seed % 5, draw, causal=True, batch=batch, heads=(q_heads, kv_heads))
        own = 1 + torch.arange(batch * kv_heads).reshape(batch, 1, kv_heads, 1)
        case["v"] = (0.25 * case["v"].float() + own).to(case["v"].dtype)
        cases.append(case)
    return cases


def score_cases(seed: int) -> list[Case]:
    """q and k of 50 and -50 in 64 dimensions: 64 * 2500 / 8 = 20,000. In the first dimension keys differ a little."""
    import torch

    draw = generator(seed)
    cases = []
    for name, sign, q_len, kv_len, causal in (
        ("one query and one key, whose score is -20,000", -1, 1, 1, False),
        ("scores near -20,000, causal", -1, 9, 9, True),
        ("scores near 20,000", 1, 9, 80 + seed % 20, False),
    ):
        case = _case(name, q_len, kv_len, draw, causal=causal)
        case["q"] = torch.full_like(case["q"], 50.0)
        case["k"] = torch.full_like(case["k"], sign * 50.0)
        case["k"][..., 0] += torch.randint(0, 4, case["k"].shape[:3], generator=draw) * 0.25
        cases.append(case)
    falling = _case("scores that fall by 3 with each key", 20, 150, draw)
    falling["q"] = falling["q"].abs()
    falling["k"] = (falling["k"].float() - 0.5 * torch.arange(150)[None, :, None, None]).to(falling["k"].dtype)
    return [*cases, falling]


def apart_cases(seed: int) -> list[Case]:
    """All three in one buffer, as one projection writes them; NaN wherever no query, key or value lies."""
    import torch

    draw = generator(seed)
    cases = []
    for name, q_len, kv_len, q_heads, kv_heads, causal, head_major in (
        ("q, k and v side by side in one buffer, causal", 40 + seed % 9, 70 + seed % 20, 2, 1, True, False),
        ("a head behind the other, in one buffer", 35, 100 + seed % 20, 1, 1, False, True),
    ):
        heads = q_heads + 2 * kv_heads
        buffer = torch.full((2, kv_len + 200, heads, 64), POISON)
        known = [(q_len, 0, q_heads), (kv_len, q_heads, 2 * kv_heads)]
        for rows, first, count in known:
            buffer[:, :rows, first : first + count] = torch.randn(2, rows, count, 64, generator=draw)
        buffer = buffer.half()
        cases.append({
            "name": name, "buffer": buffer.transpose(1, 2).contiguous() if head_major else buffer, "head_major": head_major,
            "q_len": q_len, "kv_len": kv_len, "q_heads": q_heads, "kv_heads": kv_heads, "causal": causal,
        })  # fmt: skip
    return [*cases, _values_elsewhere(draw, seed)]


def _values_elsewhere(draw: Any, seed: int) -> Case:
    """v lies in a buffer of its own and in another order than k, its heads so far apart that k's strides stay inside of it."""
    import torch

    q_len, kv_len, q_heads, kv_heads = 20, 33 + seed % 9, 2, 2
    shape = 2, kv_len + 8, q_heads + kv_heads, 64
    buffer, values = torch.full(shape, POISON), torch.full((2, shape[2], shape[1], 64), POISON)
    buffer[:, :q_len, :q_heads] = torch.randn(2, q_len, q_heads, 64, generator=draw)
    buffer[:, :kv_len, q_heads:] = torch.randn(2, kv_len, kv_heads, 64, generator=draw)
    values[:, :: q_heads + kv_heads - 1, :kv_len] = torch.randn(2, kv_heads, kv_len, 64, generator=draw)
    return {
        "name": "v lies elsewhere, and in another order than k", "buffer": buffer.half(), "values": values.half(),
        "head_major": False, "q_len": q_len, "kv_len": kv_len, "q_heads": q_heads, "kv_heads": kv_heads, "causal": False,
    }  # fmt: skip


def traffic_cases(seed: int) -> list[Case]:
    draw = generator(seed)
    length = 390 + seed % 58
    return [
        _case(f"causal, {length} queries and keys", length, length, draw, causal=True),
        _case("200 queries, 330 keys", 200, 330, draw),
    ]


def compile_cases(seed: int) -> list[Case]:
    """Strides are multiples of 16 elements, of which the compiler makes wide loads; lengths are not."""
    draw = generator(seed)
    return [_case("causal, 100 queries, 130 keys", 100, 130, draw, causal=True, heads=(2, 1), head_dim=128, dtype=BF16)]


def device_cases(seed: int) -> list[Case]:
    small = _case("4 x 4096 tokens, 16 heads, causal", 129, 129, generator(seed), causal=True, head_dim=128, dtype=BF16)
    return [{**small, "sheet": data_sheets("bf16_tflops"), "seed": seed % 2**31}]
