"""Kernels that only a GPU runs (Gluon's, and those decorated before kernels were to be interpreted): a sentence, no traceback."""

from collections.abc import Callable
from typing import Any

from triton.runtime import driver

from .mistakes.faults import NotEmulated


def guarded(run: Callable[..., Any]) -> Callable[..., Any]:
    """JITFunction.run, which says what is wrong where there is no device to run on."""

    def guarded_run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup and not _has_device():
            name = self.fn.__name__
            if self.is_gluon():
                what = f"{name} is a Gluon kernel, and Gluon runs only compiled"
            else:
                what = f"{name} was made by @triton.jit before this process was told to interpret kernels; restart it"
            raise NotEmulated("refused", None, f"{what}; run it on a GPU, or prove with compile_report that it compiles")
        return run(self, *args, grid=grid, warmup=warmup, **kwargs)

    return guarded_run


def _has_device() -> bool:
    try:
        return driver.active is not None and bool(driver.active.get_current_target())
    except RuntimeError:
        return False
