"""Names from outside a kernel: which of them compiled code sees, and what to say about the others."""

from types import ModuleType
from typing import Any

import triton
import triton.language as tl
from triton.runtime.jit import JITCallable, KernelInterface

from ..numbers.builder import builder

LIBRARY_MODULE = "triton.language.extra.libdevice"
ALLOWED_BUILTINS = {"len", "list", "range", "float", "int", "isinstance", "getattr", "hasattr", "print", "min", "max",
                    "True", "False", "None", "Ellipsis"}  # fmt: skip
_INSTEAD = {"abs": "tl.abs", "sum": "tl.sum", "round": "tl.floor(x + 0.5)", "all": "tl.min", "any": "tl.max", "pow": "x * x"}


def may_be_seen(value: Any) -> bool:
    """May a kernel use this global? The compiler's own rule: modules, jitted functions, the language, constants."""
    if isinstance(value, (ModuleType, tl.constexpr, tl.dtype, JITCallable, KernelInterface)) or _is_named_tuple(value):
        return True
    home = getattr(value, "__module__", "") or ""
    marked = getattr(value, "__triton_builtin__", False) or getattr(value, "__triton_aggregate__", False)
    return bool(marked) or str(home).startswith(("triton.language", "triton.experimental.gluon.language"))


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def outside(name: str, value: Any) -> Any:
    """A global that was no constant when the kernel was read first; it may be one by now."""
    if may_be_seen(value) or triton.knobs.compilation.allow_non_constexpr_globals:
        return value
    if callable(value):
        cure = "put @triton.jit on it"
    else:
        cure = f"write {name} = tl.constexpr({value!r}) there, or pass it as an argument"
    raise builder.launch.mistake("refused", f"a kernel does not see the global {name}, a {type(value).__name__}; {cure}")


def unknown(name: str) -> None:
    """A builtin of Python that kernels do not have."""
    cure = f"use {_INSTEAD[name]}" if name in _INSTEAD else "write it with arithmetic and tl functions"
    raise builder.launch.mistake("refused", f"a kernel has no {name}(); {cure}")


def recursion(name: str) -> None:
    raise builder.launch.mistake("refused", f"{name} calls itself, and compiled functions cannot; write it as a loop")


def library(name: str) -> Any:
    """A function of triton.language.extra.libdevice that was imported by its name (a stub that compiled code replaces)."""
    from triton.language.extra import libdevice

    return getattr(libdevice, name)
