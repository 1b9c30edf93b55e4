"""Turns the course's interpreter on and off, and opens the ledger.

`enable()` puts it behind every launch of an interpreted kernel in this process; kernels compiled for a GPU are never touched.
`with ledger() as book` counts the launches inside it. Both undo themselves: `disable()`, and the end of the block.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import triton

from . import entry, hooks, settings, versions
from .counts.books import Ledger
from .mistakes import canary
from .targets import target as target_of
from .watch import NONE, Checks


def version_refusal() -> str:
    """ "" for a Triton version that this interpreter knows, else a sentence."""
    return versions.refusal(triton.__version__)


def enable(checks: Checks | None = None, *, target: str = "") -> str:
    """Run interpreted kernels with right numbers and checks (default: all of them) from now on, or to the end of an open block.

    target  refuse also what this target's compiler refuses ("sm_80": no fp8e4nv); the names are those of compiled/targets.py
    ->      "" or a sentence that says why nothing was changed (an unknown Triton version)
    """
    if refusal := version_refusal():
        return refusal
    target_of(target)
    with settings.lock:
        now = settings.now()
        now.on, now.checks, now.target = True, Checks() if checks is None else checks, target
        _apply()
    return ""


def disable() -> None:
    """Back to Triton's own interpreter."""
    with settings.lock:
        settings.now().on = False
        _apply()


def enabled() -> bool:
    return settings.now().on


@contextmanager
def interpreting(
    checks: Checks | None = None, *, listener: Callable | None = None, config: dict[str, int] | None = None
) -> Iterator[None]:
    """Inside the block kernels run with these checks (default: all); every launch goes through `listener`, if there is one.

    Raises RuntimeError for a Triton version that is not known.
    """
    if refusal := version_refusal():
        raise RuntimeError(refusal)
    changes: dict[str, Any] = {"listener": listener} if listener is not None else {}
    with _block(config, checks=Checks() if checks is None else checks, **changes):
        yield


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
    now = settings.now()
    wanted = checks if checks is not None else (now.checks if now.on else NONE)
    target_of(target)
    with _block(config, checks=wanted, target=target or now.target, book=(book := Ledger()), pictures=pictures):
        yield book


@contextmanager
def _block(config: dict[str, int] | None, **changes: Any) -> Iterator[None]:
    """On inside the block, with these settings; what holds without it holds again at its end."""
    if config is not None:
        changes["choice"] = dict(config)
    block = None
    try:
        with settings.lock:
            block = settings.changed(on=True, **changes)
            settings.push(block)
            _apply()
        yield
    finally:
        try:
            _close(block)
        except BaseException:  # an interrupt at just this time
            _close(block)
            raise


def _close(block: settings.Settings | None) -> None:
    with settings.lock:
        if block is not None:
            settings.remove(block)
        _apply()


def _apply() -> None:
    """Make torch and Triton as the settings of now want them."""
    now = settings.now()
    if now.on and now.checks.unwritten:
        canary.start()
    else:
        canary.stop()
    if now.on:
        hooks.patch()
    else:
        hooks.unpatch()
