"""Wrong answers made from a right one: one small change in its text, so that what is wrong is all that one reads."""

import inspect
import linecache
from collections.abc import Callable
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
