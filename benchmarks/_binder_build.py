"""Builds the environment of binder/ in a clean folder, as repo2docker does: Python of runtime.txt, requirements.txt, postBuild.

What differs from the real thing: a virtual environment instead of a container, and this machine's pip settings.
"""

import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ._process_memory import PeakMemory
from ._result import ROOT

_FOREIGN = ("PYTHON", "COURSE_", "JUPYTER_", "TRITON_", "VIRTUAL_ENV", "CONDA")
INDEX_SECONDS = 10


class NoPython(RuntimeError):
    """The Python that runtime.txt names is not on this machine."""


@dataclass(frozen=True, slots=True)
class Built:
    """An environment and what it took to build it."""

    clone: Path
    environment: Path  # the virtual environment's folder
    install_seconds: float
    install_gb: float  # most memory that pip held, proportional
    disk_mb: float  # 1e6 bytes, as blocks on the disk
    packages: dict[str, str]  # name -> version

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """The command's output, in the environment. CalledProcessError when it fails."""
        return subprocess.run(
            command, cwd=cwd or self.clone, env=variables(self.environment), check=True, stdout=subprocess.PIPE, text=True
        ).stdout


def build(folder: Path) -> Built:
    """Build in `folder`, which must be empty. Raises NoPython, or CalledProcessError with pip's own words above it."""
    runtime = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip()
    python = shutil.which(runtime.replace("python-", "python"))
    if python is None:
        raise NoPython(f"needs {runtime.replace('python-', 'python')}, which binder/runtime.txt names")
    clone, environment = folder / "clone", folder / "environment"
    copy_repository(clone)
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    start = time.monotonic()
    requirements = _watched(("pip", "install", "--no-cache-dir", "--quiet", "-r", "binder/requirements.txt"), clone, environment)
    course = _watched(("bash", "binder/postBuild"), clone, environment)
    seconds = time.monotonic() - start
    listed = subprocess.run(
        [environment / "bin" / "pip", "list", "--format=json"], env=variables(environment), check=True, capture_output=True
    )
    packages = {package["name"].lower(): package["version"] for package in json.loads(listed.stdout)}
    return Built(clone, environment, seconds, max(requirements, course), disk_mb(environment), packages)


def copy_repository(target: Path) -> None:
    """What git would commit of the working tree, without its history, as Binder gets it."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True
    ).stdout.decode()
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)


def variables(environment: Path) -> dict[str, str]:
    """The variables of a process in the environment: none of this process's Python, course or Jupyter, and no GPU."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"
    # where PyTorch's index is out of reach, pip would ask it again and again for each package
    retries = {} if _answers(_pytorch_index()) else {"PIP_RETRIES": "0"}
    return kept | retries | {"PATH": path, "CUDA_VISIBLE_DEVICES": "", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def disk_mb(folder: Path) -> float:
    """What the folder's files take on the disk, in 1e6 bytes; links are not followed."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) / 1e6


def cuda_packages(names: Sequence[str]) -> list[str]:
    """Those of the names that only a GPU uses. nvidia-ml-py, a module of 0.1 MB that asks the driver, is none."""
    return sorted(name for name in names if name.startswith(("nvidia-", "cuda-")) and name != "nvidia-ml-py")


def _watched(command: Sequence[str], clone: Path, environment: Path) -> float:
    """Run it in the environment -> the most memory that it and its children held, in GB."""
    process = subprocess.Popen(command, cwd=clone, env=variables(environment))
    with PeakMemory(process.pid) as peak:
        status = process.wait()
    if status:
        raise subprocess.CalledProcessError(status, command)
    return peak.proportional_gb


def _pytorch_index() -> str:
    text = (ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8")
    return re.search(r"^--extra-index-url (\S+)", text, re.MULTILINE)[1]


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address + "/", timeout=INDEX_SECONDS):
            return True
    except (urllib.error.URLError, OSError):
        return False
