"""The facts about a machine that `labs doctor` judges, and how they are found.

Contract each fact is found on its own; one that cannot be had keeps its default, and `unknown` says why.
         torch is imported in a child process only: a broken install costs a sentence, not the command.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import metadata, util
from pathlib import Path

SHADOWING = (
    "torch",
    "triton",
    "numpy",
)  # names that a folder or file beside a notebook would take from Python


@dataclass(frozen=True, slots=True)
class Gpu:
    name: str  # as the driver prints it
    capability: tuple[int, int]  # CUDA's; (0, 0) for AMD
    memory_gb: float  # 1 GB = 1e9 bytes
    arch: str = ""  # AMD's, "gfx942"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Facts only. Versions are strings as installed, None where the package is missing."""

    system: str = "Linux"  # platform.system()
    wsl: bool = False
    python: str = "3.12.0"
    prefix: str = "/course/.venv"  # of the environment that runs
    torch: str | None = "2.13.0"
    triton: str | None = "3.7.1"
    numpy: str | None = "2.3.5"
    torch_error: str = ""  # what `import torch` said when it failed
    triton_error: str = ""
    torch_cuda: str | None = None  # the CUDA that torch was built with, "13.0"
    torch_hip: str | None = None
    torch_archs: tuple[str, ...] = ()  # "sm_80", ...: what torch has code for
    kernels: str = ""  # how Triton's kernels run in a notebook here: interpreter.entry's mode, "" when not found out
    kernels_reason: str = ""
    cuda_ready: bool = False  # torch.cuda.is_available(), true on ROCm as well
    driver: str | None = None  # NVIDIA's; None without one, "" when it does not say
    gpus: tuple[Gpu, ...] = ()
    outside: tuple[tuple[str, str, str | None], ...] = ()  # (package, wanted, installed) that do not agree
    kernel: str = ""  # interpreter of the kernelspec `python3` when it is not this environment's
    shadows: tuple[str, ...] = ()  # files and folders that take a package's name
    alembic: bool = True  # found on PATH, as nbgrader does
    work: str = "/course/work"
    work_writable: bool = True
    free_gb: float = 100.0
    without_triton: tuple[str, ...] = ()  # exercises that need none
    bars: tuple[tuple[float, tuple[str, ...]], ...] = ()  # points for speed, and the GPUs on which they are given
    unknown: tuple[str, ...] = field(default=())

    def summary(self) -> list[str]:
        """A few lines for the top of the report."""
        where = f"{self.system}{' (WSL2)' if self.wsl else ''}, Python {self.python} in {self.prefix}"
        build = (
            f"CUDA {self.torch_cuda}"
            if self.torch_cuda
            else f"ROCm {self.torch_hip}"
            if self.torch_hip
            else "CPU"
        )
        torch = f"torch {self.torch} ({build})" if self.torch else "no torch"
        triton = f"Triton {self.triton}" if self.triton else "no Triton"
        gpus = [f"{g.name}, {g.memory_gb:.0f} GB" for g in self.gpus] or ["no GPU"]
        driver = f", driver {self.driver}" if self.driver else ""
        versions = f"{torch}, {triton}, numpy {self.numpy or 'missing'}"
        return [where, versions, "; ".join(gpus) + driver, *filter(None, [self.kernels_reason])]


# As a notebook does it: `lab`, then torch, then Triton
_PROBE = """
import json, sys
sys.path.append(sys.argv[1])
from course_lib import lab
from course_lib.interpreter import entry
import torch
cuda = torch.cuda.is_available()
facts = {"cuda_ready": cuda, "torch_cuda": torch.version.cuda, "torch_hip": torch.version.hip,
         "torch_archs": list(torch.cuda.get_arch_list()) if cuda else [], "amd": []}
if cuda and torch.version.hip:
    for i in range(torch.cuda.device_count()):
        p = torch.cuda.get_device_properties(i)
        facts["amd"].append([p.name, p.total_memory / 1e9, p.gcnArchName.split(":")[0]])
entry.settle()
try:
    import triton
except Exception as error:  # broken, or not there
    if entry.state().mode != "no triton":
        facts["triton_error"] = f"{type(error).__name__}: {error}"[:300]
facts["kernels"], facts["kernels_reason"] = entry.state()
print(json.dumps(facts))
"""


