"""Fresh cases for exercise 1.4: lengths around powers of two, all dtypes, buffers with neighbours, pairs to be refused."""

from typing import Any

from ...grading.criteria import Case
from ..kernel_cases import data_sheets, generator


def _filled(shape: tuple[int, ...], dtype: Any, draw: Any) -> Case:
    """x with random whole numbers, which every dtype holds exactly, and an `out` that nobody has filled yet."""
    import torch

    x = torch.randint(-100, 100, shape, generator=draw).to(dtype)
    return {"x": x, "out": torch.full(shape, poison_of(dtype), dtype=dtype)}


def poison_of(dtype: Any) -> float:
    """A value that no x holds."""
    return float("nan") if dtype.is_floating_point else -128


def value_cases(seed: int) -> list[Case]:
    import torch

    draw = generator(seed)
    long = int(torch.randint(5000, 9000, (), generator=draw))
    rows = int(torch.randint(6, 13, (), generator=draw)) * 2 + 1
    kinds = [
        (f"{long} elements", (long,), torch.bfloat16),
        ("1 element", (1,), torch.float32),
        ("1023 elements", (1023,), torch.float16),
        ("1024 elements", (1024,), torch.int8),
        ("1025 elements", (1025,), torch.float32),
        ("2048 elements", (2048,), torch.bfloat16),
        (f"a matrix of {rows} x 37", (rows, 37), torch.float16),
        ("no element", (0,), torch.float32),
    ]
    cases = [{"name": f"{name} in {str(dtype)[6:]}", **_filled(shape, dtype, draw)} for name, shape, dtype in kinds]
    special = _filled((300,), torch.float32, draw)
    special["x"][7], special["x"][100], special["x"][299] = float("inf"), float("nan"), 1e-40
    return [*cases, {"name": "inf, NaN and a subnormal number", **special}]


def neighbour_cases(seed: int) -> list[Case]:
    """Views in longer buffers. `before` of 0 and 16 elements keeps them aligned to 16 bytes, 1 and 3 do not."""
    import torch

    draw = generator(seed)
    long = int(torch.randint(2100, 3000, (), generator=draw))
    kinds = [(long, torch.float32, 16), (1, torch.bfloat16, 1), (1023, torch.int8, 3), (1025, torch.float16, 0)]
    kinds.append((1024, torch.int8, 1))
    return [
        {
            "name": f"{n} elements of {str(dtype)[6:]} from element {before} of a buffer on",
            "x": torch.randint(-100, 100, (n,), generator=draw).to(dtype),
            "before": before,
            "after": 2**13,
            "poison": poison_of(dtype),
        }
        for n, dtype, before in kinds
    ]


def refused_cases(seed: int) -> list[Case]:
    import torch

    draw = generator(seed)
    gaps = "Its elements do not lie one behind the other; tensor.is_contiguous() knows."
    pairs = [
        ("x is every second element of a vector", (200,), (100,), {"x": "every second"}, None, gaps),
        ("out is every second element of a vector", (100,), (200,), {"out": "every second"}, None, gaps),
        ("x is a transposed matrix", (9, 7), (7, 9), {"x": "transposed"}, None, gaps),
        ("out is shorter than x", (100,), (99,), {}, None, "Compare the shapes."),
        ("out is longer than x", (100,), (101,), {}, None, "Compare the shapes."),
        ("out has another dtype", (64,), (64,), {}, torch.bfloat16, "A copy converts nothing: compare the dtypes."),
    ]
    return [
        {
            "name": name, "layout": layout, "hint": hint,
            "x": torch.randn(shape, generator=draw), "out": torch.zeros(out_shape, dtype=dtype or torch.float32),
        }
        for name, shape, out_shape, layout, dtype, hint in pairs
    ]  # fmt: skip


def compile_cases(seed: int) -> list[Case]:
    """A length of which the compiler knows that 16 divides it, so that it may use wide loads."""
    import torch

    draw = generator(seed)
    return [{"name": "4096 elements of bfloat16", **_filled((4096,), torch.bfloat16, draw)}]


def device_cases(seed: int) -> list[Case]:
    import torch

    draw = generator(seed)
    small = {"name": "1 GiB of int32", **_filled((1000,), torch.int32, draw)}
    return [{**small, "sheet": data_sheets("hbm_gb_per_s"), "seed": seed % 2**31}]
