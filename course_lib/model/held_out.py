"""The held-out text: standard-library modules that no training saw, read from the Python that runs this.

So evaluation ships no text, and every learner has it. held_out.txt pins the modules, their order, and what their text was on some
Python versions; another patch release may differ by a few lines, which is why every threshold compares models on one text.

    python -m course_lib.model.held_out        the line that this Python would have in held_out.txt
"""

import hashlib
import platform
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("held_out.txt")


@dataclass(frozen=True, slots=True)
class HeldOutText:
    """One module's file, byte for byte."""

    module: str
    content: bytes

    def __bytes__(self) -> bytes:
        return self.content


def modules(python: str = "") -> tuple[str, ...]:
    """The held-out modules in their fixed order; with python="3.12" only those that this version has as one file."""
    rows = [line.split() for line in _lines("module")]
    return tuple(name for name, *versions in rows if not python or python in versions)


def read(stdlib: Path | None = None) -> tuple[HeldOutText, ...]:
    """The held-out modules of the running Python (or of another's Lib folder), in their fixed order."""
    folder = stdlib or Path(sysconfig.get_path("stdlib"))
    texts = []
    for module in modules(_version() if stdlib is None and _version() in known_versions() else ""):
        path = folder / f"{module.replace('.', '/')}.py"
        try:
            texts.append(HeldOutText(module, path.read_bytes()))
        except OSError as error:
            raise FileNotFoundError(
                f"the held-out module {module} is not at {path} ({error.strerror}); "
                "evaluation needs a Python with its standard library as files (python.org, pyenv, uv, Debian's python3)"
            ) from error
    return tuple(texts)


def digest(texts: tuple[HeldOutText, ...]) -> str:
    """sha256 over all bytes in order: two numbers may be compared when this is equal."""
    total = hashlib.sha256()
    for text in texts:
        total.update(text.content)
    return total.hexdigest()


def known_texts() -> dict[str, str]:
    """{Python version, as in "3.11.7": digest of its held-out text}, as recorded in held_out.txt."""
    return {version: sha for version, _files, _bytes, sha in (line.split() for line in _lines("text"))}


def known_versions() -> set[str]:
    """The minor versions ("3.11") for which the list says which modules exist."""
    return {version.rpartition(".")[0] for version in known_texts()}


def _version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _lines(kind: str) -> list[str]:
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix(f"{kind} ") for line in lines if line.startswith(f"{kind} ")]


if __name__ == "__main__":
    held_out = read()
    print("text", platform.python_version(), len(held_out), sum(len(text.content) for text in held_out), digest(held_out))
