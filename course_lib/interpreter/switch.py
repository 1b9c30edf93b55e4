"""Turns the course's interpreter on and off, and opens the ledger.

`enable()` puts it behind every launch of an interpreted kernel in this process; kernels compiled for a GPU are never touched.
`with ledger() as book` counts the launches inside it. Both undo themselves: `disable()`, and the end of the block.
"""

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from . import entry, versions
from .compiled_only import guarded
from .counts.books import LaunchLedger, Ledger
from .launch import run_grid
from .mistakes import canary
from .mistakes.faults import NotALaunch
from .numbers.builder import builder
from .source.rewrite import rewritten
from .targets import target as target_of
from .text.jit_functions import inner_function
from .watch import NONE, Checks


@dataclass
class _State:
    """What holds now. books: the open ledgers, innermost last; choice: the autotuner's configuration asked for.

    config, notes  of the launch that an autotuner is about to make
    listener  called in place of each launch: listener(kernel, grid, args, kwargs, config, run); `run(grid)` runs it
    """

    on: bool
    checks: Checks
    target: str
    books: list[tuple[Ledger, bool]]
    choice: dict[str, int]
    config: str = ""
    notes: Sequence[str] = ()
    listener: Callable | None = None


_state = _State(False, NONE, "", [], {})
_originals: dict[str, Any] = {}
_trial = threading.local()  # .on: this thread only looks whether a configuration is valid


def version_refusal() -> str:
    """ "" for a Triton version that this interpreter knows, else a sentence."""
    return versions.refusal(triton.__version__)


def enable(checks: Checks | None = None, *, target: str = "") -> str:
    """Run interpreted kernels with right numbers and checks (default: all of them) from now on.

    target  refuse also what this target's compiler refuses ("sm_80": no fp8e4nv); see targets.NAMES
    ->      "" or a sentence that says why nothing was changed (an unknown Triton version)
    """
    if refusal := version_refusal():
        return refusal
    target_of(target)
    _state.checks, _state.target = Checks() if checks is None else checks, target
    if _state.checks.unwritten:
        canary.start()
    else:
        canary.stop()
    if not _state.on:
        _patch()
        _state.on = True
    return ""


def disable() -> None:
    """Back to Triton's own interpreter."""
    canary.stop()
    if _state.on:
        InterpretedFunction.run = _originals["run"]
        InterpretedFunction.__call__ = _originals["call"]
        Autotuner.run = _originals["tune"]
        JITFunction.run = _originals["jit"]
        _state.on = False


def enabled() -> bool:
    return _state.on


@contextmanager
def interpreting(
    checks: Checks | None = None, *, listener: Callable | None = None, config: dict[str, int] | None = None
) -> Iterator[None]:
    """Inside the block kernels run with these checks (default: all); every launch goes through `listener`, if there is one.

    Raises RuntimeError for a Triton version that is not known.
    """
    was_on, before = _state.on, (_state.checks, _state.target, _state.listener, _state.choice)
    if refusal := enable(checks, target=_state.target):
        raise RuntimeError(refusal)
    _state.listener = listener or _state.listener
    if config is not None:
        _state.choice = dict(config)
    try:
        yield
    finally:
        if was_on:
            enable(before[0], target=before[1])
        else:
            disable()
        _state.checks, _state.target, _state.listener, _state.choice = before


@contextmanager
def ledger(
    *, pictures: bool = False, config: dict[str, int] | None = None, checks: Checks | None = None, target: str = ""
) -> Iterator[Ledger]:
    """Count the launches inside the block.

    pictures  also keep which program touched which element (`LaunchLedger.touched`)
    config    the autotuner's configuration to run, by its constants ({"BLOCK": 64}); default: as in the block around
    checks    mistakes to look for inside the block (default: as enabled, else none)
    Blocks nest, and a launch is in the book of each block that it ran in. A launch that ends with a mistake stays in the book,
    with `complete` False.
    Raises RuntimeError where kernels are compiled for a GPU (use interpreter.ledger_of there), or Triton is not known.
    """
    if refusal := version_refusal():
        raise RuntimeError(refusal)
    if (now := entry.state()).mode != "interpreter":
        cure = "interpreter.ledger_of counts a launch in a process of its own"
        raise RuntimeError(f"only interpreted launches are counted, and here: {now.reason} {cure}.")
    was_on, before = _state.on, (_state.checks, _state.target, _state.choice)
    book = Ledger()
    wanted = checks if checks is not None else (_state.checks if was_on else NONE)
    enable(wanted, target=target or _state.target)
    if config is not None:
        _state.choice = dict(config)
    _state.books.append((book, pictures))
    try:
        yield book
    finally:
        _state.books.pop()
        if was_on:
            enable(before[0], target=before[1])
        else:
            disable()
        _state.checks, _state.target, _state.choice = before


def _patch() -> None:
    _originals.update(run=InterpretedFunction.run, call=InterpretedFunction.__call__, tune=Autotuner.run, jit=JITFunction.run)
    InterpretedFunction.run = _run
    InterpretedFunction.__call__ = _call
    Autotuner.run = functools.wraps(_originals["tune"])(_tune)
    JITFunction.run = functools.wraps(_originals["jit"])(guarded(_originals["jit"]))


def _run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
    if warmup:
        return

    def run(sizes: Any) -> None:
        _launch(self, sizes, args, kwargs)

    if getattr(_trial, "on", False):
        target = target_of(_state.target)
        run_grid(self, grid, args, kwargs, checks=NONE, target=target, ledger=None, pictures=False, programs=1)
        return
    if _state.listener is not None:
        _state.listener(self, grid, args, kwargs, _state.config, run)
    else:
        run(grid)


def _launch(kernel: Any, grid: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    if _state.checks.unwritten:
        canary.start()  # torch may have come after `enable`
    record, pictures = None, False
    if _state.books:
        pictures = any(wanted for _, wanted in _state.books)
        record = LaunchLedger(kernel.fn.__name__, (0, 0, 0), config=_state.config, notes=list(_state.notes))
        for book, _ in _state.books:
            book.launches.append(record)
    run_grid(kernel, grid, args, kwargs, checks=_state.checks, target=target_of(_state.target), ledger=record, pictures=pictures)


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
    from .tuning import choose

    def trial(args: tuple, kwargs: dict[str, Any]) -> None:
        _trial.on = True
        try:
            self.fn.run(*args, **kwargs)
        finally:
            _trial.on = False

    self.nargs = dict(zip(self.arg_names, args, strict=False))
    try:
        chosen, _state.notes = choose(self, args, kwargs, _state.choice, trial, _state.target)
        self.best_config, _state.config = chosen, str(chosen)
        return self.fn.run(*args, **kwargs, **chosen.all_kwargs())
    finally:
        _state.config, _state.notes, self.nargs = "", (), None
