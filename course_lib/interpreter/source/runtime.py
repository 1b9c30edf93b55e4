"""What rewritten kernels call for Python's own words: `and`, `or`, `not`, range(), min() and max() as compiled code does."""

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl

from ..numbers.builder import builder, semantic
from ..numbers.numpy_types import computed
from ..values import MASKED_OFF, UNWRITTEN, Value
from .flow import Branch, Loop
from .names import library, outside, recursion, unknown

__all__ = ["Branch", "Loop", "library", "outside", "recursion", "unknown"]


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
    _refuse(value.handle, "condition of this branch")
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
        from .refusals import mistake

        place = builder.launch.place()
        raise mistake(found[0], place.kernel, place.file, place.program)


def _refuse(value: Value, what: str) -> None:
    if value.doubt is not None:
        from ..mistakes.tell import refuse_doubt

        refuse_doubt(builder.launch, value.doubt, None, what, MASKED_OFF | UNWRITTEN)


# -- builtins ----------------------------------------------------------------------------------------------------------


def builtin(function: Any) -> Callable:
    """range, min, max, ... as a kernel means them; a name that the kernel defined itself stays what it is."""
    return BUILTINS[function.__name__] if function is getattr(builtins, getattr(function, "__name__", ""), None) else function


def counter(function: Any) -> Callable:
    """What a `for` goes through: range, tl.range or tl.static_range."""
    if function in (builtins.range, counting, constant_counting):
        return counting if function is builtins.range else function
    name = getattr(function, "__name__", function)
    raise builder.launch.mistake("refused", f"a kernel loops over range, tl.range or tl.static_range, not over {name}")


def counting(*bounds: Any, **options: Any) -> Iterator[Any]:
    """range() of a kernel: yields scalars of the integer type that the bounds share, int32 for small constants.

    Of tl.range's options only bounds and step change what is computed.
    """
    bounds = _in_order(bounds, options)
    start, stop, step = _bounds(*bounds)
    dtype = tl.int32
    for bound in bounds:
        dtype = semantic.integer_promote_impl(dtype, semantic.to_tensor(bound).dtype)
    if step < 0 and any(isinstance(bound, tl.tensor) for bound in bounds[2:]):
        raise builder.launch.mistake("refused", "a negative step must be a constant: compiled code counts upwards otherwise")
    kind = computed(dtype)
    for value in range(start, stop, step):
        yield tl.tensor(Value(np.array([value]).astype(kind), dtype, bound=abs(value)), dtype)


def constant_counting(*bounds: Any, **options: Any) -> range:
    """tl.static_range(): unrolled by the compiler, so its indices are constants."""
    bounds = _in_order(bounds, options)
    if any(isinstance(bound, tl.tensor) for bound in bounds):
        raise builder.launch.mistake("refused", "the bounds of tl.static_range must be constants; use range for run-time bounds")
    return range(*_bounds(*bounds))


def _in_order(bounds: tuple, options: dict[str, Any]) -> tuple:
    """(stop,), (start, stop) or (start, stop, step), however they were given."""
    named = dict(zip(("arg1", "arg2", "step"), bounds, strict=False)) | {
        name: options[name] for name in ("arg1", "arg2", "step") if options.get(name) is not None
    }
    if "step" in named and named.get("arg2") is None:
        return 0, named["arg1"], named["step"]
    return tuple(named[name] for name in ("arg1", "arg2", "step") if named.get(name) is not None)


def _bounds(arg1: Any, arg2: Any = None, step: Any = None) -> tuple[int, int, int]:
    start, stop = (0, arg1) if arg2 is None else (arg1, arg2)
    return index(start), index(stop), 1 if step is None else index(step)


def index(value: Any) -> int:
    """A scalar as a Python number (a loop's bound)."""
    value = value.value if isinstance(value, tl.constexpr) else value
    if not isinstance(value, tl.tensor):
        if not isinstance(value, (int, np.integer)):
            raise builder.launch.mistake("refused", f"the bounds of a loop must be integers, got {value!r}")
        return int(value)
    if value.handle.data.size != 1 or not value.dtype.is_int():
        raise builder.launch.mistake("refused", f"the bounds of a loop must be integers, got a tensor of {value.type}")
    _refuse(value.handle, "loop's bound")
    return int(value.handle.data.reshape(-1)[0])


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


def elements(value: Any) -> Any:
    """What a comprehension goes through."""
    if not isinstance(value, (tuple, list, tl.tuple)):
        raise builder.launch.mistake("refused", "a comprehension goes through a tuple or a list; use a loop over tl.static_range")
    return value


def text(value: Any) -> Any:
    """A value inside an f-string, which is made while compiling."""
    if isinstance(value, tl.tensor):
        raise builder.launch.mistake("refused", "an f-string holds constants only; print a tensor with tl.device_print('x', x)")
    return value.value if isinstance(value, tl.constexpr) else value


BUILTINS: dict[str, Callable] = {
    "range": counting, "min": smallest, "max": largest, "print": printed, "int": _number(int), "float": _number(float),
}  # fmt: skip
