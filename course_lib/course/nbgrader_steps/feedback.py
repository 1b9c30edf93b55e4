"""Feedback begins with what still waits: a learner without a GPU must not read those points as lost."""

from typing import Any

import nbformat
from nbgrader.preprocessors import NbGraderPreprocessor

from .outputs import verdicts_of
from .status import points


class WaitingPoints(NbGraderPreprocessor):
    """Put a cell at the top of the feedback that says how many points wait, and for what."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        if text := waiting_text(nb):
            nb.cells.insert(0, nbformat.v4.new_markdown_cell(text, id="waiting-points"))
        return nb, resources


def waiting_text(notebook: Any) -> str:
    """Markdown: the points that wait and why, or "" when none do."""
    waiting = [v for v in verdicts_of(notebook) if v.waiting_points]
    if not waiting:
        return ""
    total = sum(verdict.waiting_points for verdict in waiting)
    lines = [f"**{points(total, 'waits', 'wait')} for a GPU.** Not lost, and not in the score yet:", ""]
    for verdict in waiting:
        reasons = "; ".join(o.reason for o in verdict.outcomes if o.waiting_points)
        lines.append(f"- exercise {verdict.exercise}: {verdict.waiting_points:g} ({reasons})")
    return "\n".join(lines)
