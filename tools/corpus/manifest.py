"""What the weights must carry with them: manifest.tsv, files.tsv.xz and NOTICE, made from the documents that were encoded.

manifest.tsv   one line per archive: package, version, licence, archive, its sha256, files and bytes kept, sha256 of their lines.
files.tsv.xz   one line per file that was learned from: package, version, licence, path, sha256 of the cleaned text.
NOTICE         whose work it is: each package's licence and the copyright lines of its licence and NOTICE files.
"""

import hashlib
import lzma
import platform
import re
import tarfile
import zipfile
from pathlib import Path

from .encode import chosen
from .fetch import sha256_of
from .prepare import Document, documents
from .sources import Source

OUTPUTS = ("manifest.tsv", "files.tsv.xz", "NOTICE")
HEAD = "package\tversion\tlicence\tarchive\tarchive_sha256\tfiles\tbytes\tfiles_sha256\n"
NOTICE_HEAD = """\
The weights in this folder were trained on the source text of the packages below. None of that text is included.
Each line names a package, its version and its licence (SPDX); the copyright lines come from its own licence and NOTICE files.
manifest.tsv pins the archives, files.tsv.xz lists every file. CPython's files and documentation are
Copyright (c) 2001-2023 Python Software Foundation; All Rights Reserved.
"""


def run(build: Path, sources: list[Source], found: dict[str, Path]) -> None:
    folder = build / "release"
    folder.mkdir(exist_ok=True)
    kept = chosen(documents(build))
    rows, notice, every = [HEAD], [NOTICE_HEAD], []
    for source in sources:
        lines = file_lines([document for document in kept if document.source == source.name])
        every += lines
        archive = found[source.name]
        # a standard library is a folder of the running Python: its version and the files' own hashes stand for it
        name, sha = (
            (f"Lib of Python {platform.python_version()}", "-") if source.kind == "stdlib" else (archive.name, sha256_of(archive))
        )
        size = sum(document.bytes for document in kept if document.source == source.name)
        digest = hashlib.sha256("".join(lines).encode()).hexdigest()
        rows.append(f"{source.name}\t{source.version}\t{source.licence}\t{name}\t{sha}\t{len(lines)}\t{size}\t{digest}\n")
        notice.append(f"\n{source.name} {source.version}  {source.licence}\n")
        lines = copyright_lines(licence_texts(source, archive))
        if not lines and source.kind in ("wheel", "sdist"):
            lines = ["(its licence files state no copyright line)"]
        notice += [f"  {line}\n" for line in lines]
    (folder / "manifest.tsv").write_text("".join(rows), encoding="utf-8")
    (folder / "files.tsv.xz").write_bytes(lzma.compress("".join(every).encode(), preset=9))
    (folder / "NOTICE").write_text("".join(notice), encoding="utf-8")
    print(f"manifest: {len(sources)} archives, {len(every)} files", flush=True)


def file_lines(kept: list[Document]) -> list[str]:
    """The lines of files.tsv for one package."""
    return [f"{d.source}\t{d.version}\t{d.licence}\t{d.path}\t{d.sha256}\n" for d in kept]


def licence_texts(source: Source, archive: Path) -> list[str]:
    """The package's own licence files: at the top of an sdist, in a wheel's metadata; a bundled library's are not its own."""
    if source.kind == "wheel":
        with zipfile.ZipFile(archive) as file:
            own = re.compile(r"[^/]+\.dist-info/(licenses/)?(LICEN[SC]E|COPYING|NOTICE)[^/]*", re.I)
            names = sorted((name for name in file.namelist() if own.fullmatch(name)), key=_own_first)
            return [file.read(name).decode(errors="replace") for name in names]
    if source.kind == "sdist":
        with tarfile.open(archive) as file:
            own = re.compile(r"[^/]+/(LICEN[SC]E|COPYING|NOTICE)[^/]*", re.I)
            return [file.extractfile(m).read().decode(errors="replace") for m in file if m.isfile() and own.fullmatch(m.name)]
    return []


def _own_first(name: str) -> tuple[bool, int]:
    """LICENSE before LICENSE_FONTS, and both before NOTICE."""
    return "notice" in name.lower(), len(name)


def copyright_lines(texts: list[str]) -> list[str]:
    """Lines that state a copyright, each once, at most eight; not those of libraries bundled with a binary."""
    own = [re.split(r"binary distribution of|also bundle", text)[0] for text in texts]
    found = [line.strip(" \t#-*") for text in own for line in text.splitlines() if re.match(r"\W*(copyright\b|©)", line, re.I)]
    stated = [line for line in found if re.search(r"\d{4}|©|\(c\)", line, re.I)]
    if not stated:  # quoted in a sentence, as matplotlib's licence has it
        stated = [" ".join(match.split()) for text in own for match in re.findall(r"Copyright \(c\)\s+\d{4}[^\"\n]*", text)]
    return list(dict.fromkeys(stated))[:8]
