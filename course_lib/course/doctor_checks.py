"""What can be wrong with a machine, one small pure check each: facts in, a problem and its next step out."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from .doctor_machine import Machine

# Oldest Linux driver for each CUDA major. Source: CUDA Toolkit release notes, "Minimum Required Driver
# Version for CUDA Minor Version Compatibility" (docs.nvidia.com/cuda/cuda-toolkit-release-notes). The same
# limits, rounded to 525 and 580: docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html
MIN_DRIVER = {12: "525.60.13", 13: "580.65.06"}
MIN_FREE_GB = 2.0
MIN_GPU_GB = 8.0  # no lab's tensors take more
AGAIN = "run `make lab` again"


class Weight(Enum):
    """How bad it is. Declared worst first: the report shows problems in this order."""

    STOPS = "stops the course"
    LIMITS = "limits what runs"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    weight: Weight
    what: str
    next_step: str


def numbers(version: str) -> tuple[int, ...]:
    """ "580.65.06" -> (580, 65, 6); "" -> ()."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()


def python_too_old(machine: Machine) -> Problem | None:
    if numbers(machine.python)[:2] >= (3, 11):
        return None
    return Problem(
        Weight.STOPS,
        f"Python {machine.python}; the course needs 3.11 or newer",
        f"Install one, then {AGAIN}.",
    )


def torch_missing(machine: Machine) -> Problem | None:
    if machine.torch is None:
        return Problem(
            Weight.STOPS, "torch is not installed", f"{AGAIN.capitalize()}, or pip install '.[torch]'."
        )
    if machine.torch_error:
        what = f"torch {machine.torch} does not import: {machine.torch_error}"
        return Problem(Weight.STOPS, what, f"`make clean`, then {AGAIN}.")
    return None


def driver_too_old(machine: Machine) -> Problem | None:
    """Only for a driver whose version is known, and a CUDA that is in the table."""
    major = numbers(machine.torch_cuda or "")[:1]
    least = MIN_DRIVER.get(major[0]) if major else None
    if not (machine.driver and least) or numbers(machine.driver) >= numbers(least):
        return None
    what = (
        f"NVIDIA driver {machine.driver} is too old for torch's CUDA {machine.torch_cuda}: it needs {least}"
    )
    older = numbers(machine.driver) >= numbers(MIN_DRIVER[12])
    other = " or `make clean` and `make lab TORCH=cuda`, which picks CUDA 12.6 for it" if older else ""
    return Problem(Weight.LIMITS, what, f"Update the driver{',' if other else ''}{other}.")


def cpu_torch_beside_gpu(machine: Machine) -> Problem | None:
    if machine.driver is None or not machine.gpus or machine.torch is None or machine.torch_error:
        return None
    if machine.torch_cuda or machine.torch_hip:
        return None
    what = f"torch {machine.torch} is the CPU build, and this machine has {machine.gpus[0].name}"
    return Problem(Weight.LIMITS, what, "To use the GPU: `make lab TORCH=cuda`.")


def no_code_for_gpu(machine: Machine) -> Problem | None:
    """torch runs on nothing older than the oldest GPU it has code for. An unknown list accuses nobody."""
    built = [divmod(int(arch[3:].rstrip("af")), 10) for arch in machine.torch_archs if arch.startswith("sm_")]
    for gpu in machine.gpus:
        if not built or machine.torch_hip or gpu.capability >= min(built):
            continue
        what = (
            f"torch {machine.torch} has no code for {gpu.name} (compute capability {_dotted(gpu.capability)})"
        )
        step = f"It needs {_dotted(min(built))} or newer: use another GPU, or TORCH=cpu."
        return Problem(Weight.LIMITS, what, step)
    return None


