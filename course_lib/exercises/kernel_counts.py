"""What the launches of a function ask for, for a cell that shows it: counted by the interpreter's ledger, the same everywhere."""

from collections.abc import Callable, Mapping
from typing import Any


def counts_of(function: Callable[..., Any], *args: Any, otherwise: str = "") -> Mapping[str, int]:
    """Run `function(*args)` once, interpreted -> its launches' counts, added up (names: `LaunchLedger.counts`).

    Raises the KernelMistake that ended a launch, ValueError for a function that launched no kernel, RuntimeError where nothing
    can be counted. otherwise: what the ValueError says of how the result may have been made.
    """
    from ..interpreter.counts.books import Ledger
    from ..interpreter.trace import trace

    traced = trace(function, args, {})
    if traced.mistake is not None:
        raise traced.mistake
    if not traced.launches:
        name = getattr(function, "__name__", "the function")
        raise ValueError(f"{name} launched no kernel, so there are no bytes to count{otherwise}")
    return Ledger([launch.ledger for launch in traced.launches]).counts()
