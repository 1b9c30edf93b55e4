"""The part of each exercise that runs beside the learner's code: it calls their function and gathers evidence.

A runner imports torch, triton and plain data types only, and, inside its functions, course_lib.workloads. `run(entry, case)`
returns what the function returned; `observe(entry, case)` returns evidence as plain data (see grading/criteria.py). Nothing is
judged here.
"""

from importlib import import_module, resources
from types import ModuleType


def load(name: str) -> ModuleType:
    """The runner module, to be called in this process."""
    return import_module(f"{__name__}.{name}")


def files(name: str) -> dict[str, bytes]:
    """What is carried into another process, by path: the runner as runner.py, and the workloads that it may measure."""
    workloads = resources.files("course_lib.workloads").iterdir()
    found = {f"course_lib/workloads/{file.name}": file.read_bytes() for file in workloads if file.name.endswith(".py")}
    return found | {"runner.py": (resources.files(__name__) / f"{name}.py").read_bytes()}
