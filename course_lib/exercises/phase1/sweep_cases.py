"""Cases of exercise 1.5: curves as a device shows them, steps of many kernels, context limits, and stacks to be measured."""

import dataclasses
from typing import Any

from ...grading.criteria import Case

TIMED_BATCHES, TIMED_CONTEXT = (1, 4, 16, 64), 2048
TIMED_LAYERS = (32, 16, 8, 4)  # the first that fits is measured
WORKSPACE_BYTES = 5e9  # beside weights and KV: logits, activations, what cuDNN wants; the curves' pools are gone by then
SHAPE = ("layers", "hidden", "mlp_hidden", "heads", "kv_heads", "head_dim", "vocab")
GROUPS = (1.0, 4.0, 8.0, 16.0)


def _draw(low: float, high: float, shape: Any, draw: Any) -> Any:
    """float64, as likely in one decade as in the next."""
    import torch

    return low * (high / low) ** torch.rand(shape, generator=draw, dtype=torch.float64)


def _curve(points: int, draw: Any) -> dict[str, Any]:
    """Ascending sizes at uneven distances; a start, then bytes over a rate, with a few percent of noise, as a measurement has."""
    import torch

    steps = 1.6 + 2.4 * torch.rand(points, generator=draw, dtype=torch.float64)
    sizes = 4096 * torch.cumprod(steps, 0)
    start, rate = float(_draw(1.5e-6, 6e-6, (), draw)), float(_draw(3e11, 7e12, (), draw))
    noise = 0.97 + 0.06 * torch.rand(points, generator=draw, dtype=torch.float64)
    return {"bytes": sizes, "seconds": (start + sizes / rate) * noise}


def _limits(models: int, draw: Any) -> dict[str, Any]:
    """Models and ridge points; the ridge lies above the group in all of them."""
    import torch

    group = torch.tensor(GROUPS, dtype=torch.float64)[torch.randint(len(GROUPS), (models,), generator=draw)]
    return {
        "weights": _draw(1e9, 4e11, models, draw),
        "kv_bytes": _draw(8e3, 3e6, models, draw),
        "group": group,
        "ridge": group + _draw(20, 800, models, draw),
    }


def _curves(points: int, draw: Any) -> dict[str, Any]:
    """Those of reads and of products, at sizes of their own."""
    return {"read": _curve(points, draw), "product": _curve(points, draw)}


def _case(name: str, kernels: dict[str, Any], curves: dict[str, Any], draw: Any, **more: Any) -> Case:
    peak_tflops = float(_draw(60, 2500, (), draw))
    return {"name": name, "kernels": kernels, "curves": curves, "peak_tflops": peak_tflops, "limits": _limits(3, draw), **more}


def _alone(sizes: Any, is_product: bool, draw: Any) -> dict[str, Any]:
    """One call of one kernel in every step, with next to no arithmetic."""
    import torch

    moved = sizes[:, None]
    batch = torch.randint(1, 257, (len(sizes),), generator=draw).double()
    kind = torch.tensor([is_product])
    return {"batch": batch, "flops": 1.0 + 1e-3 * moved, "bytes": moved, "count": torch.ones_like(moved), "is_product": kind}


def _inside(sizes: Any, draw: Any) -> Any:
    """A size between each point and the next, in any order."""
    import torch

    gaps = len(sizes) - 1
    share = 0.1 + 0.8 * torch.rand(gaps, generator=draw, dtype=torch.float64)
    return (sizes[:-1] * (sizes[1:] / sizes[:-1]) ** share)[torch.randperm(gaps, generator=draw)]


