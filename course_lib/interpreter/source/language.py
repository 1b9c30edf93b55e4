"""triton.language for the time of a launch: its builtins answer through our builder, and are as they were afterwards."""

import importlib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import triton.language as tl

from ..numbers import frontend, mapped, reductions
from ..numbers.builder import builder, semantic
from . import loops

_MISSING = object()
_applied: list[tuple[Any, str, Any]] = []
_planned: list[tuple[Any, str, Any]] = []


def apply() -> None:
    """Put our versions in place, until `restore`. Launches do not nest, so neither does this."""
    assert not _applied, "triton.language already has our versions"
    if not _planned:
        _planned.extend(_plan())
    for owner, name, new in _planned:
        _applied.append((owner, name, owner.__dict__.get(name, _MISSING)))
        setattr(owner, name, new)


def restore() -> None:
    """Give triton.language back what `apply` replaced, all or only a part (when it was interrupted)."""
    while _applied:
        owner, name, old = _applied[-1]
        if old is not _MISSING:
            setattr(owner, name, old)
        elif name in owner.__dict__:
            delattr(owner, name)
        _applied.pop()  # last: what an interrupt leaves is still known


def _plan() -> list[tuple[Any, str, Any]]:
    plan: list[tuple[Any, str, Any]] = []
    owners = [tl, tl.core, tl.math, tl.tensor, tl.core.tensor_descriptor_base, *_library_modules()]
    for owner in owners:
        for name, member in inspect.getmembers(owner):
            member = _unpatched(member)
            if tl.core.is_builtin(member):
                plan.append((owner, name, _answering(member)))
    for owner in (tl, tl.core):
        plan += [
            (owner, "range", loops.counting),
            (owner, "static_range", loops.constant_counting),
            (owner, "static_assert", _static_assert),
            (owner, "static_print", _static_print),
            (owner, "reduce", reductions.reduce),
            (owner, "associative_scan", reductions.associative_scan),
            (owner, "inline_asm_elementwise", _inline_asm),
            (owner, "dot_scaled", _dot_scaled),
            (owner, "map_elementwise", mapped.map_elementwise),
            (owner, "multiple_of", partial(_hint, name="tt.divisibility")),
            (owner, "max_contiguous", partial(_hint, name="tt.contiguity")),
            (owner, "max_constancy", partial(_hint, name="tt.constancy")),
        ]
    plan += [(owner, "flip", _flip) for owner in (tl, tl.standard)]
    plan += [
        *frontend.planned(),
        *_library(),
        (tl.core.dtype, "to_ir", _to_ir),
        (tl.tensor, "__index__", _whole_number),
        (tl.tensor, "__bool__", lambda self: True),  # the frontend asks "is it given?"; kernels go through runtime.condition
        (tl.tensor, "__repr__", lambda self: repr(self.handle.data)),
        (tl.tensor, "__str__", lambda self: str(self.handle.data)),
        (tl.tensor, "T", property(lambda self: semantic.permute(self, (1, 0)))),
    ]
    return plan


def _unpatched(member: Any) -> Any:
    """The language's own function where Triton's interpreter left a patch behind (it does after a kernel called a helper)."""
    while (defaults := getattr(member, "__kwdefaults__", None)) and callable(defaults.get("member")):
        member = defaults["member"]
    return member


def _library_modules() -> list[Any]:
    names = ("libdevice", "cuda", "cuda.libdevice", "cuda.utils", "cuda.gdc")
    return [importlib.import_module(f"triton.language.extra.{name}") for name in names]


def _library() -> list[tuple[Any, str, Any]]:
    """The backend-independent libdevice holds stubs that do nothing; compiled code puts NVIDIA's in their place, and so do we."""
    names, real = (importlib.import_module(f"triton.language.extra.{name}") for name in ("libdevice", "cuda.libdevice"))
    stubs = [name for name, member in vars(names).items() if inspect.isfunction(member) and member.__module__ == names.__name__]
    return [(names, name, _answering(getattr(real, name)) if hasattr(real, name) else _missing(name)) for name in stubs]


def _missing(name: str) -> Callable:
    return lambda *_args, **_kwargs: builder.refuse(f"libdevice.{name}, which CUDA does not have,")


def _answering(member: Callable) -> Callable:
    """A builtin of the language that uses our semantic, whatever it is called with."""

    def answer(*args: Any, **kwargs: Any) -> Any:
        kwargs["_semantic"] = semantic
        return member(*args, **kwargs)

    answer.__name__ = getattr(member, "__name__", "builtin")
    return answer


def _whole_number(self: Any) -> int:
    """Python itself asks a tensor for a number: a function of the math module does."""
    if not self.dtype.is_int():
        cure = "Python's math is for constants: use tl.sqrt, tl.exp and their kin"
        raise builder.launch.mistake("refused", f"a tensor of {self.type} is no number of Python; {cure}")
    return loops.index(self)


def _to_ir(self: Any, _builder: Any) -> Any:
    """A type in place of its IR; refuses an fp8 type that the target named does not have."""
    if self.is_fp8() and self.name not in builder.target.supported_fp8:
        known = ", ".join(builder.target.supported_fp8) or "none"
        raise builder.launch.mistake("refused", f"{builder.target.name} has no {self.name}; fp8 types there: {known}")
    return self


def _static_assert(condition: Any, message: Any = "") -> None:
    if isinstance(condition, tl.tensor):
        raise builder.launch.mistake("refused", "tl.static_assert is for constants; use tl.device_assert for run-time values")
    if not condition:
        raise builder.launch.mistake("assert", f"tl.static_assert failed: {getattr(message, 'value', message)}")


def _static_print(*values: Any, **options: Any) -> None:
    print(*(getattr(value, "value", value) if isinstance(value, tl.constexpr) else value for value in values), **options)


def _dot_scaled(*_args: Any, **_kwargs: Any) -> None:
    builder.refuse("tl.dot_scaled")


def _inline_asm(asm: Any, *_args: Any, **_kwargs: Any) -> None:
    builder.create_inline_asm(getattr(asm, "value", asm))


def _flip(x: Any, dim: Any = None) -> Any:
    """tl.flip at once. The library does it by XOR sums over pairs: one doubtful lane would make its whole row doubtful."""
    dim, rank = getattr(dim, "value", dim), len(x.shape)
    if dim is None or not -rank <= dim < rank:
        raise ValueError(f"tl.flip needs a dim of a block of {rank} dimensions, {-rank}..{rank - 1}, got {dim}")
    return tl.tensor(x.handle.moved(lambda data: np.flip(data, dim)), x.type)


def _hint(input: Any, values: Any, name: str) -> Any:
    """tl.multiple_of and its kin: kept on the value. A hint that is not true is a mistake that only compiled code shows."""
    if not isinstance(input, tl.tensor):
        return input
    values = values if isinstance(values, (list, tuple)) else [values]
    values = [value.value if isinstance(value, tl.constexpr) else value for value in values]
    if len(values) != max(1, len(input.shape)):
        raise ValueError(f"{name} got {len(values)} values for a tensor of {len(input.shape)} dimensions")
    input.handle.set_attr(name, values)
    return input
