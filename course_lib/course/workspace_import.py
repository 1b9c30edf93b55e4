"""Bringing an exported archive into a learner's copy: what is new is added, what differs comes beside.

Contract the archive is checked whole (workspace_archive_check.py) before the first byte is written here. What
         it says was handed out never lets a file here be replaced: only this copy's own manifest does.
"""

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import workspace_archive as form
from .environment import environment
from .workspace_archive_check import BROKEN, Contents, checked
from .workspace_files import content, create, digest
from .workspace_git import snapshot
from .workspace_lock import locked
from .workspace_manifest import Manifest, Record, keep_release, load, save
from .workspace_place import Place
from .workspace_report import Report, WorkspaceError, plain_errors


@plain_errors
def import_archive(archive: Path, find_work: Callable[[], Path]) -> Report:
    """Imports into the copy that `find_work` names or makes; asked only once the archive is found good."""
    archive = Path(archive).expanduser().absolute()
    try:
        with open(archive, "rb") as file, zipfile.ZipFile(file) as opened:
            contents = checked(opened, archive)
            work = find_work()
            return _bring_in(opened, contents, work)
    except FileNotFoundError as error:
        if error.filename == str(archive):
            raise WorkspaceError(f"{archive} does not exist; give the .zip that `labs export` wrote") from error
        raise
    except BROKEN as error:
        raise WorkspaceError(
            f"{archive} is no whole archive of `labs export` ({error or type(error).__name__}); "
            "your files are as they were. Copy it again, or export again"
        ) from error


def _bring_in(opened: zipfile.ZipFile, contents: Contents, work: Path) -> Report:
    report = Report(work)
    with locked(work):
        for name in contents.files:
            _check_place(work, name)
        manifest, note = load(work)
        report.say(note)
        report.say(snapshot(work, "Your work before an import"))
        _merge_progress(work, contents.events, report)
        place = Place(work, manifest, report)
        for data in contents.releases:
            keep_release(work, data)
        for name in contents.files:
            _bring_in_file(place, name, opened.read(form.FILES + name), contents.manifest)
        save(work, manifest)
        if report.changed:
            report.say(snapshot(work, "Imported from an archive"))
    count = len(report.files("added")) + len(report.files("replaced")) + len(report.files("beside"))
    report.say(f"{count} files in, {len(report.files('skipped'))} skipped, {report.events} new progress events")
    return report


def _bring_in_file(place: Place, name: str, data: bytes, theirs: Manifest) -> None:
    path, report = place.work / name, place.report
    if create(path, data):
        report.add("added", name, size_bytes=len(data))
    elif content(path) == data:
        report.add("skipped", name, "the same as here")
        return
    elif theirs.was_handed_out(name, digest(data)) or place.manifest.was_handed_out(name, digest(data)):
        report.add("skipped", name, "as the course handed it out, nothing of yours in it")
        return
    elif place.exchange(name, data):
        report.add("replaced", name, "the one here was as handed out", len(data))
    else:
        other, new = place.beside(name, "imported-#", data)
        report.add("beside" if new else "skipped", other, f"{name} has other content here", len(data))
        if new:
            report.say(f"{name} is another one here and stays as it is; the imported one is {other}")
        return
    if name in theirs.files or name in place.manifest.files:
        mine, seen = place.manifest.record(name), theirs.files.get(name, Record()).seen
        mine.seen = list(seen)  # an offer is due for every release that the imported file does not know
        if mine.handed_out and not mine.handed_out.keys() & set(seen):
            report.say(f"{name} was made from another version of the lab; `labs update` brings the new one beside it")


def _merge_progress(work: Path, events: list[dict[str, Any]], report: Report) -> None:
    from . import progress

    with environment({"COURSE_HOME": str(work)}):
        merged = progress.merge_events(events)
    report.events = int(merged)
    report.say(getattr(merged, "message", ""))
    if skipped := getattr(merged, "skipped", 0):
        report.say(f"{skipped} of {len(events)} progress events in the archive make no sense and were left out")


def _check_place(work: Path, name: str) -> None:
    """Every folder on the way must be a folder of this copy, or not there yet."""
    at = work
    for part in name.split("/")[:-1]:
        at = at / part
        if at.is_symlink() or (at.exists() and not at.is_dir()):
            kind = "a link" if at.is_symlink() else "a file"
            raise WorkspaceError(f"{at} is {kind} here and a folder in the archive; move it away and import again")
