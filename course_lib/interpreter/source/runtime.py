"""What rewritten kernels call for Python's own words: assignments, `and`, `if`, min(), print(), ... as compiled code has them.

The module stands in a rewritten kernel under one name (rewrite.py), so everything that such a kernel calls is found here.
"""

import builtins
from collections.abc import Callable
from typing import Any

import triton.language as tl

from ..mistakes.tell import refuse_doubt
from ..numbers.builder import builder, semantic
from ..values import MASKED_OFF, UNWRITTEN
from . import refusals
from .flow import Branch, Loop
from .loops import counter, counting, elements
from .names import library, outside, recursion, unknown

__all__ = ["Branch", "Loop", "counter", "elements", "library", "outside", "recursion", "unknown"]


# -- assignments and booleans ------------------------------------------------------------------------------------------


def assigned(value: Any) -> Any:
    """What a name gets: numbers become tensors, those in tuples too; a list is a tuple."""
    if isinstance(value, (tuple, list, tl.tuple)):
        items = [assigned(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, str):
        raise builder.launch.mistake(
            "refused", f"a variable holds tensors, not the text {value!r}; write name: tl.constexpr = ..."
        )
    return semantic.to_tensor(value, False)


def both(left: Any, right: Callable[[], Any]) -> Any:
    """`left and right`: element by element for tensors; a constant decides without looking further."""
    if not isinstance(left, tl.tensor):
        return right() if left else left
    other = right()
    if not isinstance(other, tl.tensor):
        return left if other else other
    return semantic.logical_and(left, other)


def either(left: Any, right: Callable[[], Any]) -> Any:
    """`left or right`, likewise."""
    if not isinstance(left, tl.tensor):
        return left or right()
    other = right()
    if not isinstance(other, tl.tensor):
        return other or left
    return semantic.logical_or(left, other)


def negation(value: Any) -> Any:
    """`not value`."""
    return semantic.not_(value) if isinstance(value, tl.tensor) else not value


# -- conditions --------------------------------------------------------------------------------------------------------


def condition(value: Any) -> Any:
    """The test of an if or a while: a constant, or the value of a tensor with one element."""
    if not isinstance(value, tl.tensor):
        return value
    if value.handle.data.size != 1:
        shape = "x".join(str(int(size)) for size in value.shape)
        raise builder.launch.mistake(
            "refused", f"a block of {shape} elements is no condition; use tl.where, a mask, or reduce it to one value first"
        )
    refuse_doubt(builder.launch, value.handle.doubt, None, "condition of this branch", MASKED_OFF | UNWRITTEN)
    return bool(value.handle.data.reshape(-1)[0])


def branch(test: Any, record: tuple[dict, list, list]) -> Any:
    """The test of an `if` that binds names or holds refused constructs: a constant as it is, or a Branch.

    The compiler translates both branches of a test known at run time, and only the one taken of a constant.
    """
    seen, body, orelse = record
    if not isinstance(test, tl.tensor):
        _refuse_first(body if test else orelse)
        return bool(test)
    _refuse_first([*body, *orelse])
    return Branch(condition(test), seen)


def ternary(test: Any, body: Callable, orelse: Callable, simple: bool, record: tuple[dict, list, list]) -> Any:
    """`body if test else orelse`; with a test known at run time both must have one type (asked of simple ones only)."""
    taken = branch(test, record)
    if not isinstance(test, tl.tensor):
        return body() if taken else orelse()
    value = semantic.to_tensor((body if taken else orelse)())
    if simple:
        other = semantic.to_tensor((orelse if taken else body)())
        if other.type != value.type:
            raise builder.launch.mistake(
                "refused",
                f"the two sides of a conditional expression have types {value.type} and {other.type}; convert one with .to()",
            )
    return value


def asserted(test: Any, message: Any) -> None:
    """`assert`, which the compiler takes for tl.device_assert."""
    semantic.device_assert(semantic.to_tensor(test), getattr(message, "value", message), None)


def _refuse_first(found: list) -> None:
    if found:
        place = builder.launch.place()
        raise refusals.mistake(found[0], place.kernel, place.file, place.program)


# -- builtins ----------------------------------------------------------------------------------------------------------


def builtin(function: Any) -> Callable:
    """range, min, max, ... as a kernel means them; a name that the kernel defined itself stays what it is."""
    return BUILTINS[function.__name__] if function is getattr(builtins, getattr(function, "__name__", ""), None) else function


def smallest(*values: Any) -> Any:
    """min(): of constants as in Python, of tensors as tl.minimum."""
    return _fold(builtins.min, semantic.minimum, values)


def largest(*values: Any) -> Any:
    """max(), likewise."""
    return _fold(builtins.max, semantic.maximum, values)


def _fold(python: Callable, compiled: Callable, values: tuple) -> Any:
    values = tuple(value.value if isinstance(value, tl.constexpr) else value for value in values)
    if not any(isinstance(value, tl.tensor) for value in values):
        return python(*values)
    result = semantic.to_tensor(values[0])
    for value in values[1:]:
        result = compiled(result, semantic.to_tensor(value), tl.PropagateNan.NONE)
    return result


def _number(kind: type) -> Callable:
    def convert(value: Any = 0, *more: Any) -> Any:
        if isinstance(value, tl.tensor):
            raise builder.launch.mistake(
                "refused", f"{kind.__name__}() is for constants; convert a tensor with .to(tl.{kind.__name__}32)"
            )
        return kind(getattr(value, "value", value), *more)

    return convert


def printed(*values: Any) -> None:
    """print(), which the compiler takes for tl.device_print: a text first."""
    if not values or not isinstance(getattr(values[0], "value", values[0]), str):
        raise builder.launch.mistake("refused", "print in a kernel needs a text first: print('x', x)")
    tl.device_print(*values)


def text(value: Any) -> Any:
    """A value inside an f-string, which is made while compiling."""
    if isinstance(value, tl.tensor):
        raise builder.launch.mistake("refused", "an f-string holds constants only; print a tensor with tl.device_print('x', x)")
    return value.value if isinstance(value, tl.constexpr) else value


BUILTINS: dict[str, Callable] = {
    "range": counting, "min": smallest, "max": largest, "print": printed, "int": _number(int), "float": _number(float),
}  # fmt: skip
