"""Cases of exercise 2.2: rows around a block's length, masked keys, scores of any size, rows that lie apart; and the oracle."""

from typing import TYPE_CHECKING, Any

from ...grading.criteria import Case
from ..kernel_cases import data_sheets, generator

if TYPE_CHECKING:
    from torch import Tensor

EMPTY = float("-inf")
POISON = float("nan")
COUNTED_AGAIN = 1.05  # parts of a row that meet in the end, and what they weigh
LONG, RISE = 2048, 4.0  # scores of long rows rise, so that a later block brings a larger one
RESULT_BYTES = 8  # out and lse of a row, float32


def expected(case: Case) -> tuple["Tensor", "Tensor"]:
    """(out, lse) in double precision. The value of a key that no row sees counts as 0, whatever it holds."""
    import torch

    from ...attention.online_softmax import finish, partial

    scores, values = case["scores"].double(), case["values"].double()
    if "keys" in case:
        scores = scores[:, : case["keys"]]
    seen = (scores > EMPTY).any(0)
    out, lse = finish(partial(scores, torch.where(seen, values, 0.0)[:, None]))
    return out[:, 0], lse


def _case(name: str, rows: int, keys: int, draw: Any, dtypes: tuple[Any, Any], *, spread: float = 3.0) -> Case:
    import torch

    scores = spread * torch.randn(rows, keys, generator=draw)
    if keys > LONG:
        scores += RISE * torch.linspace(0, 1, keys)
    return {"name": name, "scores": scores.to(dtypes[0]), "values": torch.randn(keys, generator=draw).to(dtypes[1])}


def row_cases(seed: int) -> list[Case]:
    """Lengths of 1 and around 1024 and 2048, in three dtypes. Many short rows: their results are more than a kernel is told."""
    import torch

    draw = generator(seed)
    fp32, fp16, bf16 = torch.float32, torch.float16, torch.bfloat16
    long, rows = 3000 + seed % 2000, 3 + seed % 3
    falling = _case("the largest score comes first", 2, 2500, draw, (fp32, fp32))
    falling["scores"] = falling["scores"].sort(dim=1, descending=True).values
    return [
        _case(f"{rows} rows of {long} keys in float32", rows, long, draw, (fp32, fp32)),
        falling,
        _case("1 key", 3, 1, draw, (fp32, fp32)),
        _case("1023 keys in float16", 2, 1023, draw, (fp16, fp16)),
        _case("1024 keys in bfloat16", 2, 1024, draw, (bf16, bf16)),
        _case("1025 keys in bfloat16, values in float32", 1, 1025, draw, (bf16, fp32)),
        _case("2049 keys in float32, values in float16", 1, 2049, draw, (fp32, fp16)),
        _case("520 rows of 7 keys", 520, 7, draw, (fp32, fp32)),
    ]


def masked_cases(seed: int) -> list[Case]:
    """Scores of -inf: some, whole blocks at either end of a row, whole rows; values that nobody wrote where no row looks."""
    import torch

    draw = generator(seed)
    ends = _case("keys masked at the start, at the end, and everywhere", 4, 4600, draw, (torch.float32, torch.float32))
    ends["scores"][0, : 4100 + seed % 400] = EMPTY
    ends["scores"][1, 40 + seed % 60 :] = EMPTY
    ends["scores"][2] = EMPTY
    some = _case("every other key or so masked, in float16", 3, 1500, draw, (torch.float16, torch.float16))
    some["scores"][torch.rand(3, 1500, generator=draw) < 0.5] = EMPTY
    some["scores"][:, 700:1000] = EMPTY
    unwritten = {**some, "name": "values that nobody wrote, at keys that no row sees", "values": some["values"].clone()}
    unwritten["values"][700:1000] = POISON
    return [ends, some, unwritten]


def large_cases(seed: int) -> list[Case]:
    """Scores of thousands, up and down, and far down in each dtype that holds them. exp(89) is the last that float32 can hold."""
    import torch

    draw = generator(seed)
    cases = []
    for shift in (10_000, -10_000):
        case = _case(f"scores near {shift:,}", 2, 1200, draw, (torch.float32, torch.float32))
        case["scores"] += shift
        cases.append(case)
    for shift, spread, dtype in (
        (-20_000, 3, torch.float32),
        (-200_000, 3, torch.float32),
        (-20_000, 50, torch.float16),
        (-200_000, 3000, torch.bfloat16),
    ):
        case = _case(f"scores near {shift:,}, in {str(dtype)[6:]}", 2, 50, draw, (torch.float32, dtype), spread=spread)
        case["scores"] = (case["scores"] + shift).to(dtype)
        cases.append(case)
    return [*cases, _case("scores hundreds apart, in bfloat16", 2, 1200, draw, (torch.bfloat16, torch.bfloat16), spread=300.0)]


def apart_cases(seed: int) -> list[Case]:
    """scores is a view of the first `keys` columns of a wider buffer, whose other columns hold NaN."""
    import torch

    draw = generator(seed)
    cases = []
    for keys, wide in ((1000 + seed % 20, 1024), (1030 + seed % 900, 2049)):
        case = _case(f"rows of {keys} keys, {wide} elements apart", 3, wide, draw, (torch.float32, torch.float32))
        case["scores"][:, keys:], case["values"], case["keys"] = POISON, case["values"][:keys].clone(), keys
        cases.append(case)
    return cases


def traffic_cases(seed: int) -> list[Case]:
    """Scores are twice as wide as values, so that reading scores again shows, however rarely values are read."""
    import torch

    draw = generator(seed)
    dtypes = (torch.float32, torch.float16)
    return [
        _case("3 rows of 5000 keys", 3, 5000, draw, dtypes),
        _case("2 rows of 1025 keys", 2, 1025, draw, dtypes),
    ]


def traffic_bounds(case: Case) -> dict[str, float]:
    """Scores once, values once for each row, results once; and a twentieth on top."""
    rows, keys = case["scores"].shape
    least = rows * keys * (case["scores"].element_size() + case["values"].element_size())
    return {"loaded_bytes": COUNTED_AGAIN * least, "stored_bytes": rows * RESULT_BYTES + (COUNTED_AGAIN - 1) * least}


def compile_cases(seed: int) -> list[Case]:
    """A length of which the compiler knows that 16 divides it, so that it may use wide loads."""
    import torch

    return [_case("1 row of 98,304 keys in bfloat16", 1, 98_304, generator(seed), (torch.bfloat16, torch.bfloat16))]


def device_cases(seed: int) -> list[Case]:
    import torch

    small = _case("4096 rows of 32,768 keys in float32", 2, 1000, generator(seed), (torch.float32, torch.float32))
    return [{**small, "sheet": data_sheets("hbm_gb_per_s"), "seed": seed % 2**31}]
