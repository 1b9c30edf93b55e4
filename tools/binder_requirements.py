"""binder/requirements.txt, made from pyproject.toml and constraints/cpu.txt: what a learner runs, and no tool of ours.

    python tools/binder_requirements.py [--check]       --check writes nothing and fails when the file is out of date

What pyproject.toml asks for, torch and Triton, what those need in turn on Linux (x86-64 and aarch64), and what an editable
install needs; each at the version that constraints/cpu.txt pins. Run it in an environment that `make test` has set up.
"""

import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
REQUIREMENTS = ROOT / "binder" / "requirements.txt"
PYTORCH_CPU = "https://download.pytorch.org/whl/cpu"
EDITABLE = ("hatchling", "editables")  # for pip install --no-build-isolation -e .
HEAD = f"""\
# Made by `python tools/binder_requirements.py` from pyproject.toml and constraints/cpu.txt; do not edit.
# torch carries +cpu, so that no other build will do: the plain release on PyPI brings several GB of CUDA, on aarch64 as well.
--extra-index-url {PYTORCH_CPU}
"""


def pins() -> dict[str, Requirement]:
    """Canonical name -> the line of constraints/cpu.txt, as a requirement."""
    lines = (ROOT / "constraints" / "cpu.txt").read_text(encoding="utf-8").splitlines()
    parsed = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in parsed}


def learner_roots() -> list[str]:
    """What is asked for by name: the course's own dependencies, torch and Triton, and the tools of an editable install."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["torch"], *EDITABLE]


def needed(roots: Iterable[str], python: str) -> set[str]:
    """Canonical names of the roots and of all that they need on Linux with this Python ("3.11"), CUDA's packages left out."""
    found: dict[str, set[str]] = {}
    waiting = [Requirement(root) for root in roots]
    while waiting:
        wish = waiting.pop()
        name = canonicalize_name(wish.name)
        known = found.get(name)
        if is_cuda(name) or (known is not None and wish.extras <= known):
            continue
        found[name] = wish.extras | (known or set())
        waiting += [more for more in map(Requirement, metadata.requires(name) or ()) if _holds(more, wish.extras, python)]
    return set(found)


def is_cuda(name: str) -> bool:
    """A package that only a GPU uses; nvidia-ml-py, a small module that asks the driver, is none."""
    return name.startswith(("nvidia-", "cuda-")) and name != "nvidia-ml-py"


def _holds(wish: Requirement, extras: set[str], python: str) -> bool:
    return wish.marker is None or any(wish.marker.evaluate(machine) for machine in _machines(extras, python))


def _machines(extras: set[str], python: str) -> Iterator[dict[str, str]]:
    linux = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"}
    version = {"python_version": python, "python_full_version": f"{python}.0"}
    for machine in ("x86_64", "aarch64"):
        for extra in extras or {""}:
            yield linux | version | {"platform_machine": machine, "extra": extra}


def made() -> str:
    """The file's text."""
    python = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")
    pinned = pins()
    # setuptools, which torch asks for, is pinned nowhere: every Python environment brings its own
    names = needed(learner_roots(), python) - {"setuptools"}
    if missing := names - pinned.keys():
        raise SystemExit(f"constraints/cpu.txt pins no {', '.join(sorted(missing))}; refresh it as its head says")
    lines = [f"{pinned[name]}+cpu" if name == "torch" else str(pinned[name]) for name in sorted(names)]
    return HEAD + "\n".join(lines) + "\n"


def main(check: bool) -> int:
    text = made()
    if REQUIREMENTS.exists() and REQUIREMENTS.read_text(encoding="utf-8") == text:
        return 0
    if check:
        print("binder/requirements.txt is not what pyproject.toml and constraints/cpu.txt give: run tools/binder_requirements.py")
        return 1
    REQUIREMENTS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
