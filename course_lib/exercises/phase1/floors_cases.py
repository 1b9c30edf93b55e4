"""Cases of exercise 1.6: tables of configurations, random ones for the floors, and ones around every edge of the decision."""

from typing import Any

from ...grading.criteria import Case

TARGET_MS = 40.0
NAN = float("nan")

# Rows whose decode floor is 40 ms, as (GB moved, GB/s), chosen so that rounding does not decide: multiplying by a reciprocal
# instead of dividing, or by 1e3 before or after, each of the 32 orders that were tried gives 40.0 exactly. (80, 2000) does not:
# 80e9 * (1e-9 / 2000) * 1e3 is 40.00000000000001.
ON_TARGET = ((64.0, 1600.0), (128.0, 3200.0), (300.0, 7500.0))


def _draw(low: float, high: float, rows: int, draw: Any) -> Any:
    """[rows] float64, as likely in one decade as in the next."""
    import torch

    return low * (high / low) ** torch.rand(rows, generator=draw, dtype=torch.float64)


def _random_case(name: str, ranks: list[int], draw: Any) -> Case:
    """Steps on both sides of the ridge, messages on both sides of where the wire takes longer than the start; some do not fit."""
    import torch

    rows = len(ranks)
    bandwidth, peak = _draw(300, 8000, rows, draw), _draw(60, 4500, rows, draw)
    ridge = peak * 1e3 / bandwidth

    def step(low_ratio: float, high_ratio: float, low_message: float, high_message: float) -> dict[str, Any]:
        moved = _draw(1e9, 4e11, rows, draw)
        intensity = ridge * _draw(low_ratio, high_ratio, rows, draw)
        return {"flops": moved * intensity, "bytes": moved, "allreduce_bytes": _draw(low_message, high_message, rows, draw)}

    layers = torch.randint(8, 130, (rows,), generator=draw).double()
    model = {"layers": layers, "resident_bytes": _draw(1e10, 1e12, rows, draw)}
    model |= {"prefill": step(0.03, 30, 1e6, 5e8), "decode": step(0.003, 3, 1e4, 1e7)}
    gpu = {"peak_tflops": peak, "hbm_gb_per_s": bandwidth, "hbm_gb": _draw(16, 200, rows, draw)}
    gpu |= {"link_gb_per_s": _draw(25, 900, rows, draw), "alpha_us": _draw(3, 30, rows, draw)}
    return {"name": name, "model": model, "gpu": gpu, "ranks": torch.tensor(ranks).double(), "itl_target_ms": TARGET_MS}


def one_gpu_cases(seed: int) -> list[Case]:
    import torch

    draw = torch.Generator().manual_seed(seed)
    lacking = _random_case("GPUs that lack the precision", [1] * 5, draw)
    lacking["gpu"]["peak_tflops"][[0, 3]] = NAN
    many = _random_case("either side of the ridge", [1] * 12, draw)
    return [many, _random_case("one configuration", [1], draw), lacking]


def several_ranks_cases(seed: int) -> list[Case]:
    import torch

    draw = torch.Generator().manual_seed(seed)
    several = [2, 8, 4, 2, 4, 8, 3, 6]
    mixed = [1, 2, 4, 8, 1, 6, 3, 16]
    lacking = _random_case("GPUs that lack the precision", [2, 4, 8], draw)
    lacking["gpu"]["peak_tflops"][[0, 2]] = NAN
    return [_random_case("several ranks", several, draw), _random_case("one rank among several", mixed, draw), lacking]


def _decision_row(target: float, share: float, draw: Any, **more: float) -> dict[str, float]:
    """A row that fits easily, whose decode is memory-bound and takes `share` of the target; its prefill takes far longer."""
    bandwidth = float(_draw(1000, 8000, 1, draw))
    ranks = more.get("ranks", 1)
    row = {"ranks": ranks, "layers": 40, "resident_gb": 20.0 * ranks, "hbm_gb": 80.0, "link_gb_per_s": 450.0, "alpha_us": 5.0}
    row |= {"peak_tflops": 1000.0, "hbm_gb_per_s": bandwidth, "decode_gb": share * target * bandwidth * ranks / 1e3}
    row |= {"decode_tflop": 0.02 * target * ranks, "message": 1e4}
    return row | more


