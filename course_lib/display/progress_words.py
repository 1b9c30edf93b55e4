"""Progress in plain words and numbers: what every view of it says the same way."""

from ..course.progress_summary import PhaseProgress, PhaseState, Summary

WAITING_NOTE = "Waiting points could not be judged on the machine that checked them; most need a GPU."


def points_text(points: float) -> str:
    """At most two decimals, none that say nothing: 2.0 -> "2", 3.333 -> "3.33"."""
    return f"{points:.2f}".rstrip("0").rstrip(".")


def ratio_text(ratio: float | None) -> str:
    """A speed as a ratio to its named peer: 0.873 -> "0.87x"; "" when nothing was measured."""
    return "" if ratio is None else f"{ratio:.2f}x"


def states_text(phase: PhaseProgress) -> str:
    """"2 done, 1 timing waiting, 1 open", furthest first; or that the phase has no exercises yet."""
    if phase.state is PhaseState.EMPTY:
        return str(PhaseState.EMPTY)
    counts = [(n, state.removeprefix("done, ")) for state, n in reversed(phase.counts.items()) if n]
    return ", ".join(f"{n} {state}" for n, state in counts)


def shares(points: float, waiting: float, most: float) -> tuple[float, float]:
    """-> the parts of a bar that are earned and waiting, each 0 to 1."""
    return (points / most, waiting / most) if most else (0.0, 0.0)


def plain_text(summary: Summary) -> str:
    """For a terminal without colours, a log, or a notebook front end without HTML. Begins "0 of 4 phases (0%)"."""
    lines = [summary.text]
    for phase in summary.phases:
        line = f"  {phase.number}  {phase.title:<28}"
        if phase.exercises:
            line += f"{points_text(phase.points)} of {points_text(phase.max_points)} points"
            line += f" (+{points_text(phase.waiting_points)} waiting)" if phase.waiting_points else ""
            line += "; "
        line += states_text(phase)
        line += f"; best {ratio_text(phase.best_ratio)}" if phase.best_ratio is not None else ""
        lines.append(line)
    return "\n".join([*lines, *summary.messages])
