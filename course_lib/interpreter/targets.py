"""What the compiler for a target would refuse, asked of the compiler itself, so that the interpreter refuses it as well."""

from dataclasses import dataclass
from functools import cache
from types import SimpleNamespace
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend

NAMES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "gfx942")
_ALL_FP8 = ("fp8e5", "fp8e5b16", "fp8e4nv", "fp8e4b8", "fp8e4b15")


@dataclass(frozen=True)
class Target:
    """name: one of NAMES, or "" for any; options: what Triton's frontend asks of a builder; arch as the backend names it."""

    name: str
    arch: Any
    options: Any
    supported_fp8: tuple[str, ...]
    min_dot_size: Any


def gpu_target(name: str) -> GPUTarget:
    """ "sm_90" -> GPUTarget("cuda", 90, 32), "gfx942" -> GPUTarget("hip", "gfx942", 64)."""
    if name not in NAMES:
        raise ValueError(f"{name!r} is no target known here; known: {', '.join(NAMES)}")
    return GPUTarget("cuda", int(name[3:]), 32) if name.startswith("sm_") else GPUTarget("hip", name, 64)


@cache
def target(name: str = "") -> Target:
    """What the interpreter refuses for a target; "" refuses what every NVIDIA target refuses, and no fp8 type."""
    gpu = gpu_target(name or "sm_90")
    backend = make_backend(gpu)
    real = backend.parse_options({})
    fp8 = tuple(real.supported_fp8_dtypes) if name else _ALL_FP8
    options = SimpleNamespace(
        debug=True,  # tl.device_assert is looked at
        sanitize_overflow=False,  # builder_arithmetic notices overflow itself, and tells it only where it reaches an address
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