def _decision_case(name: str, rows: list[dict[str, float]], target: float, draw: Any) -> Case:
    import torch

    order = torch.randperm(len(rows), generator=draw).tolist()

    def column(key: str, factor: float = 1.0) -> Any:
        return torch.tensor([rows[i][key] * factor for i in order], dtype=torch.float64)

    message = column("message")
    decode = {"flops": column("decode_tflop", 1e12), "bytes": column("decode_gb", 1e9), "allreduce_bytes": message}
    prefill = {"flops": column("decode_gb", 1e14), "bytes": column("decode_gb", 1e10), "allreduce_bytes": 64 * message}
    model = {"layers": column("layers"), "resident_bytes": column("resident_gb", 1e9)}
    gpu = {key: column(key) for key in ("peak_tflops", "hbm_gb_per_s", "hbm_gb", "link_gb_per_s", "alpha_us")}
    model |= {"prefill": prefill, "decode": decode}
    return {"name": name, "model": model, "gpu": gpu, "ranks": column("ranks"), "itl_target_ms": target}


def target_cases(seed: int) -> list[Case]:
    """All fit. Both sides of the target, exactly on it, over it by the all-reduces alone or by arithmetic alone, or unknown."""
    import torch

    draw = torch.Generator().manual_seed(seed)

    def row(share: float, target: float = TARGET_MS, **more: float) -> dict[str, float]:
        return _decision_row(target, share, draw, **more)

    edges = [row(1.0, decode_gb=gb, hbm_gb_per_s=rate) for gb, rate in ON_TARGET]
    edges += [row(1.0 + 1e-4), row(1.0 - 1e-4), row(0.2), row(3.0)]
    waiting = {"layers": 80, "alpha_us": 50.0, "message": 0.0}  # 160 all-reduces of 50 us: 8 ms, a fifth of 40 ms
    split = [row(0.95, ranks=8, **waiting), row(0.5, ranks=8, **waiting), row(0.5, ranks=4)]
    busy = [row(0.1, decode_tflop=1.5 * TARGET_MS), row(0.1, decode_tflop=0.7 * TARGET_MS)]
    unknown = row(0.2, peak_tflops=NAN)
    other = float(_draw(5, 20, 1, draw))
    others = [row(share, other) for share in (0.3, 0.99, 1.01, 2.0)]
    return [
        _decision_case("around 40 ms", edges, TARGET_MS, draw),
        _decision_case("several ranks, and arithmetic", split + busy, TARGET_MS, draw),
        _decision_case("a GPU that lacks the precision", [unknown, row(0.2)], TARGET_MS, draw),
        _decision_case("another target", others, other, draw),
    ]


def memory_cases(seed: int) -> list[Case]:
    """Both sides of the capacity, and exactly at it, all fast enough; then too large ones that have another fault as well."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    rows = [
        _decision_row(TARGET_MS, 0.3, draw, ranks=ranks, hbm_gb=gb, resident_gb=gb * ranks * filled)
        for ranks, gb in ((1, 80.0), (2, 80.0), (4, 24.0), (8, 192.0))
        for filled in (0.2, 1.0, 1.0 + 1e-4, 1.0 - 1e-4, 1.5)
    ]
    small = {"hbm_gb": 80.0, "resident_gb": 120.0}
    faults = [_decision_row(TARGET_MS, 2.0, draw, **small), _decision_row(TARGET_MS, 0.3, draw, peak_tflops=NAN, **small)]
    return [
        _decision_case("around the capacity", rows, TARGET_MS, draw),
        _decision_case(
            "too large, and too slow or without the precision", [*faults, _decision_row(TARGET_MS, 0.3, draw)], TARGET_MS, draw
        ),
    ]