def curve_cases(seed: int) -> list[Case]:
    """A kernel at a time: between the points, on them, below the first and beyond the last; of either kind."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    between, products, on, below, beyond, single = (_curves(points, draw) for points in (9, 9, 6, 5, 5, 1))
    small = torch.cat([below["read"]["bytes"][:1] * torch.tensor([0.5, 0.01, 1.0]).double(), torch.zeros(1).double()])
    large = beyond["product"]["bytes"][-1] * torch.tensor([1.0, 2.0, 30.0]).double()
    around = single["read"]["bytes"][0] * torch.tensor([0.3, 1.0, 7.0]).double()
    inside, weights = _inside(between["read"]["bytes"], draw), _inside(products["product"]["bytes"], draw)
    return [
        _case("sizes between the points", _alone(inside, False, draw), between, draw),
        _case("products, sizes between the points", _alone(weights, True, draw), products, draw),
        _case("sizes of the points", _alone(on["read"]["bytes"].clone(), False, draw), on, draw),
        _case("sizes below the first point, and nothing", _alone(small, False, draw), below, draw),
        _case("products, sizes beyond the last point", _alone(large, True, draw), beyond, draw),
        _case("a curve of one point", _alone(around, False, draw), single, draw),
    ]


def _steps(batches: int, kernels: int, draw: Any, curves: dict[str, Any], low: float, high: float) -> dict[str, Any]:
    """Steps of several kernels of all sizes and both kinds; low, high: FLOP per byte."""
    import torch

    sizes = torch.cat([curve["bytes"] for curve in curves.values()])
    moved = _draw(float(sizes.min()) / 30, 10 * float(sizes.max()), (batches, kernels), draw)
    batch = torch.cumsum(torch.randint(1, 9, (batches,), generator=draw), 0).double()
    count = torch.randint(1, 81, (batches, kernels), generator=draw).double()
    flops = moved * _draw(low, high, (batches, kernels), draw)
    kind = (torch.arange(kernels) % 2 == 0)[torch.randperm(kernels, generator=draw)]
    return {"batch": batch, "flops": flops, "bytes": moved, "count": count, "is_product": kind}


def step_cases(seed: int) -> list[Case]:
    """Many kernels, called many times; some wait for memory, some for arithmetic, and totals hide it."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    many, both, two, one = (_curves(points, draw) for points in (12, 12, 12, 7))
    read = two["read"]
    tflops, rate = 800.0, float(read["bytes"][-1] / read["seconds"][-1])
    busy = float(read["bytes"][-1])  # one kernel of pure arithmetic beside one of pure memory, of about as many seconds
    split = {
        "batch": torch.tensor([7.0, 9.0]).double(),
        "flops": torch.tensor([[busy / rate * tflops * 1e12, 0.0], [0.0, busy / rate * tflops * 1.2e12]]).double(),
        "bytes": torch.tensor([[4096.0, busy], [1.3 * busy, 8192.0]]).double(),
        "count": torch.tensor([[3.0, 2.0], [1.0, 5.0]]).double(),
        "is_product": torch.tensor([False, True]),
    }
    return [
        _case("small and large kernels", _steps(5, 8, draw, many, 0.5, 50), many, draw),
        _case("kernels on both sides of the ridge", _steps(5, 6, draw, both, 1, 10000), both, draw),
        _case("one kernel waits for arithmetic, one for memory", split, two, draw, peak_tflops=tflops),
        _case("one batch", _steps(1, 5, draw, one, 1, 2000), one, draw),
    ]


def total_cases(seed: int) -> list[Case]:
    """Those of step_cases whose totals have both kinds of kernels in them, and one where only the rate of the last read is right.

    There every step waits for memory, a smaller read is faster than the last one, and the products end at twice its rate.
    """
    import torch

    draw = torch.Generator().manual_seed(seed + 1)
    curves = _curves(8, draw)
    read, product = curves["read"], curves["product"]
    rate = 0.8 * float((read["bytes"] / read["seconds"])[:-1].max())
    read["seconds"][-1] = read["bytes"][-1] / rate
    product["seconds"][-1] = product["bytes"][-1] / (2 * rate)
    slow = _case("the fastest read is not the last", _steps(4, 5, draw, curves, 0.001, 0.01), curves, draw)
    return [*step_cases(seed)[1:3], slow]


