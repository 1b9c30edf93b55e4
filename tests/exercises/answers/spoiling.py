"""Wrong answers made from a right one: one small change in its text, so that what is wrong is all that one reads."""

import inspect
import linecache
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType


def spoiled(right: Callable, name: str, *changes: tuple[str, str]) -> Callable:
    """The function `right` under another name, with each (old, new) text replaced. Each old text stands in it exactly once.

    Its source can be had from inspect.getsource, as that of any other answer.
    """
    source = inspect.getsource(right).replace(f"def {right.__name__}(", f"def {name}(", 1)
    for old, new in changes:
        assert source.count(old) == 1, f"{name}: {old!r} stands {source.count(old)} times in {right.__name__}"
        source = source.replace(old, new)
    file = f"<{right.__module__}.{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = inspect.getmodule(right)
    assert isinstance(module, ModuleType)
    space = dict(vars(module))
    exec(compile(source, file, "exec"), space)
    return space[name]


def from_notebook(number: str, name: str, module: str) -> Callable:
    """The notebook's own answer to an exercise under another name, as an answer of `module` to spoil: it is not written twice."""
    grade_id = f"ex-{number.replace('.', '-')}"
    cell = re.search(rf'^# %% grade_id="{grade_id}"\n(.*?)(?=^# %%)', _notebook(number), re.DOTALL | re.MULTILINE)
    assert cell, f"no cell of {number} in the notebook's source"
    source = re.sub(r"^def \w+\(", f"def {name}(", cell[1].strip() + "\n", count=1, flags=re.MULTILINE)
    file = f"<{module}.{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = {"__name__": module}
    exec(compile(source, file, "exec"), space)
    return space[name]


def _notebook(number: str) -> str:
    (path,) = (Path(__file__).parents[3] / "solutions").glob(f"phase{number[0]}_*.py")
    return path.read_text(encoding="utf-8")
