"""Two exercises that are judged from launches: a matrix product, and the copy of exercise 1.4, into a buffer of the judge's."""

import torch

from course_lib.exercises.phase1.copy_traffic import counted_copy
from course_lib.grading.compare import compare_tensor
from course_lib.grading.criteria import Compiled, Correct, Counted
from course_lib.grading.exercise import Exercise

TARGET = "sm_90"


def matmul_cases(seed):
    draw = torch.Generator().manual_seed(seed)
    sizes = [("awkward", 19, 24, 17, False), ("strided", 20, 16, 16, True), ("no rows", 0, 16, 16, False)]
    return [
        {
            "name": name, "strided": strided,
            "a": torch.randn(m, k, generator=draw).half(), "b": torch.randn(k, n, generator=draw).half(),
        }
        for name, m, k, n, strided in sizes
    ]  # fmt: skip


def check_matmul(case, output):
    # products of fp16 are exact in fp32; sums of up to 24 of them round by less than 24 * 2**-24
    return compare_tensor(output, (case["a"].double() @ case["b"].double()).float(), rtol=1e-5, atol=1e-4)


def matmul_bounds(case):
    """A tile of 16 x 16 outputs loads 16 rows of a and 16 columns of b once."""
    (m, k), n = case["a"].shape, case["b"].shape[1]
    tiles = -(-m // 16) * -(-n // 16)
    return {"loaded_bytes": tiles * 2 * 16 * k * 2, "stored_bytes": m * n * 4}


SHARED = {"cases": matmul_cases, "check": check_matmul, "run": "matmul", "launches": True}
MATMUL = Exercise(
    id="1.98",
    title="A tiled product",
    entry="matmul",
    params=("a", "b"),
    returns="a @ b in float32",
    runner="launch_runner",
    may_import=frozenset({"torch", "triton"}),
    criteria=(
        Correct(name="right", claim="equals the product", points=2, **SHARED),
        Counted(name="traffic", claim="loads each tile once", points=2, bounds=matmul_bounds, **SHARED),
        Compiled(
            name="tensor cores", claim="compiles for an H100", points=1, targets=(TARGET,), tensor_cores=True,
            **SHARED | {"cases": lambda seed: matmul_cases(seed)[:1]},
        ),
    ),
)  # fmt: skip
COPY = Exercise(
    id="1.99",
    title="A copy",
    entry="copy_into",
    params=("x", "out"),
    returns="out, holding x",
    runner="launch_runner",
    may_import=frozenset({"torch", "triton"}),
    criteria=(counted_copy(points=2),),
)
