"""Files of a learner's copy: written whole or not at all, never over something that is there.

Contract `create` and `exchange` lose no byte that somebody else writes at the same path at the same time: a
         name is taken with link(2), which fails when it is in use; an old file is moved away instead.
Not here deciding which file may be exchanged (workspace_place.py).
"""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

STATE = ".course"  # its presence marks a learner's copy
PART = re.compile(r"\.labs-[0-9a-f]{16}\.part")  # our unfinished files
NOT_THE_LEARNERS = frozenset(
    [
        ".git",
        STATE,
        ".ipynb_checkpoints",
        "__pycache__",
        ".pytest_cache",
        ".ruff_cache",
        ".mypy_cache",
        ".cache",
        ".triton",
        ".venv",
        "node_modules",
        ".ds_store",
    ]
)
NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EMLINK, errno.EXDEV)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def create(path: Path, source: bytes | BinaryIO) -> bool:
    """Writes a new file. False, and nothing changed, when the name is in use, if only by a dangling link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _write_part(path.parent, source)
    try:
        return take_name(part, path)
    finally:
        part.unlink(missing_ok=True)


def put(path: Path, data: bytes) -> None:
    """Writes one of *our* files (settings, manifest) over its old version, at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = _write_part(path.parent, data)
    try:
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def exchange(path: Path, data: bytes, aside: Path, may_go: Callable[[bytes], bool]) -> bool:
    """Moves the file at `path` to `aside` and writes `data` in its place, if `may_go` agrees to the bytes.

    It is asked only after the move, when nobody can change them under that name. Otherwise the file goes
    back and the answer is False, as it is where the system refuses the move (another disk, or in use).
    """
    aside.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(path, aside)
    except OSError:
        return False
    done = False
    try:
        done = may_go(aside.read_bytes()) and create(path, data)
    finally:
        if not done and take_name(aside, path):
            aside.unlink()
    return done


def beside(path: Path, tag: str, data: bytes) -> tuple[Path, bool]:
    """(a file next to `path` with `tag` before the suffix, then tag-2, tag-3, ...; whether it is new).

    A `#` in the tag stands for the number, from 1. A file that has such a name and these very bytes
    is used again.
    """
    count = 1
    while True:
        numbered = tag.replace("#", str(count)) if "#" in tag else tag if count == 1 else f"{tag}-{count}"
        candidate = path.with_name(f"{path.stem}.{numbered}{path.suffix}")
        if create(candidate, data):
            return candidate, True
        if content(candidate) == data:
            return candidate, False
        count += 1


def content(path: Path) -> bytes | None:
    """Bytes of a plain file; None for all else: nothing there, a link, a folder, no right to read."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            return None
        return path.read_bytes()
    except OSError:
        return None


def take_name(part: Path, path: Path) -> bool:
    """Gives `part` the name `path` as well, unless that is in use."""
    try:
        os.link(part, path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        try:  # a file system without hard links: reserve the name, then fill it at once
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            return False
        aside = part.with_name(new_part_name())
        shutil.copyfile(part, aside)
        os.replace(aside, path)
    _sync_folder(path.parent)
    return True


def new_part_name() -> str:
    return f".labs-{secrets.token_hex(8)}.part"


def _write_part(folder: Path, source: bytes | BinaryIO) -> Path:
    part = folder / new_part_name()
    try:
        with open(part, "xb") as file:
            shutil.copyfileobj(BytesIO(source) if isinstance(source, bytes) else source, file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return part


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can; the file itself is safe
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def learner_files(work: Path) -> tuple[list[str], dict[str, str]]:
    """(relative names of the learner's plain files, sorted; what is left out, and why)."""
    files: list[str] = []
    left_out: dict[str, str] = {}
    folders = [work]
    while folders:
        folder = folders.pop()
        for entry in os.scandir(folder):
            name = Path(entry.path).relative_to(work).as_posix()
            if entry.name.casefold() in NOT_THE_LEARNERS or PART.fullmatch(entry.name):
                continue
            if entry.is_symlink():
                left_out[name] = "a link"
            elif entry.is_dir(follow_symlinks=False):
                if os.access(entry.path, os.R_OK | os.X_OK):
                    folders.append(Path(entry.path))
                else:
                    left_out[name] = "no right to read it"
            elif entry.is_file(follow_symlinks=False):
                files.append(name)
            else:
                left_out[name] = "not a plain file"
    return sorted(files), left_out
