"""What a machine can do for each phase: full, emulated or read only, with the reason. Pure.

full       everything; times are measured, and points for them wait where their bars were set on another GPU
emulated   every exercise can be solved and checked; what is measured on a GPU waits, or part of the
           arithmetic is done in software
read only  the phase's kernels cannot run; exercises without Triton can
"""

from dataclasses import dataclass
from enum import Enum

from ..exercises.phases import PHASES, Phase
from .doctor_checks import blocks_gpu
from .doctor_machine import Gpu, Machine

FP8 = (8, 9)  # fp8e4nv in Triton and in tensor cores: Ada and later
BF16 = (8, 0)  # bf16 arithmetic, and the oldest GPU whose tensor cores tl.dot uses (Triton 3.3 dropped sm_75's)
HOPPER = (9, 0)


class Level(Enum):
    FULL = "full"
    EMULATED = "emulated"
    READ_ONLY = "read only"


@dataclass(frozen=True, slots=True)
class Ability:
    phase: int
    title: str
    level: Level
    reason: str


def abilities(machine: Machine) -> tuple[Ability, ...]:
    return tuple(Ability(phase.number, phase.title, *_ability(phase, machine)) for phase in PHASES)


def _ability(phase: Phase, machine: Machine) -> tuple[Level, str]:
    if machine.torch is None or machine.torch_error:
        return Level.READ_ONLY, "torch does not import here"
    if phase.needs_triton and machine.triton is None:
        return Level.READ_ONLY if phase.built_on_triton else Level.EMULATED, _no_triton(phase, machine)
    if not machine.gpus:
        kernels = "kernels run in Triton's interpreter (docs/no-gpu.md); " if phase.needs_triton else ""
        return Level.EMULATED, f"no GPU: {kernels}{_WAITS}"
    if machine.torch_hip:
        return Level.EMULATED, f"{machine.gpus[0].name}: the course measures CUDA devices only; {_WAITS}"
    if why := blocks_gpu(machine):
        return Level.EMULATED, f"the GPU cannot be used yet ({why}); {_WAITS}"
    return _on_gpu(phase, machine.gpus[0])


_WAITS = "timed points wait"


def _on_gpu(phase: Phase, gpu: Gpu) -> tuple[Level, str]:
    if gpu.capability < BF16:
        if phase.built_on_triton:
            why = "no bf16, and tl.dot uses no tensor cores there since Triton 3.3"
            return Level.EMULATED, f"{gpu.name}: kernels run in fp16 ({why}); {_WAITS} for a newer GPU"
        return Level.FULL, f"{gpu.name}: roofs are measured in fp16; it has no bf16"
    if phase.number == 3 and gpu.capability < FP8:
        return Level.EMULATED, f"{gpu.name}: INT4 runs at full speed; FP8 arithmetic needs Ada or Hopper and is emulated"
    if phase.number == 2 and gpu.capability != HOPPER:
        return Level.FULL, f"{gpu.name}; only the Hopper kernel (Gluon) is to be read, not run"
    return Level.FULL, gpu.name


def _no_triton(phase: Phase, machine: Machine) -> str:
    here = [name for name in machine.without_triton if name.startswith(f"{phase.number}.")]
    runs = f"exercises {', '.join(here)} need none and run" if here else "exercises that need none run"
    system = _SYSTEM.get(machine.system, machine.system)
    wheels = "" if machine.system == "Linux" else f" (it has no packages for {system})"
    return f"no Triton{wheels}: {runs}, the others can be read"


_SYSTEM = {"Darwin": "macOS"}
