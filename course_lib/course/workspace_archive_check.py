"""Is this archive one of ours, whole and harmless? Reads all of it and writes nothing.

Why      it is somebody's file: names that leave the folder, links, and a few kilobytes that unpack to
         terabytes must end in a message that names the value, the limit and the next step.
"""

import json
import stat
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import workspace_archive as form
from .workspace_files import NOT_THE_LEARNERS
from .workspace_manifest import SHA256, Manifest, parse
from .workspace_report import WorkspaceError, size_text

BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    ValueError,
    OverflowError,
)
MAX_NAME_BYTES = 200  # of one part of a path: file systems take 255, and "imported-1" must still fit
OTHER_MEMBERS = 1000  # header, progress, manifest, releases


@dataclass(frozen=True, slots=True)
class Contents:
    files: tuple[str, ...]  # relative, checked
    manifest: Manifest
    events: list[dict[str, Any]]
    releases: tuple[bytes, ...]


def checked(opened: zipfile.ZipFile, archive: Path) -> Contents:
    def refuse(what: str, next_step: str = "it was not written by `labs export`") -> WorkspaceError:
        return WorkspaceError(f"{archive}: {what}; {next_step}. Nothing was imported")

    members = [info for info in opened.infolist() if not info.is_dir()]
    names = [info.filename for info in members]
    if form.HEADER not in names:
        raise refuse(f"there is no {form.HEADER} in it")
    if len(members) > form.MAX_FILES + OTHER_MEMBERS:
        raise refuse(f"{len(members)} files, the limit is {form.MAX_FILES}")
    total_bytes = sum(info.file_size for info in members)
    if total_bytes > form.MAX_TOTAL_BYTES + 4 * form.MAX_DATA_BYTES:
        raise refuse(f"{size_text(total_bytes)} unpacked, the limit is {size_text(form.MAX_TOTAL_BYTES)}")
    for info in members:
        limit = form.MAX_FILE_BYTES if info.filename.startswith(form.FILES) else form.MAX_DATA_BYTES
        if info.file_size > limit:
            raise refuse(f"{info.filename!r} is {size_text(info.file_size)} unpacked, the limit is {size_text(limit)}")
        mode = info.external_attr >> 16
        if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
            raise refuse(f"{info.filename!r} is a link or a device, only plain files are taken")
        if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise refuse(f"{info.filename!r} is encrypted or packed by a method that is not used here")
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise refuse(f"{name!r} is in it {count} times")
    header = _json(opened, form.HEADER, refuse)
    version = header.get("format") if isinstance(header, dict) else None
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise refuse(f"format {version!r} in its header, expected a number from 1 to {form.FORMAT}")
    if version > form.FORMAT:
        made_by = str(header.get("course_version"))[:40]
        newer = f"bring this course up to date (the archive was made by version {made_by})"
        raise refuse(f"format {version}, this course reads up to format {form.FORMAT}", newer)
    files = [name.removeprefix(form.FILES) for name in names if name.startswith(form.FILES)]
    for name in files:
        if problem := _name_problem(name):
            raise refuse(f"the name {name!r} {problem}")
    taken = set(files)
    for name in files:
        if clash := next((at for at in _folders(name) if at in taken), None):
            raise refuse(f"{clash!r} is both a file and a folder in it")
    if unknown := [n for n in names if not _known(n)]:
        raise refuse(f"{unknown[0]!r} has no meaning in format {version}")
    for name in names:
        with opened.open(name) as member:  # reads to the end: sizes and checksums are true from here on
            while member.read(1 << 20):
                pass
    events = _json(opened, form.PROGRESS, refuse) if form.PROGRESS in names else []
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise refuse(f"{form.PROGRESS} is no list of events")
    try:
        manifest = parse(opened.read(form.MANIFEST)) if form.MANIFEST in names else Manifest()
    except ValueError as error:
        raise refuse(f"{form.MANIFEST} cannot be read ({error})") from error
    releases = tuple(opened.read(name) for name in names if name.startswith(form.RELEASED))
    return Contents(tuple(sorted(files)), manifest, events, releases)


def _json(opened: zipfile.ZipFile, name: str, refuse: Callable[..., WorkspaceError]) -> Any:
    try:
        return json.loads(opened.read(name))
    except (ValueError, RecursionError) as error:
        raise refuse(f"{name} is no JSON ({error})") from error


def _known(name: str) -> bool:
    release = name.startswith(form.RELEASED) and SHA256.fullmatch(name.removeprefix(form.RELEASED))
    return name in (form.HEADER, form.PROGRESS, form.MANIFEST) or name.startswith(form.FILES) or bool(release)


def _name_problem(name: str) -> str | None:
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or ":" in name:
        return "is absolute or not written with forward slashes"
    if any(part in ("", ".", "..") for part in parts):
        return "does not stay inside the folder"
    if any(ord(letter) < 32 for letter in name):
        return "has control characters"
    if any(part.casefold().rstrip(". ") in NOT_THE_LEARNERS for part in parts):
        return "is not a learner's file"
    if any(len(part.encode(errors="replace")) > MAX_NAME_BYTES for part in parts) or len(name) > 1000:
        return f"is too long, the limit is {MAX_NAME_BYTES} bytes for each part"
    return None


def _folders(name: str) -> list[str]:
    parts = name.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]
