"""Checks of an answer that is a dict: a criterion looks at its own entries, so that a slip costs its own points."""

from collections.abc import Callable
from typing import Any

from ..grading.criteria import Case
from ..grading.outcome import Mistake

Check = Callable[[Case, Any], Mistake | None]


def looking_at(keys: tuple[str, ...], check_entry: Callable[[Case, dict[str, Any], str], Mistake | None]) -> Check:
    """A check of these entries alone, in this order. check_entry(case, the answer, one of the keys, which it has)"""

    def check(case: Case, output: Any) -> Mistake | None:
        from ..grading.compare import describe

        if not isinstance(output, dict):
            return Mistake(f"expected a dict, got {describe(output)}")
        for key in keys:
            if key not in output:
                return Mistake(f"the dict has no entry {key!r}")
            if mistake := check_entry(case, output, key):
                return mistake
        return None

    return check
