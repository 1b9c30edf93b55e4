"""What a command on the learner's copy did, as data for the command line to show; and why it could not."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ParamSpec, TypeVar

from .release import ReleaseError

P = ParamSpec("P")
R = TypeVar("R")

CHANGING = ("created", "copied", "replaced", "offered", "added", "beside")


class WorkspaceError(Exception):
    """The command stopped and changed no file of the learner; the message says why and what to do next."""


@dataclass(frozen=True, slots=True)
class Item:
    """One file and what happened to it.

    created    README.md and the like, not there before     copied    a lab that was not there yet
    unchanged  equal to what the course hands out now       kept      the learner's, left as it is
    replaced   was as handed out, the old one is a backup   offered   a new version, under this new name
    added      came from an archive                         beside    came from one, under this new name
    skipped    in an archive, but nothing new               exported  is in the archive now
    left out   not in the archive, `note` says why
    """

    action: str
    file: str  # relative to the copy, with forward slashes
    note: str = ""
    size_bytes: int = 0


@dataclass(slots=True)
class Report:
    path: Path  # the learner's copy; for an export the archive
    items: list[Item] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)  # sentences for the learner, in order
    backup: Path | None = None  # folder with the files as they were before
    events: int = 0  # progress events exported, or merged and new

    @property
    def changed(self) -> bool:
        """True when a file came or changed; a snapshot in git alone changes nothing."""
        return any(item.action in CHANGING for item in self.items)

    @property
    def size_bytes(self) -> int:
        return sum(item.size_bytes for item in self.items)

    def files(self, action: str) -> list[str]:
        return [item.file for item in self.items if item.action == action]

    def add(self, action: str, file: str, note: str = "", size_bytes: int = 0) -> None:
        self.items.append(Item(action, file, note, size_bytes))

    def say(self, message: str | None) -> None:
        if message and message not in self.messages:
            self.messages.append(message)


def size_text(size_bytes: float) -> str:
    """1536 -> "1.5 KiB"."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size_bytes < 1024 or unit == "GiB":
            return f"{size_bytes:.0f} bytes" if unit == "bytes" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1024
    raise AssertionError("unreachable")


def plain_errors(command: Callable[P, R]) -> Callable[P, R]:
    """What the system refuses (full disk, read-only folder) becomes a WorkspaceError with file and reason."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except ReleaseError as error:
            raise WorkspaceError(str(error)) from error
        except OSError as error:
            name = error.filename2 or error.filename
            where = f"{name}: " if name else ""
            raise WorkspaceError(
                f"{where}{error.strerror or error}; your files are as they were. "
                "Make room or give yourself the right to write there, then run the command again"
            ) from error

    return run
