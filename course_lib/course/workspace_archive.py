"""One .zip with all that a learner did, to carry it from one machine to the next.

Layout   course-export.json  header: format, course version, number of files, their bytes
         progress.json       list of progress events        manifest.json  what was handed out
         released/<sha256>   the releases the learner's files were made from
         files/<path>        the learner's files, sorted; the same work gives the same archive, byte for byte
Not here bringing it in again (workspace_import.py).
"""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

from .. import __version__
from .environment import environment
from .workspace_files import learner_files, new_part_name, take_name
from .workspace_lock import locked
from .workspace_manifest import Manifest, kept_release, load
from .workspace_report import Report, WorkspaceError, plain_errors, size_text

FORMAT = 1
HEADER, PROGRESS, MANIFEST, RELEASED, FILES = (
    "course-export.json", "progress.json", "manifest.json", "released/", "files/",
)  # fmt: skip
MAX_FILES = 20_000
MAX_FILE_BYTES = 256 * 1024**2
MAX_TOTAL_BYTES = 2 * 1024**3
MAX_DATA_BYTES = 64 * 1024**2  # each of the JSON members and releases
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the clock has no say in the bytes


@plain_errors
def export_copy(work: Path, target: Path) -> Report:
    """Writes `target`, which must not exist; it appears whole or not at all."""
    target = Path(target).expanduser().absolute()
    if os.path.lexists(target):
        raise WorkspaceError(f"{target} is there already and is not overwritten; give another name")
    if not target.parent.is_dir():
        raise WorkspaceError(f"{target.parent} is no folder; make it first, or give another place")
    report = Report(target)
    with locked(work):
        manifest, note = load(work)
        report.say(note)
        names = _choose(work, report)
        part = target.parent / new_part_name()
        try:
            with open(part, "xb") as whole:
                with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
                    _write(archive, work, names, manifest, report)
                whole.flush()
                os.fsync(whole.fileno())
                size_bytes = os.fstat(whole.fileno()).st_size
            if not take_name(part, target):
                raise WorkspaceError(f"{target} appeared meanwhile and is not overwritten; give another name")
        finally:
            part.unlink(missing_ok=True)
    count = len(report.files("exported"))
    report.say(
        f"{target}: {count} file{'s' * (count != 1)}, {size_text(report.size_bytes)}, and {report.events} "
        f"progress events in an archive of {size_text(size_bytes)}. "
        f"On the next machine: `labs import {target.name}`"
    )
    return report


def _choose(work: Path, report: Report) -> list[str]:
    """Names to export, within what an import accepts; each one left out is in the report with the reason."""
    names, left_out = learner_files(work)
    chosen, total_bytes = [], 0
    for name in names:
        path, size_bytes = work / name, (work / name).lstat().st_size
        if size_bytes > MAX_FILE_BYTES:
            left_out[name] = f"{size_text(size_bytes)}, more than {size_text(MAX_FILE_BYTES)}; copy it yourself"
        elif name.encode(errors="replace").decode() != name:
            left_out[name] = "its name is not UTF-8; rename it"
        elif any(ord(letter) < 32 or letter in "\\:" for letter in name):
            left_out[name] = "a backslash, colon or control character in its name; rename it"
        elif name.endswith(".zip") and is_export(path):
            left_out[name] = "an earlier export"
        else:
            chosen.append(name)
            total_bytes += size_bytes
    if len(chosen) > MAX_FILES or total_bytes > MAX_TOTAL_BYTES:
        raise WorkspaceError(
            f"{work} holds {len(chosen)} files with {size_text(total_bytes)}; an archive takes {MAX_FILES} "
            f"files and {size_text(MAX_TOTAL_BYTES)}. Move what is no work of yours (data, weights) out of it"
        )
    for name, reason in sorted(left_out.items()):
        report.add("left out", _printable(name), reason)
        report.say(f"left out: {_printable(name)} ({reason})")
    return chosen


def _write(archive: zipfile.ZipFile, work: Path, names: list[str], manifest: Manifest, report: Report) -> None:
    events = _events(work)
    report.events = len(events)
    written_bytes = 0
    for name in names:
        data = (work / name).read_bytes()
        _member(archive, FILES + name, data)
        report.add("exported", name, size_bytes=len(data))
        written_bytes += len(data)
    for sha256 in sorted({record.seen[0] for record in manifest.files.values() if record.seen}):
        if (release := kept_release(work, sha256)) is not None:
            _member(archive, RELEASED + sha256, release)
    _member(archive, MANIFEST, _json(manifest.to_json()))
    _member(archive, PROGRESS, _json(events))
    header = {"format": FORMAT, "course_version": __version__, "files": len(names), "bytes": written_bytes}
    _member(archive, HEADER, _json(header))


def _member(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name, LONG_AGO)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = 3  # the same bytes on every system
    info.external_attr = 0o100644 << 16
    archive.writestr(info, data)


def _events(work: Path) -> list[dict[str, Any]]:
    from . import progress

    with environment({"COURSE_HOME": str(work)}):
        try:
            return progress.export_events()
        except RuntimeError as error:
            raise WorkspaceError(f"your progress cannot be read, and an export without it would lose it: {error}") from error


def is_export(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return HEADER in archive.namelist()
    except (OSError, ValueError, zipfile.BadZipFile, NotImplementedError):
        return False


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()


def _printable(name: str) -> str:
    return name.encode(errors="backslashreplace").decode()
