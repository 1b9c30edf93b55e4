"""How each part of a claim's check stands: done here and now, examined by a test, measured on a device, or not checked here.

tested.toml    claim -> the part, by its kind, and the test that examines it
measured.toml  claim -> the part, the result file in benchmarks/results, the row's case, and a sentence with the row's fields in
               braces; whoever shows it reads the file (course_lib.recorded), so the sentence cannot drift from its numbers
Nothing is said to be checked because somebody once did it by hand: a part that neither file names is "not checked here".
"""

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from .checks import Check
from .evaluate import Evaluated, evaluate_check
from .load import Claim

_FOLDER = Path(__file__).parent


class PartState(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    TESTED = "tested"
    MEASURED = "measured"
    NOT_HERE = "not checked here"


@dataclass(frozen=True, slots=True)
class Measured:
    """Where the answer of a device lies: row `case` of benchmarks/results/DEVICE/`result`.json."""

    result: str
    case: str
    sentence: str  # with fields of the row, of the result and `device` in braces: "{ours:.0f} {unit} on an {device}"
    device: str = "nvidia-h200"

    def told(self, read: Callable[[str, str], dict[str, Any]]) -> str:
        """The sentence with its numbers. read(result, device) gives the result file (course_lib.recorded.recorded)."""
        found = read(self.result, self.device)
        rows = [row for row in found["rows"] if row["case"] == self.case]
        if len(rows) != 1:
            there = ", ".join(sorted(str(row["case"]) for row in found["rows"]))
            raise LookupError(f"{self.device}/{self.result} has {len(rows)} rows {self.case!r}; its cases are {there}")
        return self.sentence.format(**({key: value for key, value in found.items() if key != "rows"} | rows[0]))


@dataclass(frozen=True, slots=True)
class Evidence:
    """One part of a check and how it stands. A part that a device answered may have a test as well; its state is MEASURED."""

    check: Check
    state: PartState
    evaluated: Evaluated | None = None
    test: str = ""
    measured: tuple[Measured, ...] = ()


def evidence(claim: Claim) -> tuple[Evidence, ...]:
    """The state of each part of the claim's check, in order. Evaluates its arithmetic."""
    return tuple(_of(claim, check) for check in claim.checks)


@cache
def entries(name: str) -> dict[str, list[dict[str, str]]]:
    """The entries of "tested" or "measured" by claim id; one table or a list of them ([[C030]]) for a claim."""
    data = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return {claim_id: found if isinstance(found, list) else [found] for claim_id, found in data.items()}


def _of(claim: Claim, check: Check) -> Evidence:
    if check.kind == "py":
        done = evaluate_check(check)
        return Evidence(check, PartState.HOLDS if done.holds else PartState.FAILS, evaluated=done)
    test = "".join(entry["test"] for entry in _entries(claim, check, "tested")[:1])
    rows = [{key: value for key, value in entry.items() if key != "part"} for entry in _entries(claim, check, "measured")]
    state = PartState.MEASURED if rows else PartState.TESTED if test else PartState.NOT_HERE
    return Evidence(check, state, test=test, measured=tuple(Measured(**row) for row in rows))


def _entries(claim: Claim, check: Check, name: str) -> list[dict[str, str]]:
    """The entries that speak of this part."""
    return [entry for entry in entries(name).get(claim.id, []) if entry["part"] == check.label]
