"""What a command on the learner's copy did, in lines for the terminal."""

from collections.abc import Iterator
from typing import Any

_QUIET = ("unchanged", "kept", "exported", "skipped")


def report_lines(report: Any) -> Iterator[str]:
    """One line for each file that something happened to, then the messages, then where everything is."""
    for item in report.items:
        if item.action not in _QUIET:
            note = f"  {item.note}" if item.note else ""
            yield f"{item.action:<9} {item.file}{note}"
    yield from report.messages
    if not report.changed and not report.messages:
        yield "nothing to do"
    yield f"{'archive' if report.files('exported') else 'your copy'}: {report.path}"
