"""Fetch the pinned archives with pip and apt, and check each against its sha256.

    python -m tools.corpus.fetch FOLDER [--pin]      --pin writes the sha256 of what came into sources.toml

Nothing is installed and no package code runs: wheels are only downloaded, and an sdist is not built.
"""

import hashlib
import re
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import urllib.parse
from collections.abc import Iterator
from pathlib import Path

from .sources import SOURCES, Source, load_sources

# wheels are read, never run, so one platform serves every machine
OLDER_LINUX = ("manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


def fetch(sources: list[Source], folder: Path) -> dict[str, Path]:
    """{source name: its archive in `folder`, or the standard library's folder}. What is there already is not fetched again."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for number, source in enumerate(sources, 1):
        place = folder / source.key
        archive = _only_file(place)
        if source.kind == "stdlib":
            archive = standard_library(source.version)
        elif archive is None:
            print(f"fetch: {number}/{len(sources)} {source.key}", flush=True)
            archive = _download(source, place)
        if source.sha256 and sha256_of(archive) != source.sha256:
            has = f"{archive} has sha256 {sha256_of(archive)}"
            raise ValueError(f"{has}, sources.toml pins {source.sha256}; remove it and try again")
        found[source.name] = archive
    return found


def standard_library(version: str) -> Path:
    """The running Python's Lib folder, when it is the pinned minor version and has its tests (Debian's python3 has not)."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if here != version:
        raise RuntimeError(f"the corpus pins the standard library of Python {version}; this is {here}: use python{version}")
    folder = Path(sysconfig.get_path("stdlib"))
    if not (folder / "test" / "test_argparse.py").is_file():
        raise RuntimeError(f"{folder} has no test/ folder; use a Python built from source (python.org, pyenv, uv)")
    return folder


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _only_file(place: Path) -> Path | None:
    files = sorted(place.iterdir()) if place.is_dir() else []
    return files[0] if files else None


def _download(source: Source, place: Path) -> Path:
    """Into a temporary neighbour first: a broken download leaves no folder that looks finished."""
    with tempfile.TemporaryDirectory(dir=place.parent) as temporary:
        command = _command(source, temporary)
        done = subprocess.run(command, cwd=temporary, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {(done.stderr or done.stdout).strip()[-500:]}")
        archive = _only_file(Path(temporary))
        if archive is None:
            raise RuntimeError(f"{' '.join(command)} brought no file")
        place.mkdir(exist_ok=True)
        return archive.rename(place / urllib.parse.unquote(archive.name))


def _command(source: Source, folder: str) -> list[str]:
    if source.kind == "deb":
        return ["apt-get", "download", f"{source.name}={source.version}"]
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder]
    wish = f"{source.name}=={source.version}"
    if source.kind == "sdist":
        # pip would run a package's build to learn its metadata; PEP 517 isolation keeps that out of this environment
        return [*pip, "--no-binary", source.name, wish]
    platforms = [source.platform, *(OLDER_LINUX if source.platform.startswith("manylinux") else ())]
    flags = [flag for platform in platforms for flag in ("--platform", platform)]
    return [*pip, "--only-binary", ":all:", "--python-version", "3.12", *flags, wish]


def pinned(text: str, hashes: dict[str, str]) -> str:
    """sources.toml's text with a sha256 line in each entry of `hashes` ({name: sha256}); the rest is untouched."""

    def entry(match: re.Match[str]) -> str:
        name = tomllib.loads(match.group(1))["name"]
        body = re.sub(r"^sha256 = .*\n", "", match.group(1), flags=re.M)
        return "[[source]]\n" + body + (f'sha256 = "{hashes[name]}"\n' if name in hashes else "")

    return re.sub(r"\[\[source\]\]\n((?:\w+ = .*\n)+)", entry, text)


def _hashes(archives: dict[str, Path]) -> Iterator[tuple[str, str]]:
    return ((name, sha256_of(path)) for name, path in archives.items() if path.is_file())


if __name__ == "__main__":
    archives = fetch(load_sources(), Path(sys.argv[1]))
    if "--pin" in sys.argv[2:]:
        SOURCES.write_text(pinned(SOURCES.read_text(encoding="utf-8"), dict(_hashes(archives))), encoding="utf-8")
    print(f"fetch: {len(archives)} sources at hand")
