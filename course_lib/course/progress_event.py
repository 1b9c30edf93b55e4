"""One progress event: what a check or a grade decided about one cell, as plain data that never changes again.

The same dict is a row of the database, a line of the spool file and an element of an export.
"""

import json
import math
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from .. import __version__
from ..grading.outcome import ExerciseState
from ..grading.verdict import Verdict

SOURCES = ("live", "check", "judge", "grade")
# The verdict is last: in a damaged file the short columns before it can be read without it.
COLUMNS = ("uuid", "at", "exercise", "cell", "source", "score", "max_points", "waiting_points", "state", "best_ratio",
           "device", "course_version", "verdict")  # fmt: skip
MAX_STRING = 10_000
MAX_VERDICT = 1_000_000  # characters of JSON; a longer one is dropped, its numbers stay in the other columns


def new_event(verdict: Verdict, source: str) -> dict[str, Any]:
    """The event of a verdict reached now. Raises ValueError for an unknown source."""
    if source not in SOURCES:
        raise ValueError(f"source {source!r}; known are {SOURCES}")
    details = _plain(verdict.to_json())
    return checked_event({
        "uuid": str(uuid.uuid4()), "at": datetime.now(UTC).isoformat(),
        "exercise": verdict.exercise, "cell": verdict.cell, "source": source,
        "score": verdict.score, "max_points": verdict.max_points, "waiting_points": verdict.waiting_points,
        "state": str(verdict.state), "best_ratio": verdict.best_ratio,
        "device": str(verdict.context.get("device") or ""), "course_version": __version__,
        "verdict": details if len(json.dumps(details)) <= MAX_VERDICT else None,
    })  # fmt: skip


def checked_event(data: Mapping[str, Any]) -> dict[str, Any]:
    """The event in `data`, with the columns we know and times in one UTC format. Raises ValueError if it is none."""
    try:
        most = _number(data["max_points"], math.inf)
        ratio = data["best_ratio"]
        return {
            "uuid": str(uuid.UUID(data["uuid"])),
            "at": _utc(data["at"]),
            "exercise": _word(data["exercise"]), "cell": _word(data["cell"]), "source": _word(data["source"]),
            "score": _number(data["score"], most), "max_points": most,
            "waiting_points": _number(data["waiting_points"], most),
            "state": str(ExerciseState(data["state"])),
            "best_ratio": None if ratio is None else _number(ratio, math.inf),
            "device": _text(data["device"]), "course_version": _text(data["course_version"]),
            "verdict": data["verdict"] if isinstance(data["verdict"], dict) else None,
        }  # fmt: skip
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a progress event: {error!r}") from error


def to_row(event: Mapping[str, Any]) -> tuple:
    """The event as a database row: its columns, the verdict as JSON text."""
    verdict = event["verdict"]
    return (*(event[name] for name in COLUMNS[:-1]), None if verdict is None else json.dumps(verdict))


def from_row(row: Sequence[Any]) -> dict[str, Any]:
    """The event of a row. Raises ValueError. A verdict that cannot be read is dropped: its numbers are enough."""
    *values, verdict = row
    try:
        verdict = json.loads(verdict) if verdict else None
    except (ValueError, TypeError, RecursionError):
        verdict = None
    return checked_event(dict(zip(COLUMNS, (*values, verdict), strict=True)))


def _plain(value: Any) -> Any:
    """Plain, finite, bounded JSON: learners print strange things, and evidence may hold anything."""
    if isinstance(value, str):
        return str(value[:MAX_STRING])
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return f"<{type(value).__name__}>"


def _number(value: Any, most: float) -> float:
    """A finite number between 0 and `most`, with a hair of rounding allowed at the top."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"{value!r:.60} is not a number")
    number = float(value)
    if not math.isfinite(number) or not 0 <= number <= most + 1e-9:
        raise ValueError(f"{number} is not between 0 and {most}")
    return min(number, most)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.60} is not text")
    return value[:200].encode("utf-8", "replace").decode("utf-8")  # lone surrogates cannot be stored


def _word(value: Any) -> str:
    text = _text(value)
    if not text or text != value:
        raise ValueError(f"{value!r:.60} is not a name")
    return text


def _utc(value: Any) -> str:
    """One fixed format, so that times sort as text. Raises ValueError for a time without a zone."""
    time = datetime.fromisoformat(value)
    if time.tzinfo is None:
        raise ValueError(f"the time {value!r} has no zone")
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
