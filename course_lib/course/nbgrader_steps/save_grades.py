"""From verdicts to the grade book: points that wait are neither earned nor lost, and nothing is scored without a verdict."""

from typing import Any

from nbgrader.api import MissingEntry
from nbgrader.preprocessors import SaveAutoGrades as NbgraderSaveAutoGrades

from ...grading.outcome import State
from ...grading.verdict import Verdict
from .outputs import grade_cells, verdict_for
from .status import Status, points, save_status


class SaveAutoGrades(NbgraderSaveAutoGrades):
    """nbgrader's step; the score comes from the verdict beside the printed number, never from the number."""

    def preprocess(self, nb: Any, resources: Any) -> tuple[Any, Any]:
        self._run = resources.get("course_run")
        if not self._run:
            raise RuntimeError(
                "this notebook was not executed in this run (--no-execute?), so its outputs prove nothing; "
                "autograde it without that option"
            )
        self._verdicts: list[Verdict] = []
        self._waiting: dict[str, list[str]] = {}  # solution cell -> reasons
        self._unscored: list[str] = []
        nb, resources = super().preprocess(nb, resources)
        names = {key: resources["nbgrader"][key] for key in ("notebook", "assignment", "student")}
        with type(self.gradebook)(resources["nbgrader"]["db_url"]) as gradebook:
            for solution, reasons in self._waiting.items():
                self._comment(gradebook, solution, reasons, names)
            waiting = sum(verdict.waiting_points for verdict in self._verdicts)
            trouble = resources.get("course_trouble", "")
            all_open = not any(verdict.attempted for verdict in self._verdicts)
            status = Status.of(waiting, trouble, self._unscored, all_open)
            save_status(gradebook, names["assignment"], names["student"], status, waiting, self._run)
        return nb, resources

    def _add_score(self, cell: Any, resources: Any) -> None:
        grade_id = cell.metadata["nbgrader"]["grade_id"]
        grade = self.gradebook.find_grade(grade_id, self.notebook_id, self.assignment_id, self.student_id)
        verdict = verdict_for(cell, self._run)
        if verdict is None:
            known = grade_cells().get(grade_id)
            self._unscored.append(grade_id)
            if known:
                self._waiting.setdefault(known[0].cell_id, []).append(f"{grade_id} showed no verdict of this run")
            grade.auto_score, grade.needs_manual_grade = None, True
        else:
            self._verdicts.append(verdict)
            wholly = all(outcome.state is State.BLOCKED for outcome in verdict.outcomes)
            grade.auto_score = None if wholly else verdict.score
            grade.needs_manual_grade = verdict.waiting_points > 0 or grade.manual_score is not None
            self._note_waiting(verdict)
        self.gradebook.db.commit()

    def _note_waiting(self, verdict: Verdict) -> None:
        exercise = next(e for e, _ in grade_cells().values() if e.id == verdict.exercise)
        for outcome in verdict.outcomes:
            if outcome.state is State.BLOCKED:
                text = f"{points(outcome.waiting_points, 'waits', 'wait')} ({outcome.name}): {outcome.reason}"
                self._waiting.setdefault(exercise.cell_id, []).append(text)

    def _comment(self, gradebook: Any, solution: str, reasons: list[str], names: dict[str, str]) -> None:
        try:
            comment = gradebook.find_comment(solution, names["notebook"], names["assignment"], names["student"])
        except MissingEntry:
            self.log.warning("no solution cell %s to carry: %s", solution, "; ".join(reasons))
            return
        old = [comment.auto_comment] if comment.auto_comment else []
        comment.auto_comment = "\n".join(old + reasons)
        gradebook.db.commit()
