"""What stands in the place of Triton's own functions while the interpreter is on: launches, helpers, autotuned launches."""

import functools
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from . import settings
from .compiled_only import guarded
from .counts.books import LaunchLedger
from .launch import run_grid
from .mistakes import canary
from .mistakes.faults import NotALaunch
from .numbers.builder import builder
from .source.rewrite import rewritten
from .targets import target as target_of
from .text.jit_functions import inner_function
from .tuning import choose
from .watch import NONE

_originals: dict[str, Any] = {}
_trial = threading.local()  # .on: this thread only looks whether a configuration is valid
# of an autotuned launch: its configuration, and a sentence on each that was passed over
_tuned: ContextVar[tuple[str, Sequence[str]]] = ContextVar("tuned", default=("", ()))


def patch() -> None:
    """Put ours in place; nothing to do where they are."""
    if _originals:
        return
    _originals.update(run=InterpretedFunction.run, call=InterpretedFunction.__call__, tune=Autotuner.run, jit=JITFunction.run)
    try:
        InterpretedFunction.run = _run
        InterpretedFunction.__call__ = _call
        Autotuner.run = functools.wraps(_originals["tune"])(_tune)
        JITFunction.run = functools.wraps(_originals["jit"])(guarded(_originals["jit"]))
    except BaseException:  # an interrupt: all of them or none
        unpatch()
        raise


def unpatch() -> None:
    """Give Triton its own back."""
    if _originals:
        InterpretedFunction.run = _originals["run"]
        InterpretedFunction.__call__ = _originals["call"]
        Autotuner.run = _originals["tune"]
        JITFunction.run = _originals["jit"]
        _originals.clear()


def _run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    if warmup:
        return

    def run(sizes: Any) -> None:
        _launch(self, sizes, args, kwargs)

    if getattr(_trial, "on", False):
        target = target_of(settings.now().target)
        run_grid(self, grid, args, kwargs, checks=NONE, target=target, ledger=None, pictures=False, programs=1)
        return
    if (listener := settings.now().listener) is not None:
        listener(self, grid, args, kwargs, _tuned.get()[0], run)
    else:
        run(grid)


def _launch(kernel: Any, grid: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    now, counting, record = settings.now(), settings.counting(), None
    if now.checks.unwritten:
        canary.start()  # torch may have come after `enable`
    if counting:
        config, notes = _tuned.get()
        record = LaunchLedger(kernel.fn.__name__, (0, 0, 0), config=config, notes=list(notes))
    for block in counting:
        block.book.launches.append(record)
    pictures = any(block.pictures for block in counting)
    run_grid(kernel, grid, args, kwargs, checks=now.checks, target=target_of(now.target), ledger=record, pictures=pictures)


def _call(self: Any, *args: Any, **kwargs: Any) -> Any:
    """A helper called from a kernel."""
    if builder.launch is None:
        name = self.fn.__name__
        raise NotALaunch(f"{name} is a kernel, and a launch needs a grid in square brackets: {name}[(programs,)](...)")
    return rewritten(self.fn)(*args, **kwargs)


def _tune(self: Any, *args: Any, **kwargs: Any) -> Any:
    """@triton.autotune without a device to time on: the first configuration that is valid, or the one asked for."""
    if not isinstance(inner_function(self), InterpretedFunction):
        return _originals["tune"](self, *args, **kwargs)

    def trial(args: tuple, kwargs: dict[str, Any]) -> None:
        _trial.on = True
        try:
            self.fn.run(*args, **kwargs)
        finally:
            _trial.on = False

    self.nargs = dict(zip(self.arg_names, args, strict=False))
    try:
        chosen, notes = choose(self, args, kwargs, settings.now().choice, trial, settings.now().target)
        self.best_config = chosen
        token = _tuned.set((str(chosen), notes))
        try:
            return self.fn.run(*args, **kwargs, **chosen.all_kwargs())
        finally:
            _tuned.reset(token)
    finally:
        self.nargs = None
