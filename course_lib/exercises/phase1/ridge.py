"""Exercise 1.1, ridge points: what is asked, fresh cases for it, and how an answer is judged."""

from typing import Any

from ...grading.criteria import Case, Correct, Timed
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake

# float64 rounds at 1e-16; a table computed in float32 and cast afterwards is off by 6e-8 and must not pass
RTOL = 1e-10


def _expected(case: Case) -> Any:
    from ...roofline import ridge_points

    return ridge_points(case["peak_tflops"], case["hbm_gb_per_s"])


def _check_ridge(case: Case, output: Any) -> Mistake | None:
    from ...grading.compare import compare_tensor

    return compare_tensor(output, _expected(case), rtol=RTOL)


def _sheet_cases(seed: int) -> list[Case]:
    """The course's data sheet, rows and columns shuffled; only GPUs that have both precisions."""
    import torch

    from ...hardware import all_specs

    draw = torch.Generator().manual_seed(seed)
    gpus = [gpu for gpu in all_specs().values() if gpu.bf16_tflops and gpu.fp8_tflops]
    order = torch.randperm(len(gpus), generator=draw).tolist()
    columns = torch.randperm(2, generator=draw).tolist()
    peaks = [[(gpus[i].bf16_tflops, gpus[i].fp8_tflops)[c] for c in columns] for i in order]
    bandwidth = [gpus[i].hbm_gb_per_s for i in order]
    table = {"peak_tflops": torch.tensor(peaks, dtype=torch.float64)}
    return [{"name": "data sheet", **table, "hbm_gb_per_s": torch.tensor(bandwidth, dtype=torch.float64)}]


def _random_case(name: str, gpus: int, precisions: int, draw: Any, dtype: Any = None, **more: Any) -> Case:
    import torch

    peaks = 10 + 5000 * torch.rand(gpus, precisions, generator=draw, dtype=torch.float64)
    bandwidth = 100 + 9000 * torch.rand(gpus, generator=draw, dtype=torch.float64)
    dtype = dtype or torch.float64
    return {"name": name, "peak_tflops": peaks.to(dtype), "hbm_gb_per_s": bandwidth.to(dtype), **more}


def _table_cases(seed: int) -> list[Case]:
    """Awkward tables: one row, one column, square (where a missing [:, None] goes unnoticed by shape), strided, float32."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    return [
        _random_case("one GPU, one precision", 1, 1, draw),
        _random_case("as many precisions as GPUs", 3, 3, draw),
        _random_case("seven GPUs, five precisions", 7, 5, draw),
        _random_case("a slice of a larger table", 33, 2, draw, strided=True),
        _random_case("float32 inputs", 5, 3, draw, torch.float32),
    ]


def _missing_cases(seed: int) -> list[Case]:
    """Some GPUs lack a precision; one lacks them all."""
    import torch

    draw = torch.Generator().manual_seed(seed)
    case = _random_case("GPUs that lack a precision", 6, 4, draw)
    holes = torch.rand(6, 4, generator=draw) < 0.4
    holes[2], holes[4], holes[0, 0], holes[0, 1] = True, False, True, False
    case["peak_tflops"][holes] = float("nan")
    return [case]


def _device_cases(seed: int) -> list[Case]:
    import torch

    from ...hardware import all_specs

    case = _random_case("this device", 2, 2, torch.Generator().manual_seed(seed))
    sheet = [
        {
            "names": list(gpu.names),
            "precision": gpu.half_precision,
            "peak_tflops": gpu.half_tflops,
            "hbm_gb_per_s": gpu.hbm_gb_per_s,
        }
        for gpu in all_specs().values()
    ]
    return [case | {"sheet": sheet}]


def _confirm_device(case: Case, evidence: Any) -> Mistake | None:
    import torch

    from ...grading.compare import compare_tensor
    from ...roofline import ridge_points

    measured = [[evidence["tflops"]]], [evidence["copy_gb_per_s"]]
    expected = ridge_points(*(torch.tensor(values, dtype=torch.float64) for values in measured))
    return compare_tensor(evidence["ridge"], expected, rtol=RTOL)


RIDGE_POINTS = Exercise(
    id="1.1",
    title="Ridge points",
    entry="ridge_points",
    params=("peak_tflops", "hbm_gb_per_s"),
    returns="[gpus, precisions] float64, FLOP per byte",
    runner="phase1_ridge",
    criteria=(
        Correct(
            name="data sheet",
            claim="the ridge points of the data sheet, in FLOP per byte",
            points=2.0,
            cases=_sheet_cases,
            check=_check_ridge,
            run="ridge_points",
        ),
        Correct(
            name="any table",
            claim="right for tables of any shape, layout and input precision",
            points=1.0,
            cases=_table_cases,
            check=_check_ridge,
            run="ridge_points",
        ),
        Correct(
            name="missing precision",
            claim="what a GPU cannot do stays NaN, and only that",
            points=1.0,
            cases=_missing_cases,
            check=_check_ridge,
            run="ridge_points",
        ),
        Timed(
            name="this device",
            claim="the ridge of this device, from a product and a copy measured on it",
            points=1.0,
            cases=_device_cases,
            check=_check_ridge,
            run="ridge_points",
            observe="ridge_of_this_device",
            confirm=_confirm_device,
            bar=0.0,  # measured roofs are shown beside the sheet's, with their spread; how high they are earns nothing
        ),
    ),
)
