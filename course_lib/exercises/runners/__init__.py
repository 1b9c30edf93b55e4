"""The part of each exercise that runs beside the learner's code: it calls their function and gathers evidence.

A runner imports torch, triton and plain data types only. `run(entry, case)` returns what the function returned;
`observe(entry, case)` returns evidence as plain data (see grading/criteria.py). Nothing is judged here.
"""

from importlib import import_module, resources
from types import ModuleType


def load(name: str) -> ModuleType:
    """The runner module, to be called in this process."""
    return import_module(f"{__name__}.{name}")


def source(name: str) -> bytes:
    """The runner's source, to be carried into another process."""
    return (resources.files(__name__) / f"{name}.py").read_bytes()
