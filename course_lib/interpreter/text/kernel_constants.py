"""Constants of a kernel as Python expressions: what can be written down so that it comes back equal in another process."""

import dataclasses
import enum
import math
from typing import Any

from .jit_functions import from_triton

LIBRARY = "_language"  # what triton.language is called in the text


def expression(value: Any) -> str | None:
    """A Python expression for a value, in which `_language` is triton.language; None where there is none.

    Known: None, bool, int, float (inf and nan too), str, tuples and lists of these, tl.constexpr, and Triton's types and layouts.
    """
    if value is None or isinstance(value, (bool, str)):
        return repr(value)
    if isinstance(value, enum.Enum):
        return f"{_importing(type(value))}.{value.name}" if from_triton(type(value)) else None
    if isinstance(value, int):
        return repr(int(value)) if -(2**64) < value < 2**64 else hex(value)  # Python writes no 4301 digits
    if isinstance(value, float):
        value = float(value)
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if type(value) in (tuple, list):
        inner = [expression(item) for item in value]
        if any(item is None for item in inner):
            return None
        return f"[{', '.join(inner)}]" if type(value) is list else f"({', '.join(inner)}{',' if len(inner) == 1 else ''})"
    return _of_triton(value) if from_triton(type(value)) else None


def _of_triton(value: Any) -> str | None:
    kind = type(value).__name__
    if kind == "constexpr":
        inner = expression(value.value)
        return inner and f"{LIBRARY}.constexpr({inner})"
    if kind == "dtype":
        return f"{LIBRARY}.dtype({value.name!r})"
    if kind == "pointer_type":
        inner = expression(value.element_ty)
        return inner and f"{LIBRARY}.pointer_type({inner}, {value.address_space!r})"
    if dataclasses.is_dataclass(value):  # Gluon's layouts
        fields = {field.name: expression(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
        if all(fields.values()):
            return f"{_importing(type(value))}({', '.join(f'{name}={text}' for name, text in fields.items())})"
    return None


def _importing(cls: type) -> str:
    return f"__import__({cls.__module__!r}, fromlist=['*']).{cls.__qualname__}"
