"""What the compiler for a target would refuse, asked of the compiler itself, so that the interpreter refuses it as well.

The targets, and what a thread block may use on each, are in compiled/targets.py.
"""

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

from .compiled.targets import target_named

_ALL_FP8 = ("fp8e5", "fp8e5b16", "fp8e4nv", "fp8e4b8", "fp8e4b15")


@dataclass(frozen=True)
class Target:
    """name: a target of compiled/targets.py, or "" for any; arch: as the backend names it.

    options  what Triton's frontend asks of a builder
    """

    name: str
    arch: Any
    options: Any
    supported_fp8: tuple[str, ...]
    min_dot_size: Any


def gpu_target(name: str) -> GPUTarget:
    """ "sm_90" -> GPUTarget("cuda", 90, 32), "gfx942" -> GPUTarget("hip", "gfx942", 64)."""
    known = target_named(name)
    return GPUTarget(known.backend, known.arch, known.warp_size)


@cache
def target(name: str = "") -> Target:
    """What the interpreter refuses for a target; "" refuses what every NVIDIA target refuses, and no fp8 type."""
    gpu = gpu_target(name or "sm_90")
    backend = make_backend(gpu)
    real = backend.parse_options({})
    fp8 = tuple(real.supported_fp8_dtypes) if name else _ALL_FP8
    options = SimpleNamespace(
        debug=True,  # tl.device_assert is looked at
        sanitize_overflow=False,  # builder_integers.py notices overflow itself, and tells it only where it reaches an address
        arch=getattr(real, "arch", None),
        supported_fp8_dtypes=fp8,
        deprecated_fp8_dot_operand_dtypes=(),
        default_dot_input_precision=real.default_dot_input_precision,
        allowed_dot_input_precisions=real.allowed_dot_input_precisions,
        max_num_imprecise_acc_default=0,
        backend_name="interpreter",
    )
    return Target(name, options.arch, options, fp8, backend.get_codegen_implementation(real)["min_dot_size"])


ANY_TARGET = target()
