"""A verdict as a notebook shows it: a table for people, a plain number for nbgrader, data for the grader."""

from typing import Any

from ..grading.verdict import MIME, Verdict


class Shown:
    """What `lab.check` returns. `repr` and `float` give the score, a plain number between 0 and the cell's points."""

    def __init__(self, verdict: Verdict, message: str = ""):
        self.verdict = verdict
        self.message = message

    def __repr__(self) -> str:
        return repr(self.verdict.score)

    def __float__(self) -> float:
        return self.verdict.score

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from ..display.verdict_table import html_table

        return {
            "text/plain": repr(self),
            "text/html": html_table(self.verdict, self.message),
            MIME: self.verdict.to_json(),
        }
