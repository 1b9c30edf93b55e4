"""`labs doctor`: what this machine can do for each phase, and what to repair, each with its next step.

Facts come from doctor_machine.py, judgement from doctor_checks.py and doctor_phases.py (pure); this file puts
the report together and shows it. It never fails: what cannot be found out becomes a sentence.
"""

from dataclasses import asdict, dataclass
from typing import Any

from ..exercises import exercises_of
from .doctor_checks import Problem, Weight, problems
from .doctor_machine import Machine, examine_machine
from .doctor_phases import Ability, Level, abilities


@dataclass(frozen=True, slots=True)
class Report:
    """What was found. `stops` is True when something must be repaired before the course can go on at all."""

    machine: Machine
    phases: tuple[Ability, ...]
    problems: tuple[Problem, ...]

    @property
    def stops(self) -> bool:
        return any(problem.weight is Weight.STOPS for problem in self.problems)

    def to_json(self) -> dict[str, Any]:
        """Plain data: {"stops", "machine": {...}, "phases": [...], "problems": [...]}."""
        return {
            "stops": self.stops,
            "machine": asdict(self.machine),
            "phases": [asdict(ability) | {"level": ability.level.value} for ability in self.phases],
            "problems": [asdict(problem) | {"weight": problem.weight.value} for problem in self.problems],
        }


def examine(machine: Machine | None = None) -> Report:
    """The report on a machine; None looks at this one, in seconds (torch is tried in a child process)."""
    machine = machine or examine_machine()
    return Report(machine, abilities(machine), problems(machine))


_LEVEL_STYLE = {Level.FULL: "green", Level.EMULATED: "yellow", Level.READ_ONLY: "red"}
_WEIGHT_STYLE = {Weight.STOPS: "bold red", Weight.LIMITS: "yellow", Weight.NOTE: "dim"}


def render(report: Report) -> Any:
    """A rich renderable: the machine, a line for each phase, then the problems, the worst first."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=True, header_style="bold")
    for title in ("Phase", "", "Here", "Why"):
        table.add_column(title, no_wrap=title == "Here")
    for ability in report.phases:
        level = Text(ability.level.value, _LEVEL_STYLE[ability.level])
        table.add_row(str(ability.phase), ability.title, level, Text(ability.reason))
    parts: list[Any] = [*(Text(line) for line in report.machine.summary()), Text(), table]
    if coming := [str(ability.phase) for ability in report.phases if not exercises_of(ability.phase)]:
        parts.append(Text(f"Phases {', '.join(coming)} have no exercises yet: the table says what will run here.", "dim"))
    parts.append(Text())
    for problem in report.problems:
        parts.append(
            Text.assemble((f"{problem.weight.value}: ", _WEIGHT_STYLE[problem.weight]), problem.what)
        )
        parts.append(Text(f"  -> {problem.next_step}"))
    if not report.problems:
        parts.append(Text("Nothing to repair.", "green"))
    return Group(*parts)
