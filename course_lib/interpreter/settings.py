"""What holds for the launches of this process: the settings that `enable` made, and on top of them those of each open block.

They belong to the process and not to a thread, because Triton's functions are replaced for all threads. Blocks of several
threads may end in any order; the one that was opened last decides, and each keeps its own book.
"""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .counts.books import Ledger
from .watch import NONE, Checks


@dataclass(eq=False)
class Settings:
    """target: a name of compiled/targets.py, or ""; choice: the autotuner's configuration asked for, by its constants.

    listener  called in place of each launch: listener(kernel, grid, args, kwargs, config, run); `run(grid)` runs it
    book      the ledger of this block, None for a block that does not count; pictures: it keeps who touched which element
    """

    on: bool = False
    checks: Checks = NONE
    target: str = ""
    choice: Mapping[str, int] = field(default_factory=dict)
    listener: Callable | None = None
    book: Ledger | None = None
    pictures: bool = False


lock = threading.RLock()  # held while settings change
_layers = [Settings()]


def _fresh_lock() -> None:
    """For a child of a fork: the thread that may have held the lock is not in it."""
    global lock
    lock = threading.RLock()


os.register_at_fork(after_in_child=_fresh_lock)


def now() -> Settings:
    return _layers[-1]


def counting() -> list[Settings]:
    """The open blocks that count, outermost first."""
    return [layer for layer in _layers if layer.book is not None]


def changed(**changes: Any) -> Settings:
    """The settings of a block: as now, but for the changes; it has no book unless one is given."""
    return replace(now(), **{"book": None, "pictures": False, **changes})


def push(block: Settings) -> None:
    """Open it."""
    _layers.append(block)


def remove(block: Settings) -> None:
    """Close it; nothing to do where it is closed."""
    if block in _layers:
        _layers.remove(block)
