"""Released labs: where the notebooks lie that learners get, and what exactly they are.

Layout   <labs>/phaseN_name/phaseN_name.ipynb, nothing else counts
Contract a Release carries the bytes it describes: hash, version and content belong together, whatever is
         built meanwhile.
Not here giving them to a learner (workspace.py), building them (the notebook build).
"""

import hashlib
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import course_lib

PACKAGE = Path(course_lib.__file__).resolve().parent


class ReleaseError(Exception):
    """The released labs cannot be used; the message says which, why and what to do."""


@dataclass(frozen=True, slots=True)
class Release:
    phase: str  # name of the folder and of the notebook in it
    notebook: Path
    sha256: str
    version: str  # safe as part of a file name
    data: bytes = field(repr=False)

    @property
    def relative(self) -> str:
        """Where the notebook belongs in a learner's copy."""
        return f"{self.phase}/{self.phase}.ipynb"


def repo_root() -> Path | None:
    """The clone that this package lies in; None for an installed course."""
    above = PACKAGE.parent
    return above if (above / "pyproject.toml").is_file() and (above / "labs").is_dir() else None


def labs_dir() -> Path:
    """Folder of the released notebooks: `labs/` of the clone, else the one that the wheel brings along."""
    clone, installed = PACKAGE.parent / "labs", PACKAGE / "_labs"
    if repo_root():
        return clone
    if installed.is_dir():
        return installed
    raise ReleaseError(
        f"no released labs: neither {clone} (with a pyproject.toml beside it) nor {installed} exists; "
        "run `make build` in a clone, or install the course again"
    )


def released() -> list[Release]:
    """Every released notebook, in order of phase. A folder without its notebook is not released yet."""
    folders = sorted(folder for folder in labs_dir().iterdir() if folder.is_dir())
    notebooks = [folder / f"{folder.name}.ipynb" for folder in folders]
    return [_read(notebook) for notebook in notebooks if notebook.is_file()]


def _read(notebook: Path) -> Release:
    data = notebook.read_bytes()
    try:
        metadata = json.loads(data)["metadata"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReleaseError(f"{notebook} is no notebook ({error!r}); run `make build` to make it again") from error
    course = metadata.get("course") if isinstance(metadata, dict) else None
    version = course.get("lab_version") if isinstance(course, dict) else None
    safe = re.sub(r"[^A-Za-z0-9._+-]+", "-", str(version or course_lib.__version__)).strip(".-")[:40]
    return Release(notebook.parent.name, notebook, hashlib.sha256(data).hexdigest(), safe or "0", data)
