"""The 267 claims of the roadmap as rows: what it says, in our own words, and what holds.

claims.csv has one claim a row. The column `note` says where a check of ours differs from the one it was first written with,
and why; it is empty elsewhere.
"""

import csv
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from .checks import Check, parse_checks

_FILE = Path(__file__).with_name("claims.csv")


class Verdict(StrEnum):
    """How a claim stands. Wrong contradicts a source or its own arithmetic; misleading holds only under conditions left out."""

    CORRECT = "correct"
    MISLEADING = "misleading"
    WRONG = "wrong"
    TO_MEASURE = "to-measure"
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True)
class Claim:
    """One row. `section` is the roadmap's; `kind` is arithmetic, behaviour, design-rule, hardware-spec or measured."""

    id: str
    phase: int
    section: str
    claim_paraphrased: str
    roadmap_value: str  # as the roadmap prints it: "0.17", "always", "0.42->0.31"
    unit: str
    kind: str
    verdict: Verdict
    corrected_value: str
    why: str
    how_to_check: str
    source: str
    note: str = ""

    @property
    def checks(self) -> tuple[Check, ...]:
        """The parts of how_to_check, in order."""
        return parse_checks(self.how_to_check)

    @property
    def place(self) -> str:
        """Where in the roadmap: "phase 1, section 1.1", or "phase 1, intro"."""
        return f"phase {self.phase}, {'section ' if self.section[:1].isdigit() else ''}{self.section}"

    @property
    def roadmap_says(self) -> str:
        """The roadmap's value with its unit: "0.17 FLOP/byte"."""
        return f"{self.roadmap_value} {self.unit}".strip()

    def to_json(self) -> dict[str, object]:
        return asdict(self) | {"verdict": str(self.verdict)}


@cache
def all_claims() -> tuple[Claim, ...]:
    """Every claim, in order of its id."""
    with open(_FILE, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return tuple(Claim(**(row | {"phase": int(row["phase"]), "verdict": Verdict(row["verdict"])})) for row in rows)


def claim(claim_id: str) -> Claim:
    """The claim with this id ("C039"). Raises KeyError, naming the range of ids."""
    known = {one.id: one for one in all_claims()}
    wanted = str(claim_id).strip().upper()
    if wanted not in known:
        raise KeyError(f"there is no claim {claim_id!r}; ids run from {min(known)} to {max(known)}")
    return known[wanted]


def select(
    *, phase: int | None = None, verdict: Verdict | str | None = None, ids: Iterable[str] | None = None
) -> tuple[Claim, ...]:
    """The claims that meet every condition given; with `ids`, in their order.

    Raises KeyError for an id that there is not, ValueError for such a phase or verdict.
    """
    chosen = all_claims() if ids is None else tuple(claim(one) for one in ids)
    if phase is not None:
        if phase not in (phases := sorted({one.phase for one in all_claims()})):
            raise ValueError(f"there is no phase {phase!r}; use one of {phases}")
        chosen = tuple(one for one in chosen if one.phase == phase)
    if verdict is not None:
        if verdict not in (verdicts := [str(one) for one in Verdict]):
            raise ValueError(f"there is no verdict {verdict!r}; use one of {', '.join(verdicts)}")
        chosen = tuple(one for one in chosen if one.verdict == verdict)
    return chosen
