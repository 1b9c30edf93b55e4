"""Turns the interpreter on as soon as there is something to turn on: right after `import triton`, right after `import torch`.

`lab` is imported first and must cost nothing, so it cannot import Triton itself; and a kernel in a notebook must have right
numbers from its first launch, so nobody should have to call `enable()`.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

refusal = ""  # why the checks are not on although kernels are interpreted here: said once, and by `lab.start`
_OURS = f"{__package__}."


class _AfterImport(MetaPathFinder):
    """Lets the finders after it find a module, and calls `then` when it has been executed, once for each name.

    A module that is only looked for (importlib.util.find_spec) is not executed, and stays awaited.

    A module of the interpreter that is itself what imports Triton is let through to its end first: `then` needs it whole.
    """

    def __init__(self, names: set[str], then: Callable[[], None]):
        self.names, self.then = names, then
        self._inside, self._due = 0, False  # modules of the interpreter that are being executed; is a call of `then` waiting?

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in self.names and not name.startswith(_OURS):
            return None
        place = sys.meta_path.index(self) + 1 if self in sys.meta_path else 0
        others = (finder for finder in sys.meta_path[place:] if hasattr(finder, "find_spec"))
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and hasattr(spec.loader, "exec_module") and not isinstance(spec.loader, type):
            with suppress(AttributeError):  # a loader that takes no attribute: the checks wait for `enable()`
                self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        """Until such a module has been executed, the loader (a zip file has one for all its modules) executes through us."""
        if "exec_module" in vars(loader):
            return
        execute = loader.exec_module

        def followed(module: ModuleType, *args: Any) -> None:
            ours, awaited = module.__name__.startswith(_OURS), module.__name__ in self.names
            if ours or awaited:
                vars(loader).pop("exec_module", None)
            self._inside += ours
            try:
                execute(module, *args)
            finally:
                self._inside -= ours
            if awaited:
                self.names.discard(module.__name__)
                self._due = True
            if self._due and not self._inside:
                self._due = False
                self.then()

        loader.exec_module = followed


def arm(then: Callable[[], None] | None = None) -> None:
    """Call `then` (default: enable all checks, if kernels are interpreted here) after Triton and torch are imported.

    What is imported already counts as just imported. Calling it again changes nothing.
    """
    then = then or _enable
    if any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _AfterImport({"triton", "torch"} - sys.modules.keys(), then))
    then()


def _enable() -> None:
    """All checks on, where Triton is there and interprets."""
    global refusal
    triton = sys.modules.get("triton")
    if triton is None or not hasattr(triton, "jit") or not hasattr(triton, "language"):
        return  # not there yet, or it is being imported
    from . import versions
    from .entry import explain_failed_launches, state

    mode = state().mode
    if mode not in ("cuda", "rocm"):
        explain_failed_launches()
    if mode != "interpreter":
        return
    said, refusal = refusal, versions.refusal(getattr(triton, "__version__", "?"))
    if refusal and not said:
        print(refusal)  # where Triton is imported, since nothing else would tell: its kernels run, with wrong numbers
    if not refusal:
        from .switch import enable

        enable()