def examine_machine() -> Machine:
    """The facts about this machine. Raises nothing."""
    facts: dict[str, object] = {
        "system": platform.system(),
        "wsl": "microsoft" in platform.release().lower(),
        "python": platform.python_version(),
        "prefix": sys.prefix,
        "alembic": shutil.which("alembic") is not None,
        "torch": _version("torch"),
        "triton": _version("triton") or _version("triton-rocm") or _version("pytorch-triton-rocm"),
        "numpy": _version("numpy"),
    }
    unknown = []
    for find in (_torch, _nvidia, _requirements, _kernel, _work, _exercises):
        try:
            found = find()
        except Exception as error:  # whatever is broken here must not hide the rest of the report
            unknown.append(f"{find.__name__.strip('_')}: {type(error).__name__}: {error}")
        else:
            facts["gpus"] = (*facts.get("gpus", ()), *found.pop("gpus", ()))
            facts |= found
    return Machine(**facts, unknown=tuple(unknown))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _torch() -> dict:
    if util.find_spec("torch") is None:
        return {}
    # -P: a folder named torch in the working directory is a finding of its own, not a broken install
    ask = [sys.executable, "-P", "-c", _PROBE, str(Path(__file__).parents[2])]
    try:
        done = subprocess.run(ask, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return {"torch_error": "import torch did not end within 120 s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
        return {"torch_error": last[:300]}
    facts = json.loads(done.stdout.splitlines()[-1])
    amd = tuple(Gpu(name, (0, 0), gb, arch) for name, gb, arch in facts.pop("amd"))
    return facts | {"torch_archs": tuple(facts["torch_archs"]), "gpus": amd}


def _nvidia() -> dict:
    """From NVML, which needs no torch; the driver's own file where NVML does not answer."""
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return _silent_driver()
    try:
        gpus = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            name, capability = (
                f(handle) for f in (pynvml.nvmlDeviceGetName, pynvml.nvmlDeviceGetCudaComputeCapability)
            )
            memory = pynvml.nvmlDeviceGetMemoryInfo(handle).total
            gpus.append(Gpu(name, tuple(capability), memory / 1e9))
        return {"driver": _text(pynvml.nvmlSystemGetDriverVersion()), "gpus": tuple(gpus)}
    finally:
        pynvml.nvmlShutdown()


def _silent_driver() -> dict:
    """A driver whose library does not answer: the kernel module may still say its version."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return {}
    return {"driver": next((w for w in words if "." in w and w.replace(".", "").isdigit()), "")}


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _requirements() -> dict:
    """Which of the course's own requirements, torch and Triton included, the environment does not meet."""
    from packaging.requirements import Requirement

    outside = []
    for line in metadata.requires("llm-inference-course") or ():
        wanted = Requirement(line)
        if wanted.marker and not wanted.marker.evaluate({"extra": "torch"}):
            continue
        have = _version(wanted.name)
        if have is None or not wanted.specifier.contains(have, prereleases=True):
            outside.append((wanted.name, str(wanted.specifier), have))
    return {"outside": tuple(outside)}


def _kernel() -> dict:
    """Jupyter starts the kernelspec `python3` for every notebook; a bare "python" in it is Jupyter's own."""
    from jupyter_client.kernelspec import KernelSpecManager

    program = KernelSpecManager().get_kernel_spec("python3").argv[0]
    if os.path.basename(program) == program:
        return {}
    mine = os.path.realpath(os.path.dirname(sys.executable))
    return {} if os.path.realpath(os.path.dirname(program)) == mine else {"kernel": program}


def _work() -> dict:
    from . import workspace

    copy = workspace.find_copy()
    work = copy or Path(os.path.abspath("work"))
    there = next(folder for folder in (work, *work.parents) if folder.is_dir())
    places = {Path.cwd(), there, *(folder for folder in there.glob("phase*") if copy and folder.is_dir())}
    return {
        "work": str(work),
        "work_writable": os.access(there, os.W_OK | os.X_OK),
        "free_gb": shutil.disk_usage(there).free / 1e9,
        "shadows": tuple(sorted(str(taken) for place in places for taken in shadowing(place))),
    }


def shadowing(
    folder: Path, installed: Callable[[str], bool] = lambda name: _version(name) is not None
) -> list[Path]:
    """What in this folder Python would import in place of torch, triton or numpy.

    triton.py and triton/__init__.py win over the installed package, a bare folder triton/ over none.
    """
    if folder.name in ("site-packages", "dist-packages"):
        return []
    found = []
    for name in SHADOWING:
        if (folder / f"{name}.py").is_file():
            found.append(folder / f"{name}.py")
        if (folder / name / "__init__.py").is_file() or ((folder / name).is_dir() and not installed(name)):
            found.append(folder / name)
    return found


def _exercises() -> dict:
    from ..exercises import all_exercises

    exercises = all_exercises()
    without_triton = tuple(e.id for e in exercises if "triton" not in e.may_import)
    return {"without_triton": without_triton, "bars": tuple(bar for e in exercises for bar in e.bars())}
