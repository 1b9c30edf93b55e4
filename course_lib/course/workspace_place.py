"""Bringing one file into the learner's copy: the decisions, by content alone.

Contract a file is exchanged only when its bytes equal something that the course handed out under that name,
         and the old one becomes a backup. Everything else is the learner's: what is new comes beside it.
"""

import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from .workspace_changes import cell_changes
from .workspace_files import STATE, beside, content, create, digest, exchange
from .workspace_manifest import Manifest, keep_release, kept_release
from .workspace_report import Report


@dataclass(frozen=True, slots=True)
class Handout:
    """A file as the course hands it out now."""

    path: str  # in the copy, with forward slashes
    data: bytes
    version: str
    action: str = "copied"

    @property
    def sha256(self) -> str:
        return digest(self.data)


@dataclass(slots=True)
class Place:
    """One run of a command on one copy: where it writes, what it knows, what it reports."""

    work: Path
    manifest: Manifest
    report: Report
    _backup: Path = field(init=False)

    def __post_init__(self) -> None:
        # the process id: two runs never share a folder, so a backup can never meet an older one
        stamp = f"{datetime.now(UTC):%Y%m%d-%H%M%S-%f}-{os.getpid()}"
        self._backup = self.work / STATE / "backups" / stamp

    def add_missing(self, handout: Handout) -> bool:
        """Hands it out if the name is free. True when it was."""
        if not create(self.work / handout.path, handout.data):
            return False
        self._handed_out(handout)
        self.manifest.record(handout.path).seen = [handout.sha256]
        self.report.add(handout.action, handout.path, handout.version, len(handout.data))
        return True

    def keep(self, handout: Handout) -> None:
        """There is a file already, and this command leaves it as it is."""
        mine = content(self.work / handout.path)
        if mine == handout.data:
            self._recognised(handout)
            return
        self.report.add("kept", handout.path)
        if not self.manifest.has_seen(handout.path, handout.sha256):
            self.report.say(f"{handout.path}: `labs update` brings version {handout.version}, beside your work")

    def bring_up_to_date(self, handout: Handout) -> None:
        """The file is there: exchange it if it is as handed out, else offer the new version beside it."""
        path = self.work / handout.path
        mine = content(path)
        news = self._news(handout, mine)  # before the new version counts as seen
        if mine == handout.data:
            self._recognised(handout)
        elif self.exchange(handout.path, handout.data):
            self._handed_out(handout)
            self.manifest.record(handout.path).seen = [handout.sha256]
            self.report.add("replaced", handout.path, handout.version, len(handout.data))
            self.report.say(f"{handout.path}: now version {handout.version}; you had not changed it. {news}".rstrip())
        elif self.manifest.has_seen(handout.path, handout.sha256):
            self.report.add("kept", handout.path, f"you have been given {handout.version} before")
        else:
            self._offer(handout, content(path))

    def exchange(self, path: str, data: bytes) -> bool:
        """Replaces an unedited, writable file, keeping it as a backup; False where it is anything else."""
        target = self.work / path
        mine = content(target)
        if mine is None or not self._unedited(path, mine) or _read_only(target):
            return False
        if not exchange(target, data, self._backup / path, lambda moved: self._unedited(path, moved)):
            return False
        self.report.backup = self._backup
        return True

    def beside(self, path: str, tag: str, data: bytes) -> tuple[str, bool]:
        """(name of the file beside `path` that now holds `data`, whether it is new)."""
        there, new = beside(self.work / path, tag, data)
        return there.relative_to(self.work).as_posix(), new

    def _unedited(self, path: str, data: bytes) -> bool:
        return self.manifest.was_handed_out(path, digest(data))

    def _recognised(self, handout: Handout) -> None:
        """The very bytes handed out now: whoever put them there, nothing of the learner's is in them."""
        if not self.manifest.has_seen(handout.path, handout.sha256):
            self._handed_out(handout)
            self.manifest.record(handout.path).seen = [handout.sha256]
        self.report.add("unchanged", handout.path, handout.version)

    def _handed_out(self, handout: Handout) -> None:
        keep_release(self.work, handout.data)
        self.manifest.record(handout.path).handed_out[handout.sha256] = handout.version

    def _offer(self, handout: Handout, mine: bytes | None) -> None:
        if mine is not None:
            create(self._backup / handout.path, mine)
            self.report.backup = self._backup
        news = self._news(handout, mine)
        name, new = self.beside(handout.path, f"new-{handout.version}", handout.data)
        self._handed_out(handout)
        self.manifest.record(handout.path).seen.append(handout.sha256)
        self.report.add("offered" if new else "kept", name if new else handout.path, handout.version, len(handout.data))
        own, offered = handout.path.rpartition("/")[2], name.rpartition("/")[2]
        self.report.say(
            f"{handout.path} is yours and stays; version {handout.version} lies beside it as {offered}. "
            f"{news} To take it over: copy cells you want into {own}; or copy your answers into {offered}, "
            f"give {own} another name, and {offered} the name {own}."
        )

    def _news(self, handout: Handout, mine: bytes | None) -> str:
        """Compared with the release that the learner's file was made from, else with the file itself."""
        seen = self.manifest.record(handout.path).seen
        basis = kept_release(self.work, seen[0]) if seen else None
        if not handout.path.endswith(".ipynb") or (basis is None and mine is None):
            return ""
        changes = cell_changes(basis or mine or b"", handout.data, answers_too=basis is not None)
        if changes is None:
            return "Your file is not a notebook that can be read, so the cells cannot be compared."
        return f"It has {changes}." if basis else f"Compared with yours it has {changes} (answer cells left out)."


def _read_only(path: Path) -> bool:
    """True for a file that somebody protected, also where the superuser, whom no mode stops, asks."""
    return not path.stat().st_mode & 0o200 or not os.access(path, os.W_OK)
