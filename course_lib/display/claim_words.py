"""The words in which a claim and the state of its checks are shown, in a terminal and in a notebook alike."""

import re

from ..claims import Claim, Evidence, PartState, Verdict, evidence
from ..claims.states import Measured
from ..recorded import recorded

MARKS = {PartState.HOLDS: "✓", PartState.FAILS: "✗", PartState.TESTED: "✓", PartState.MEASURED: "✓", PartState.NOT_HERE: "○"}


def verdict_words(verdict: Verdict) -> str:
    """ "to-measure" -> "to measure"."""
    return str(verdict).replace("-", " ")


def choices() -> str:
    """ "correct, misleading, wrong, to measure or unverifiable"."""
    *first, last = map(verdict_words, Verdict)
    return f"{', '.join(first)} or {last}"


def evidence_rows(claim: Claim) -> list[tuple[Evidence, str, str]]:
    """For each part of the check: the part, what is looked at, and what came out.

    C039 -> (..., "1000/6", "= 166.667, printed as 166.7"), ...
    """
    return [(part, *_told(part)) for part in evidence(claim)]


def marks(claim: Claim) -> str:
    """The states of a claim's parts, counted: "4 ✓ 1 ○"."""
    found = [MARKS[part.state] for part in evidence(claim)]
    return " ".join(f"{found.count(mark)}\N{NO-BREAK SPACE}{mark}" for mark in dict.fromkeys(MARKS.values()) if mark in found)


def _told(part: Evidence) -> tuple[str, str]:
    if part.evaluated is not None:
        return _arithmetic(part)
    found = [_sentence(one) for one in part.measured] + ([f"tested, {_claim_of_test(part.test)}"] if part.test else [])
    return str(part.check), "; ".join(found) or str(part.state)


def _arithmetic(part: Evidence) -> tuple[str, str]:
    done = part.evaluated
    if done.value is None:
        return part.check.text, f"has no value: {done.problem}"
    value, printed = f"{done.value:.6g}", part.check.printed
    says = f"= {value}" if value == printed else f"= {value}, printed as {printed}"
    return part.check.expression, says if done.holds else f"{says}, which it does not round to"


def _claim_of_test(name: str) -> str:
    """ "tests/x.py::test_c043_v_multiplies" -> "v multiplies": the name of a test is what it shows."""
    return re.sub(r"^test_(c\d+_)?", "", name.rpartition("::")[2]).replace("_", " ")


def _sentence(measured: Measured) -> str:
    try:
        return measured.told(recorded)
    except FileNotFoundError:  # an installation without the results
        return f"measured, in {measured.device}/{measured.result}.json, which is not kept here"
