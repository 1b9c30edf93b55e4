"""From archives to one clean text: text.bin, and documents.tsv that says where each document lies and where it came from.

Layout   text.bin: the documents one after the other; documents.tsv: start, bytes, kind, source, version, licence, path, sha256.
         dropped.tsv: reason, bytes, source, path of everything that was read and not kept.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import archives, clean, licences
from .duplicates import Duplicates
from .held_out import HeldOut
from .sources import Source

DOCUMENTS, DROPPED, TEXT = "documents.tsv", "dropped.tsv", "text.bin"


@dataclass(frozen=True, slots=True)
class Document:
    """One kept file. `start` and `bytes` count in text.bin; sha256 is of the cleaned text."""

    start: int
    bytes: int
    kind: str
    source: str
    version: str
    licence: str
    path: str
    sha256: str


def prepare(sources: list[Source], found: dict[str, Path], held_out: HeldOut, build: Path) -> None:
    """Read, judge and keep. A package whose licence does not fit is an error, since then sources.toml is wrong."""
    duplicates = Duplicates()
    start = 0
    with (
        (build / TEXT).open("wb") as text,
        (build / DOCUMENTS).open("w", encoding="utf-8") as kept,
        (build / DROPPED).open("w", encoding="utf-8") as dropped,
    ):
        for number, source in enumerate(sources, 1):
            said = licences.metadata_licence(archives.metadata(source, found[source.name]))
            if why := licences.refuse_package(source.licence, said, source.overrules):
                raise ValueError(f"{source.key} may not be used: {why}; remove it, or say in sources.toml what overrules that")
            files = bytes_kept = 0
            for path, raw in archives.documents(source, found[source.name]):
                why, content = judge(source, path, raw, held_out, duplicates)
                if why:
                    dropped.write(f"{why}\t{len(raw)}\t{source.name}\t{path}\n")
                    continue
                fields = (start, len(content), clean.kind_of(path), source.name, source.version, source.licence, path)
                kept.write("\t".join(map(str, fields)) + f"\t{hashlib.sha256(content).hexdigest()}\n")
                text.write(content)
                start, files, bytes_kept = start + len(content), files + 1, bytes_kept + len(content)
            print(f"prepare: {number}/{len(sources)} {source.key}: {files} files, {bytes_kept / 1e6:.1f} MB", flush=True)
            if not files:
                raise RuntimeError(f"{source.key}: nothing was kept; see {build / DROPPED}")


def judge(source: Source, path: str, raw: bytes, held_out: HeldOut, duplicates: Duplicates) -> tuple[str, bytes]:
    """(why this file is dropped or "", its cleaned text). Only what passes every other rule enters the duplicates."""
    why = clean.drop_path(path) or held_out.drop_path(path, source.kind == "stdlib") or licences.refuse_file(path, raw)
    if why:
        return why, b""
    content = clean.normalised(raw)
    why = clean.drop_content(content) or held_out.drop_content(content) or duplicates.drop(content)
    return why, content


def documents(build: Path) -> list[Document]:
    """What prepare() kept, in the order of text.bin."""
    rows = (line.split("\t") for line in (build / DOCUMENTS).read_text(encoding="utf-8").splitlines())
    return [Document(int(start), int(size), *rest) for start, size, *rest in rows]


def contents(build: Path, chosen: list[Document]) -> Iterator[bytes]:
    """The bytes of the chosen documents, one by one, in the order given."""
    with (build / TEXT).open("rb") as file:
        for document in chosen:
            file.seek(document.start)
            yield file.read(document.bytes)


def sums(build: Path) -> dict[str, dict[str, list[int]]]:
    """{"kept": {kind: [files, bytes]}, "dropped": {reason: [files, bytes]}} for the report."""
    table: dict[str, dict[str, list[int]]] = {"kept": {}, "dropped": {}}
    for document in documents(build):
        _add(table["kept"], document.kind, document.bytes)
    for line in (build / DROPPED).read_text(encoding="utf-8").splitlines():
        why, size, *_ = line.split("\t")
        _add(table["dropped"], why, int(size))
    return table


def _add(sums_of: dict[str, list[int]], name: str, size: int) -> None:
    entry = sums_of.setdefault(name, [0, 0])
    entry[0] += 1
    entry[1] += size