def cuda_not_ready(machine: Machine) -> Problem | None:
    """GPU, driver and a CUDA build are there and torch still sees nothing."""
    known = (driver_too_old, cpu_torch_beside_gpu, torch_missing)
    if not machine.gpus or machine.cuda_ready or any(check(machine) for check in known):
        return None
    what = f"torch sees no CUDA device, although the driver lists {machine.gpus[0].name}"
    step = "See CUDA_VISIBLE_DEVICES, and in a container its GPU option (docker run --gpus all)."
    return Problem(Weight.LIMITS, what, step)


def no_gpu_behind_driver(machine: Machine) -> Problem | None:
    if machine.driver is None or machine.gpus:
        return None
    what = "an NVIDIA driver is there, but it lists no GPU"
    return Problem(
        Weight.LIMITS, what, "Try nvidia-smi; a container needs its GPU option (docker run --gpus all)."
    )


def triton_missing(machine: Machine) -> Problem | None:
    if machine.triton is not None:
        return None
    if machine.system == "Linux":
        return Problem(
            Weight.LIMITS, "Triton is not installed", f"{AGAIN.capitalize()}, or pip install '.[torch]'."
        )
    where = {"Darwin": "macOS", "Windows": "native Windows"}.get(machine.system, machine.system)
    inside = (
        "WSL2" if machine.system == "Windows" else "a Linux container (the dev container) or a cloud machine"
    )
    what = f"Triton has no packages for {where}: kernel exercises cannot run here, the others can"
    return Problem(Weight.LIMITS, what, f"For everything use {inside}.")


def triton_broken(machine: Machine) -> Problem | None:
    if not machine.triton_error:
        return None
    what = f"Triton {machine.triton} does not import: {machine.triton_error}"
    return Problem(Weight.LIMITS, what, f"`make clean`, then {AGAIN}.")


def kernels_not_launched(machine: Machine) -> Problem | None:
    """Somebody's TRITON_INTERPRET does not fit this machine."""
    if machine.kernels not in ("too late", "compile only"):
        return None
    return Problem(Weight.LIMITS, machine.kernels_reason, "Unset TRITON_INTERPRET: `lab` sets it where it is needed.")


def numpy_beside_triton(machine: Machine) -> Problem | None:
    """Triton 3.6's interpreter fails with numpy 2.4 on every loop with a runtime bound; 3.7.1 does not."""
    if machine.triton is None or machine.numpy is None:
        return None
    if numbers(machine.triton) >= (3, 7) or numbers(machine.numpy) < (2, 4):
        return None
    what = f"Triton {machine.triton}'s interpreter fails with numpy {machine.numpy}"
    weight = Weight.LIMITS if machine.cuda_ready else Weight.STOPS
    return Problem(weight, what, "pip install 'numpy<2.4' here (constraints/gpu.txt has it), or Triton 3.7.")


def outside_range(machine: Machine) -> Problem | None:
    """torch and Triton that are missing have checks of their own."""
    wrong = [row for row in machine.outside if row[2] is not None or row[0] not in ("torch", "triton")]
    if not wrong:
        return None
    said = "; ".join(f"{name} {have or 'is missing'} (wanted: {wanted})" for name, wanted, have in wrong)
    weight = Weight.STOPS if any(have is None for _, _, have in wrong) else Weight.LIMITS
    return Problem(
        weight,
        f"outside the course's range: {said}",
        f"{AGAIN.capitalize()}: it brings the pinned ones.",
    )


def wrong_kernel(machine: Machine) -> Problem | None:
    if not machine.kernel:
        return None
    what = f"the kernel python3 runs {machine.kernel}, not this environment ({machine.prefix})"
    step = f"{machine.prefix}/bin/python -m ipykernel install --sys-prefix; see jupyter kernelspec list"
    return Problem(Weight.STOPS, what, step)


def shadowed(machine: Machine) -> Problem | None:
    if not machine.shadows:
        return None
    what = f"Python would import this in place of the package: {', '.join(machine.shadows)}"
    return Problem(Weight.STOPS, what, "Rename it, then restart the kernel.")


