"""nbgrader's configuration for this course, in one place: nbgrader_config.py at the root calls `configure`."""

from typing import Any

_STEPS = "course_lib.course.nbgrader_steps"
CELL_SECONDS = 120  # a slow first compilation fits; a hang costs this once


def configure(c: Any) -> None:
    """Set the folders and our steps on a traitlets Config."""
    c.CourseDirectory.course_id = "llm-inference"
    c.CourseDirectory.source_directory = "solutions"
    c.CourseDirectory.release_directory = "labs"
    c.CourseDirectory.submitted_directory = "grading/submitted"
    c.CourseDirectory.autograded_directory = "grading/autograded"
    c.CourseDirectory.feedback_directory = "grading/feedback"
    c.CourseDirectory.db_url = "sqlite:///grading/gradebook.db"
    c.GenerateAssignment.preprocessors = [
        "nbgrader.preprocessors.LockCells",
        f"{_STEPS}.release.ClearSolutions",
        "nbgrader.preprocessors.ClearOutput",
        f"{_STEPS}.release.StripRelease",
        "nbgrader.preprocessors.CheckCellMetadata",
        "nbgrader.preprocessors.ComputeChecksums",
        "nbgrader.preprocessors.SaveCells",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.Autograde.sanitize_preprocessors = [
        "nbgrader.preprocessors.ClearOutput",
        "nbgrader.preprocessors.DeduplicateIds",
        "nbgrader.preprocessors.OverwriteKernelspec",
        f"{_STEPS}.restore.OverwriteCells",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.Autograde.autograde_preprocessors = [
        f"{_STEPS}.execute.Execute",
        "nbgrader.preprocessors.LimitOutput",
        f"{_STEPS}.save_grades.SaveAutoGrades",
        "nbgrader.preprocessors.AssignLatePenalties",
        "nbgrader.preprocessors.CheckCellMetadata",
    ]
    c.OverwriteCells.add_missing_cells = True  # a deleted check comes back
    c.OverwriteCells.missing_cell_notification = ""
    c.ExecutePreprocessor.timeout = CELL_SECONDS
    c.Execute.timeout = CELL_SECONDS
    c.GenerateFeedback.preprocessors = [
        "nbgrader.preprocessors.GetGrades",
        f"{_STEPS}.feedback.WaitingPoints",
        "nbconvert.preprocessors.CSSHTMLHeaderPreprocessor",
    ]
    c.ExportApp.plugin_class = f"{_STEPS}.export.CourseExportPlugin"
