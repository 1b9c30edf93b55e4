"""One row for each submission in the grade book's own database: how grading ended, in a word and a sentence, and what waits."""

import datetime
import unicodedata
from dataclasses import dataclass
from typing import Any

GRADED, WAITING, UNSCORED, DIED = "graded", "graded, points waiting", "needs a look", "graded, kernel died"
FAILED, MALFORMED, MISSING = "failed", "malformed", "missing"

_CREATE = (
    "CREATE TABLE IF NOT EXISTS course_status (assignment TEXT NOT NULL, student TEXT NOT NULL, status TEXT NOT NULL, "
    "sentence TEXT NOT NULL, waiting_points REAL NOT NULL, run TEXT NOT NULL, at TEXT NOT NULL, "
    "PRIMARY KEY (assignment, student))"
)


def points(number: float, one: str, many: str) -> str:
    """"1 point waits", "2.5 points wait"."""
    return f"1 point {one}" if number == 1 else f"{number:g} points {many}"


def printable(text: str) -> str:
    """The text with control characters, and bytes of a file name that are no UTF-8, as escapes: a grade book can hold it."""
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if "\udc80" <= character <= "\udcff":  # how Python holds such a byte
        return f"\\x{ord(character) - 0xDC00:02x}"
    unsafe = unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
    return character.encode("unicode_escape").decode() if unsafe else character


@dataclass(frozen=True, slots=True)
class Status:
    """`word` is one of the constants above; `sentence` says it to the learner."""

    word: str
    sentence: str = ""

    @classmethod
    def of(cls, waiting_points: float, trouble: str, unscored: list[str], all_open: bool = False) -> "Status":
        """The status of a submission that was graded to its end. `all_open`: no exercise of it was attempted."""
        if unscored:
            return cls(UNSCORED, f"no verdict for {', '.join(unscored)}; an instructor has to look")
        if trouble:
            return cls(DIED, f"{trouble}; every exercise was judged on its own")
        if waiting_points:
            return cls(WAITING, f"{points(waiting_points, 'waits', 'wait')} for a machine with a GPU")
        if all_open:
            return cls(GRADED, "every exercise is still open")
        return cls(GRADED, "every point was judged")


def save_status(gradebook: Any, assignment: str, student: str, status: Status, waiting: float, run: str) -> None:
    """Replace the row of this submission."""
    from sqlalchemy import text

    gradebook.db.execute(text(_CREATE))
    gradebook.db.execute(
        text("INSERT OR REPLACE INTO course_status VALUES (:assignment, :student, :status, :sentence, :waiting, :run, :at)"),
        {
            "assignment": assignment, "student": student, "status": status.word, "sentence": printable(status.sentence),
            "waiting": waiting, "run": run, "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        },
    )  # fmt: skip
    gradebook.db.commit()


def add_to_sentence(gradebook: Any, assignment: str, student: str, more: str) -> None:
    """Tell one more thing in the sentence of a submission that has a row."""
    from sqlalchemy import text

    change = (
        "UPDATE course_status SET sentence = CASE sentence WHEN '' THEN :more ELSE sentence || '; ' || :more END "
        "WHERE assignment = :assignment AND student = :student"
    )
    gradebook.db.execute(text(change), {"more": printable(more), "assignment": assignment, "student": student})
    gradebook.db.commit()


def read_statuses(gradebook: Any) -> dict[tuple[str, str], tuple[Status, float]]:
    """(assignment, student) -> (status, waiting points)."""
    from sqlalchemy import text

    gradebook.db.execute(text(_CREATE))
    rows = gradebook.db.execute(text("SELECT assignment, student, status, sentence, waiting_points FROM course_status"))
    return {(row[0], row[1]): (Status(row[2], row[3]), float(row[4])) for row in rows}
