"""Which torch for which machine, and when a set-up is still good: the decisions of `make`, as pure functions.

Standard library only, and written so that an old `python3` (3.6) can still import it and say what is missing.
Not here: doing any of it (setup_steps.py), and what pip's failures mean (setup_failures.py).
"""

import hashlib
import re
from typing import NamedTuple

from setup_failures import SetupError

MIN_PYTHON = (3, 11)
PYTHON_NAMES = ("python3.13", "python3.12", "python3.11")
KNOWN = {
    "auto": "cuda where an NVIDIA driver is found, else cpu",
    "cuda": "torch's CUDA build, pinned by constraints/gpu.txt",
    "cpu": "torch's CPU build, pinned by constraints/cpu.txt",
    "system": "the torch that python3 has already; torch and Triton are not installed",
}
PYTORCH_INDEX = "https://download.pytorch.org/whl/"  # + cpu or cu126: PyTorch's own wheels
# Oldest Linux drivers: CUDA Toolkit release notes (docs.nvidia.com/cuda/cuda-toolkit-release-notes), "Minimum
# Required Driver Version for CUDA Minor Version Compatibility". torch 2.11 from the normal index brings CUDA
# 13.0; PyTorch's own index has the same release with CUDA 12.6.
MIN_DRIVER_CUDA13 = "580.65.06"
MIN_DRIVER_CUDA12 = "525.60.13"
# The other Triton that every kernel must compile with: 3.6 beside the CPU build's 3.7, and 3.7 beside the CUDA build's 3.6.
# It lies in a folder of its own, which only the tests put on a path, and needs nothing but itself.
TRITON_BESIDE = {"cpu": "3.6.0", "system": "3.6.0", "cuda": "3.7.1"}
BESIDE_GB = 1  # 640 MB, rounded up


class Plan(NamedTuple):
    torch: str  # "cuda", "cpu" or "system"
    constraints: str  # file whose pins hold
    local: str  # torch's local version, "+cpu" or "+cu126"; "" takes the plain release
    index: str  # PyTorch's own index to ask first; "" for the normal one only
    needs_gb: int  # disk a first set-up fills, rounded up
    remark: str