def not_writable(machine: Machine) -> Problem | None:
    if machine.work_writable:
        return None
    what = f"{machine.work} cannot be written, so no notebook and no progress can be saved"
    return Problem(Weight.STOPS, what, "Set COURSE_HOME to a folder of yours, or mend its rights (chown).")


def little_disk(machine: Machine) -> Problem | None:
    if machine.free_gb >= MIN_FREE_GB:
        return None
    what = (
        f"{machine.free_gb:.1f} GB of disk free at {machine.work}; below {MIN_FREE_GB:.0f} GB saving may fail"
    )
    return Problem(Weight.LIMITS, what, "Free some: `pip cache purge`, and ~/.triton/cache can go.")


def alembic_missing(machine: Machine) -> Problem | None:
    if machine.alembic:
        return None
    what = "nbgrader's own commands start `alembic` by name, and it is not on PATH (labs grade does not need that)"
    return Problem(Weight.NOTE, what, f"Only before nbgrader's own commands: source {machine.prefix}/bin/activate.")


def old_gpu(machine: Machine) -> Problem | None:
    for gpu in machine.gpus:
        if (0, 0) < gpu.capability < (8, 0) and not no_code_for_gpu(machine):
            what = f"{gpu.name}: no bf16, and since Triton 3.3 tl.dot uses no tensor cores on it"
            return Problem(
                Weight.NOTE,
                what,
                "Work in fp16; timed points wait for a newer GPU.",
            )
    return None


def bars_of_another_gpu(machine: Machine) -> Problem | None:
    for gpu in machine.gpus:
        bars = [(points, devices) for points, devices in machine.bars if gpu.name not in devices]
        if bars and gpu.capability >= (8, 0) and not blocks_gpu(machine):
            names = " and ".join(sorted({" or ".join(devices) for _, devices in bars}))
            total = sum(points for points, _ in bars)
            what = f"{gpu.name}: {total:g} of the course's points are for speed with bars set on an {names}"
            return Problem(Weight.NOTE, what, "Ratios are shown here; `labs check` there gives the points.")
    return None


def small_gpu(machine: Machine) -> Problem | None:
    for gpu in machine.gpus:
        if gpu.memory_gb < MIN_GPU_GB * 0.95:  # the driver keeps some of a card's 8 GB
            what = f"{gpu.name} has {gpu.memory_gb:.1f} GB; the largest lab needs up to {MIN_GPU_GB:.0f} GB"
            return Problem(
                Weight.NOTE, what, "Should one run out of memory, close other programs or use TORCH=cpu."
            )
    return None


def not_found_out(machine: Machine) -> Problem | None:
    if not machine.unknown:
        return None
    return Problem(
        Weight.NOTE, f"not found out: {'; '.join(machine.unknown)}", f"If something fails, {AGAIN}."
    )


CHECKS: tuple[Callable[[Machine], Problem | None], ...] = (
    python_too_old, torch_missing, shadowed, wrong_kernel, not_writable, outside_range, numpy_beside_triton,
    driver_too_old, cpu_torch_beside_gpu, no_code_for_gpu, cuda_not_ready, no_gpu_behind_driver,
    triton_missing, triton_broken, kernels_not_launched, little_disk, old_gpu, bars_of_another_gpu, small_gpu,
    alembic_missing, not_found_out,
)  # fmt: skip


def problems(machine: Machine) -> tuple[Problem, ...]:
    """Everything that is wrong, the worst first."""
    found = [problem for check in CHECKS if (problem := check(machine))]
    return tuple(sorted(found, key=lambda problem: list(Weight).index(problem.weight)))


def blocks_gpu(machine: Machine) -> str:
    """Why torch cannot use the GPU that is there, "" when it can."""
    for check in (driver_too_old, cpu_torch_beside_gpu, no_code_for_gpu, cuda_not_ready):
        if problem := check(machine):
            return problem.what
    return ""


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"