def token_cases(seed: int) -> list[Case]:
    return step_cases(seed)[:1]


def limit_cases(seed: int) -> list[Case]:
    """Published models on the data sheet; any models; ridges at, just above and below what attention itself reaches."""
    import torch

    from ...hardware import spec
    from ...roofline import LLAMA_3_8B, LLAMA_3_70B

    draw = torch.Generator().manual_seed(seed)
    pairs = [(m, spec(key)) for m in (LLAMA_3_8B, LLAMA_3_70B) for key in ("h100-sxm", "h200-sxm", "a100-sxm-80gb")]
    order = torch.randperm(len(pairs), generator=draw).tolist()
    pairs = [pairs[i] for i in order]
    sheet = {
        "weights": [m.linear_params + m.head_params for m, _ in pairs],
        "kv_bytes": [m.kv_bytes_per_token() for m, _ in pairs],
        "group": [m.heads / m.kv_heads for m, _ in pairs],
        "ridge": [gpu.bf16_tflops * 1e3 / gpu.hbm_gb_per_s for _, gpu in pairs],
    }
    published = {name: torch.tensor(values, dtype=torch.float64) for name, values in sheet.items()}
    edge = _limits(6, draw)
    edge["group"] = torch.tensor([8.0, 8.0, 16.0, 242.0, 4.0, 128.0]).double()
    edge["ridge"] = torch.tensor([8.0, 8.25, 5.5, 206.125, 295.0, 128.5]).double()
    shuffled = torch.randperm(6, generator=draw)
    edge = {name: values[shuffled] for name, values in edge.items()}
    curves = _curves(6, draw)
    tables = [("models and GPUs of the data sheet", published), ("any models", _limits(7, draw))]
    tables.append(("a ridge at, above and below what attention reaches", edge))
    return [_case(name, _steps(2, 3, draw, curves, 0.5, 50), curves, draw) | {"limits": limits} for name, limits in tables]


def device_cases(seed: int) -> list[Case]:
    """One ordinary sweep, and decode stacks of an 8B model's layers for the device: the first that fits is measured."""
    import torch

    from ...roofline import LLAMA_3_8B, resident_bytes

    draw = torch.Generator().manual_seed(seed)
    curves = _curves(8, draw)
    most = max(TIMED_BATCHES) * (TIMED_CONTEXT + 1)
    stacks = []
    for layers in TIMED_LAYERS:
        model = dataclasses.replace(LLAMA_3_8B, layers=layers)
        needs_bytes = resident_bytes(model, most) + WORKSPACE_BYTES
        stacks.append(
            {"layers": layers, "needs_bytes": needs_bytes, "kernels": stack_kernels(model, TIMED_BATCHES, TIMED_CONTEXT)}
        )
    shape = {name: int(getattr(LLAMA_3_8B, name)) for name in SHAPE}
    more = {"stacks": stacks, "model": shape, "batches": list(TIMED_BATCHES), "context": TIMED_CONTEXT}
    return [_case("this device", _steps(4, 6, draw, curves, 0.5, 500), curves, draw, **more)]


def stack_kernels(model: Any, batches: Any, context: int) -> dict[str, Any]:
    """The kernels of a decode step as tables: batch [batches]; flops, bytes, count [batches, kernels]; is_product [kernels]."""
    import torch

    from ...roofline.kernels import decode_kernels

    steps = [decode_kernels(model, batch, context) for batch in batches]
    fields = {"flops": "flops", "bytes": "bytes_moved", "count": "count"}
    tables = {key: [[float(getattr(k, field)) for k in step] for step in steps] for key, field in fields.items()}
    tables["batch"] = [float(batch) for batch in batches]
    made = {name: torch.tensor(values, dtype=torch.float64) for name, values in tables.items()}
    return made | {"is_product": torch.tensor([k.is_product for k in steps[0]])}
