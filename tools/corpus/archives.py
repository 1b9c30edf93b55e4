"""Read the text files of an archive without unpacking it to disk: (path, bytes), in the order of the paths."""

import io
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from .sources import Source

TEXT = (".py", ".pyi", ".md", ".rst", ".rst.txt")
DOC_FOLDERS = ("docs/", "doc/", "documentation/")  # where a plain .txt is prose (Django's documentation) and not a table
LARGEST_BYTES = 4_000_000  # beyond this a file is not even read; clean.py's limit is far lower


def is_text(path: str) -> bool:
    return path.endswith(TEXT) or (path.endswith(".txt") and any(f"/{folder}" in f"/{path}" for folder in DOC_FOLDERS))


def documents(source: Source, archive: Path) -> Iterator[tuple[str, bytes]]:
    """Every text file of the archive, by path; paths have no leading slash and no sdist's top folder."""
    reader = {"wheel": _wheel, "sdist": _sdist, "deb": _deb, "stdlib": _folder}[source.kind]
    yield from reader(archive)


def metadata(source: Source, archive: Path) -> str:
    """METADATA of a wheel, PKG-INFO of an sdist, "" for what has neither."""
    if source.kind == "wheel":
        with zipfile.ZipFile(archive) as file:
            return next(file.read(n).decode() for n in file.namelist() if n.endswith(".dist-info/METADATA"))
    if source.kind == "sdist":
        with tarfile.open(archive) as file:
            member = next(m for m in file if m.name.endswith("/PKG-INFO"))
            return file.extractfile(member).read().decode()
    return ""


def _wheel(archive: Path) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as file:
        for entry in sorted(file.infolist(), key=lambda entry: entry.filename):
            if is_text(entry.filename) and entry.file_size <= LARGEST_BYTES:
                yield entry.filename, file.read(entry)


def _sdist(archive: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(archive) as file:
        yield from ((path.partition("/")[2], content) for path, content in _members(file))


def _deb(archive: Path) -> Iterator[tuple[str, bytes]]:
    done = subprocess.run(["dpkg-deb", "--fsys-tarfile", str(archive)], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as file:
        yield from ((path.removeprefix("./"), content) for path, content in _members(file))


def _members(file: tarfile.TarFile) -> list[tuple[str, bytes]]:
    found = [(m.name, file.extractfile(m).read()) for m in file if m.isfile() and is_text(m.name) and m.size <= LARGEST_BYTES]
    return sorted(found)


def _folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.startswith("site-packages/") or not is_text(name) or path.is_symlink() or not path.is_file():
            continue
        if path.stat().st_size <= LARGEST_BYTES:
            yield name, path.read_bytes()
