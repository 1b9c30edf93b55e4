"""What a `for` of a kernel goes through: range(), tl.range and tl.static_range, and the tuple of a comprehension."""

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import triton.language as tl

from ..mistakes.tell import refuse_doubt
from ..numbers.builder import builder, semantic
from ..numbers.numpy_types import computed
from ..values import MASKED_OFF, UNWRITTEN, Value


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
    refuse_doubt(builder.launch, value.handle.doubt, None, "loop's bound", MASKED_OFF | UNWRITTEN)
    return int(value.handle.data.reshape(-1)[0])


def elements(value: Any) -> Any:
    """The tuple or list that a comprehension goes through."""
    if not isinstance(value, (tuple, list, tl.tuple)):
        raise builder.launch.mistake("refused", "a comprehension goes through a tuple or a list; use a loop over tl.static_range")
    return value
