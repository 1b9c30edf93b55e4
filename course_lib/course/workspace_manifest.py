"""What a learner's copy was handed out: the memory that tells an untouched file from an edited one.

Layout   <work>/.course/manifest.json
             {"format": 1, "files": {path: {"handed_out": {sha256: version}, "seen": [sha256]}}}
         <work>/.course/released/<sha256>  the bytes, to say later what a new version changes
Contract `handed_out` only grows. `seen` lists the releases that the learner's present file knows: the one it
         was made from, then each one offered. An unreadable manifest makes every file count as edited.
"""

import contextlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .workspace_files import STATE, content, create, digest, put

FORMAT = 1
SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(slots=True)
class Record:
    handed_out: dict[str, str] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Manifest:
    files: dict[str, Record] = field(default_factory=dict)

    def record(self, path: str) -> Record:
        """The record to change; made when there is none."""
        return self.files.setdefault(path, Record())

    def was_handed_out(self, path: str, sha256: str) -> bool:
        return path in self.files and sha256 in self.files[path].handed_out

    def has_seen(self, path: str, sha256: str) -> bool:
        return path in self.files and sha256 in self.files[path].seen

    def to_json(self) -> dict[str, Any]:
        files = {path: {"handed_out": r.handed_out, "seen": r.seen} for path, r in sorted(self.files.items())}
        return {"format": FORMAT, "files": files}

    @classmethod
    def from_json(cls, data: Any) -> "Manifest":
        """Raises ValueError for anything that this version did not write."""
        if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("files"), dict):
            raise ValueError(f"expected format {FORMAT} with files")
        manifest = cls()
        for path, entry in data["files"].items():
            handed_out, seen = entry.get("handed_out"), entry.get("seen")  # AttributeError: see load
            if not isinstance(handed_out, dict) or not isinstance(seen, list):
                raise ValueError(f"{path}: expected handed_out and seen")
            if not all(isinstance(sha, str) and SHA256.fullmatch(sha) for sha in (*handed_out, *seen)):
                raise ValueError(f"{path}: expected sha256 sums")
            manifest.files[path] = Record({sha: str(version) for sha, version in handed_out.items()}, list(seen))
        return manifest


def parse(data: bytes) -> Manifest:
    """Raises ValueError for anything but a manifest of this format."""
    try:
        return Manifest.from_json(json.loads(data))
    except (AttributeError, RecursionError) as error:
        raise ValueError(f"no manifest ({error!r})") from error


def load(work: Path) -> tuple[Manifest, str | None]:
    """The manifest, and a sentence when it was damaged: it is moved aside then, and an empty one is used."""
    path = work / STATE / "manifest.json"
    data = content(path)
    if data is None:
        return Manifest(), None
    try:
        return parse(data), None
    except ValueError as error:
        kept = path.with_name(f"manifest.damaged-{digest(data)[:12]}.json")
        create(kept, data)
        path.unlink()
        return Manifest(), (
            f"{path} cannot be read ({error}); kept as {kept.name}. Every notebook counts as edited by you: "
            "none will be replaced, new versions come beside"
        )


def save(work: Path, manifest: Manifest) -> None:
    """Writes the manifest if it changed."""
    path = work / STATE / "manifest.json"
    text = json.dumps(manifest.to_json(), indent=1, ensure_ascii=False) + "\n"
    if content(path) != text.encode():
        put(path, text.encode())


def keep_release(work: Path, data: bytes) -> None:
    create(work / STATE / "released" / digest(data), data)


def kept_release(work: Path, sha256: str) -> bytes | None:
    """The bytes handed out under this sum, if they are still there and whole."""
    with contextlib.suppress(OSError):
        data = content(work / STATE / "released" / sha256)
        if data is not None and digest(data) == sha256:
            return data
    return None
