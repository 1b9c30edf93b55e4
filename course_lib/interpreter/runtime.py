"""What rewritten kernels call for Python's own words: `and`, `or`, `not`, range(), min() and max() as compiled code does."""

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl

from .builder import builder, semantic
from .values import MASKED_OFF, UNWRITTEN, Value

_INT32_END = 2**31


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


def builtin(function: Any) -> Callable:
    """range, min and max as a kernel means them; a name that the kernel defined itself stays what it is."""
    return {builtins.range: counting, builtins.min: smallest, builtins.max: largest}.get(function, function)


def counting(*bounds: Any, **_options: Any) -> Iterator[Any]:
    """range() of a kernel: yields int32 (or int64) scalars, as the compiled loop has."""
    start, stop, step = _bounds(*bounds)
    wide = any(isinstance(b, tl.tensor) and b.dtype.primitive_bitwidth == 64 for b in bounds)
    wide = wide or not -_INT32_END <= start < _INT32_END or not -_INT32_END <= stop < _INT32_END
    kind, dtype = (np.int64, tl.int64) if wide else (np.int32, tl.int32)
    for index in range(start, stop, step):
        yield tl.tensor(Value(np.array([index], kind), dtype, bound=abs(index)), dtype)


def constant_counting(*bounds: Any, **_options: Any) -> range:
    """tl.static_range(): unrolled by the compiler, so its indices are constants."""
    return range(*_bounds(*bounds, **{k: v for k, v in _options.items() if k in ("step", "arg2")}))


def _bounds(arg1: Any, arg2: Any = None, step: Any = None) -> tuple[int, int, int]:
    start, stop = (0, arg1) if arg2 is None else (arg1, arg2)
    return index(start), index(stop), 1 if step is None else index(step)


def smallest(*values: Any) -> Any:
    """min(): of constants as in Python, of tensors as tl.minimum."""
    return _fold(builtins.min, semantic.minimum, values)


def largest(*values: Any) -> Any:
    """max(), likewise."""
    return _fold(builtins.max, semantic.maximum, values)


def _fold(python: Callable, triton: Callable, values: tuple) -> Any:
    values = tuple(value.value if isinstance(value, tl.constexpr) else value for value in values)
    if not any(isinstance(value, tl.tensor) for value in values):
        return python(*values)
    result = semantic.to_tensor(values[0])
    for value in values[1:]:
        result = triton(result, semantic.to_tensor(value), tl.PropagateNan.NONE)
    return result


def index(value: Any) -> int:
    """A scalar as a Python number (a loop's bound)."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if not isinstance(value, tl.tensor):
        return int(value)
    _refuse(value.handle, "loop's bound")
    return int(value.handle.data.reshape(-1)[0])


def condition(value: Any) -> Any:
    """The test of an if, a while, a conditional expression or an assert: a constant, or a scalar tensor's value."""
    if not isinstance(value, tl.tensor):
        return value
    if value.type.is_block():
        shape = "x".join(map(str, value.shape))
        raise builder.launch.mistake(
            "refused", f"a block of {shape} elements is no condition; use tl.where, a mask, or reduce it to one value first"
        )
    _refuse(value.handle, "condition of this branch")
    return bool(value.handle.data.reshape(-1)[0])


def _refuse(value: Value, what: str) -> None:
    if value.doubt is not None:
        from .access import refuse_doubt

        refuse_doubt(builder.launch, value.doubt, None, what, MASKED_OFF | UNWRITTEN)