def numbers(version):
    """The leading numbers of a version: "2.13.0+cpu" -> (2, 13, 0), "580.65.06" -> (580, 65, 6)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def in_range(version, specifier):
    """Is the version inside ">=2.10,<2.14"? Knows >=, <, and == with or without a trailing .*

    Local parts and pre-release letters do not count: "2.13.0+cpu" equals 2.13.0.
    """
    for part in specifier.replace(" ", "").split(","):
        op, bound = re.match(r"(>=|<|==)(.+)", part).groups()
        mine, limit = numbers(version), numbers(bound)
        if bound.endswith(".*"):
            mine = mine[: len(limit)]
        width = max(len(mine), len(limit))
        mine, limit = (numbers_ + (0,) * (width - len(numbers_)) for numbers_ in (mine, limit))
        if not {">=": mine >= limit, "<": mine < limit, "==": mine == limit}[op]:
            return False
    return True


def choose(asked, system, driver):
    """The plan for TORCH=asked on platform.system() `system`.

    driver: None without an NVIDIA driver, its version where it can be read, "" where it cannot.
    Raises SetupError for an unknown value and for CUDA where it cannot work.
    """
    if asked not in KNOWN:
        known = "\n".join(f"  TORCH={name:<7}{what}" for name, what in KNOWN.items())
        raise SetupError(f"TORCH={asked!r} is not known. Known values:\n{known}")
    if asked == "system":
        return Plan("system", "constraints/cpu.txt", "", "", 2, "")
    too_old = bool(driver) and numbers(driver) < numbers(MIN_DRIVER_CUDA12)
    old = f"the NVIDIA driver {driver} is older than {MIN_DRIVER_CUDA12}, the oldest for torch's CUDA builds"
    remark = ""
    if asked == "auto":
        asked = "cpu" if driver is None or too_old else "cuda"
        if driver is not None:
            remark = old if too_old else f"NVIDIA driver {driver or '(version not readable)'} found"
        elif system != "Darwin":
            remark = "no NVIDIA driver found"
    elif asked == "cuda" and too_old:
        raise SetupError(f"TORCH=cuda: {old}.\nUpdate the driver, or say TORCH=cpu to work without the GPU.")
    if asked == "cpu":
        if system == "Darwin":  # the normal index has CPU builds for macOS
            return Plan("cpu", "constraints/cpu.txt", "", "", 3, remark)
        return Plan("cpu", "constraints/cpu.txt", "+cpu", PYTORCH_INDEX + "cpu", 3, remark)
    if system == "Darwin":
        raise SetupError("TORCH=cuda: there is no CUDA on macOS. Leave TORCH out, or say TORCH=cpu.")
    if driver and numbers(driver) < numbers(MIN_DRIVER_CUDA13):
        remark = f"NVIDIA driver {driver} is older than {MIN_DRIVER_CUDA13}: torch with CUDA 12.6, not 13.0"
        return Plan("cuda", "constraints/gpu.txt", "+cu126", PYTORCH_INDEX + "cu126", 10, remark)
    return Plan("cuda", "constraints/gpu.txt", "", "", 10, remark)


def pinned(constraints_text, name):
    """What the constraints say of one package: "==2.13.0" for torch. SetupError where they say nothing."""
    match = re.search(rf"^{re.escape(name)}([=<>].*)$", constraints_text, re.MULTILINE | re.IGNORECASE)
    if not match:
        raise SetupError(f"constraints/ pins no {name}; restore it with `git checkout constraints`")
    return match.group(1).strip()


def torch_wish(constraints_text, local):
    """The one torch that a plan with a local version asks for: "torch==2.13.0+cpu", "torch==2.11.0+cu126"."""
    return "torch" + pinned(constraints_text, "torch").replace(".*", ".0") + local


def for_system_torch(constraints_text, numpy, triton):
    """The pins that leave the machine's own torch and Triton alone and keep its numpy's version.

    numpy, triton: their versions, "" where the machine has none. Without a numpy of its own, a machine with
    Triton older than 3.7 gets one below 2.4 (Triton 3.6's interpreter fails with 2.4).
    """
    lines = constraints_text.splitlines()
    kept = [line for line in lines if not re.match(r"(torch|triton|numpy)\b", line)]
    if numpy:
        kept.append("numpy==" + ".".join(map(str, numbers(numpy))))
    elif triton and not in_range(triton, ">=3.7"):
        kept.append("numpy<2.4")
    return "\n".join(kept) + "\n"


def triton_beside(torch, system, extras):
    """The Triton to install beside the main one: for tests, where Triton has wheels. "" for none."""
    return TRITON_BESIDE[torch] if "dev" in extras and system == "Linux" else ""


def fingerprint(*parts):
    """One hash of all parts; their order and their borders count."""
    digest = hashlib.sha256()
    for part in parts:
        data = str(part).encode()
        digest.update(f"{len(data)}:".encode() + data)
    return digest.hexdigest()


def decide(exists, alive, mark, place, content, extras):
    """What to do with .venv: "nothing", "update" (pip over it) or "build" (afresh, removing ours).

    exists, alive: is there a .venv, and does its python start. mark: what the last run wrote in it, {} where
    it is someone else's, which is never removed. place and content: fingerprints of what must be built anew
    when it changes, and of what pip can mend. SetupError for someone else's environment that does not start.
    """
    if not exists:
        return "build"
    ready = mark.get("state") == "ready"
    if mark.get("made"):
        if not (alive and ready and mark.get("place") == place):
            return "build"
    elif not alive:
        raise SetupError("The .venv here is not this script's and its python does not start: run `make clean`.")
    same = ready and mark.get("place") == place and mark.get("content") == content
    return "nothing" if same and set(extras) <= set(mark.get("extras", ())) else "update"


def find_python(version_of):
    """The newest supported python on PATH, by name; version_of(name) -> (3, 12) or None, else SetupError."""
    for name in PYTHON_NAMES:
        found = version_of(name)
        if found and tuple(found) >= MIN_PYTHON:
            return name
    raise SetupError(
        "The course needs Python 3.11 or newer; python3 is older and there is no "
        f"{', '.join(PYTHON_NAMES)} on PATH.\n"
        "Install one (Debian, Ubuntu: apt install python3.12-venv; macOS: brew install python@3.12)\n"
        "or name it: make PYTHON=/path/to/python3.12 ..."
    )
