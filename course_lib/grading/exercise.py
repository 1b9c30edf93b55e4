"""An exercise as data: what is asked, of which function, for how many points, and which criteria judge it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from .criteria import Criterion
from .outcome import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercise:
    """One exercise. Its cells are `ex-1-1` (solution), `ex-1-1-check` and, with timed criteria, `ex-1-1-timed`.

    id          "1.1": phase and number
    entry       name of the learner's function; params: its positional parameters
    returns     what it returns, in words
    runner      name of the module in exercises/runners
    needs       ids of earlier exercises whose functions this one calls
    may_import  top-level modules that an answer may import
    seconds     time limit of one out-of-process run of all its cases
    """

    id: str
    title: str
    entry: str
    params: Sequence[str]
    returns: str
    runner: str
    criteria: Sequence[Criterion]
    needs: Sequence[str] = ()
    may_import: frozenset[str] = field(default=frozenset({"math", "torch"}))
    seconds: float = 30.0

    @property
    def phase(self) -> int:
        return int(self.id.split(".")[0])

    @property
    def cell_id(self) -> str:
        return "ex-" + self.id.replace(".", "-")

    @property
    def signature(self) -> str:
        return f"{self.entry}({', '.join(self.params)})"

    @property
    def cells(self) -> tuple[str, ...]:
        """The grade cells it has: "check", and "timed" when something of it is measured on a device."""
        return tuple(cell for cell in ("check", "timed") if self.in_cell(cell))

    def in_cell(self, cell: str) -> tuple[Criterion, ...]:
        """The criteria that a grade cell judges, in order."""
        return tuple(c for c in self.criteria if (c.kind is Kind.TIMED) == (cell == "timed"))

    def points(self, cell: str | None = None) -> float:
        """Points of one grade cell, or of the whole exercise."""
        return sum(c.points for c in (self.criteria if cell is None else self.in_cell(cell)))

    def bars(self) -> tuple[tuple[float, tuple[str, ...]], ...]:
        """(points, names of the devices on which the bar was set) of timed criteria that wait on any other device."""
        return tuple((c.points, tuple(c.devices)) for c in self.in_cell("timed") if getattr(c, "devices", ()))

    def grade_id(self, cell: str) -> str:
        return f"{self.cell_id}-{cell}"
