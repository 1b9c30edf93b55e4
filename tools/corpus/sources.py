"""sources.toml as data: which archives there are, at which version, under which licence."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

SOURCES = Path(__file__).with_name("sources.toml")
KINDS = ("wheel", "sdist", "deb", "stdlib")


@dataclass(frozen=True, slots=True)
class Source:
    """One archive. `sha256` is "" until `fetch.py --pin` has written it; a stdlib has none: it is the running Python's."""

    name: str
    version: str
    kind: str
    licence: str  # SPDX, as read in the package's licence file
    why: str
    platform: str = "manylinux_2_28_x86_64"
    overrules: str = ""  # why the archive's own metadata is not believed
    sha256: str = ""

    @property
    def key(self) -> str:
        return f"{self.name}-{self.version}"


def load_sources(path: Path = SOURCES) -> list[Source]:
    """Every source in the file's order, which is also the order in which duplicates are looked for."""
    sources = [Source(**entry) for entry in tomllib.loads(path.read_text(encoding="utf-8"))["source"]]
    names = [source.name for source in sources]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"{path.name} lists {', '.join(sorted(twice))} twice")
    for source in sources:
        if source.kind not in KINDS:
            raise ValueError(f"{source.key}: kind {source.kind!r} is unknown; there are {', '.join(KINDS)}")
        if not re.match(r"\d", source.version):
            raise ValueError(f"{source.key}: the version must be pinned, got {source.version!r}")
    return sources
