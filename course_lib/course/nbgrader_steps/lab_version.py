"""Which version of a lab the grade book knows, kept in the grade book itself, and which one a submission was made from."""

from pathlib import Path
from typing import Any

_CREATE = "CREATE TABLE IF NOT EXISTS course_lab (assignment TEXT PRIMARY KEY, version TEXT NOT NULL)"


def registered_version(gradebook: Any, assignment: str) -> str:
    """The version that was registered last, or ""."""
    from sqlalchemy import text

    gradebook.db.execute(text(_CREATE))
    row = gradebook.db.execute(text("SELECT version FROM course_lab WHERE assignment = :a"), {"a": assignment}).first()
    return row[0] if row else ""


def save_version(gradebook: Any, assignment: str, version: str) -> None:
    """Remember the version that the grade book now holds."""
    from sqlalchemy import text

    gradebook.db.execute(text(_CREATE))
    gradebook.db.execute(text("INSERT OR REPLACE INTO course_lab VALUES (:a, :v)"), {"a": assignment, "v": version})
    gradebook.db.commit()


def version_of(notebook: Path) -> str:
    """The lab version that a notebook's metadata names; "" when it names none."""
    import json

    try:
        metadata = json.loads(notebook.read_text(encoding="utf-8"))["metadata"]
        return str(metadata["course"]["lab_version"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""
