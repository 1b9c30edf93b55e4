"""Small courses for tests, which stay as they are while the real one grows: exercise 1.1, and 1.2 beside it.

1.2 is made up: its kernel must also compile, and no evidence is gathered that it does. `planted(...)` makes the registry hold
only the exercises given, in this process, for the length of a block; `write_course` builds a repository with their lab.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from course_lib.course.build import build
from course_lib.exercises import phase1, registry
from course_lib.grading.criteria import Compiled

RIDGE = phase1.RIDGE_POINTS
ANY_TABLE = RIDGE.criteria[1]
SCALED = dataclasses.replace(
    RIDGE,
    id="1.2",
    title="Scaled",
    entry="scaled",
    criteria=(
        dataclasses.replace(ANY_TABLE, points=2.0),
        Compiled(
            name="compiles", claim="the kernel compiles for an H100", points=3.0, targets=("sm_90",),
            cases=ANY_TABLE.cases, check=ANY_TABLE.check, run=ANY_TABLE.run,
        ),
    ),
)  # fmt: skip

NAME = "phase1_roofline"
SETUP = '# %% [markdown]\n# # A small course\n\n# %% grade_id="setup"\nfrom course_lib import lab\nimport torch\n'
FIRST = '''
# %% grade_id="ex-1-1"
def ridge_points(peak_tflops: torch.Tensor, hbm_gb_per_s: torch.Tensor):
    """FLOP per byte."""
    ### BEGIN SOLUTION
    flops_per_second = peak_tflops.double() * 1e12
    return flops_per_second / (hbm_gb_per_s.double()[:, None] * 1e9)
    ### END SOLUTION

# %% grade_id="ex-1-1-check"
lab.check("1.1", ridge_points)

# %% grade_id="ex-1-1-timed"
lab.check_timed("1.1", ridge_points)
'''
SECOND = '''
# %%
class triton:
    """Stands in for the real one: a decorator that leaves a function as it is."""

    def jit(function):
        return function

# %% grade_id="ex-1-2"
@triton.jit
def scaled_kernel(peaks, bandwidths):
    """The body that a device would run."""
    ### BEGIN SOLUTION
    return peaks.double() * 1e3 / bandwidths.double()
    ### END SOLUTION


def scaled(peak_tflops, hbm_gb_per_s):
    """The host function that launches it."""
    ### BEGIN SOLUTION
    return scaled_kernel(peak_tflops, hbm_gb_per_s[:, None])
    ### END SOLUTION

# %% grade_id="ex-1-2-check"
lab.check("1.2", scaled)
'''


@contextmanager
def planted(*exercises, seconds: float = 30.0) -> Iterator[None]:
    """The course has these exercises; `seconds` is the time limit of each when it is judged in a child process."""
    real = phase1.EXERCISES
    try:
        phase1.EXERCISES = tuple(dataclasses.replace(e, seconds=seconds) for e in exercises or (RIDGE,))
        _forget()
        yield
    finally:
        phase1.EXERCISES = real
        _forget()


def _forget() -> None:
    registry.exercises_of.cache_clear()
    registry.all_exercises.cache_clear()


def write_script(root: Path, text: str) -> Path:
    """solutions/phase1_roofline.py of a repository at `root`."""
    path = root / "solutions" / f"{NAME}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def write_course(root: Path, text: str = SETUP + FIRST, change: Callable[[str], str] = lambda text: text) -> Path:
    """Build a lab from a script, inside of `planted(...)` -> the root, a repository as far as grading needs one."""
    write_script(root, change(text))
    build(root)
    return root


def solved(root: Path) -> Path:
    return root / "solutions" / NAME / f"{NAME}.ipynb"


def released(root: Path) -> Path:
    return root / "labs" / NAME / f"{NAME}.ipynb"
