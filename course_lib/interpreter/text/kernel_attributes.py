"""Which attributes a recorded kernel may read of what is no module: those of the language's values, and nothing that leads on.

A list of what is allowed: a generator's gi_frame, a kernel's pre_run_hooks or a value's handle give a text the whole process, or
numbers that nobody counts, and nobody knows all such names. Nor may one program keep something for the next: a container that
outlives it (a class's list, a shape's values) would save the next one its loads.
"""

import importlib
import sys
import types
from functools import cache
from typing import Any


@cache
def of_values() -> frozenset[str]:
    """Public attributes of the language's values, and those of Python's numbers and lists that a constexpr function needs."""
    language = importlib.import_module("triton.language")
    core = language.core
    kinds = (core.tensor, core.dtype, core.pointer_type, core.block_type, core.constexpr, core.tuple, core.tensor_descriptor)
    own = ("type", "dtype", "shape", "strides", "numel", "value", "name", "element_ty", "primitive_bitwidth", "int_bitwidth",
           "itemsize", "block_type", "address_space", "fp_mantissa_width", "exponent_bias", "int_signedness",
           "ALL", "NONE")  # the last two: of tl.PropagateNan  # fmt: skip
    plain = ("bit_length", "bit_count", "append", "extend", "insert", "index", "count", "startswith", "endswith")
    public = {name for kind in kinds for name in dir(kind) if not isinstance(getattr(kind, name, None), (list, dict, set))}
    return frozenset(name for name in public if not name.startswith("_")) | {*own, *plain}


@cache
def hidden() -> frozenset[str]:
    """What a field of a tuple may not be called, because it leads out of a module or into Python's own machinery."""
    frame = sys._getframe()
    things: list[Any] = [frame, frame.f_code, of_values.__wrapped__, (x for x in ()), types.CoroutineType, types.TracebackType,
                         types.AsyncGeneratorType, types.MethodType, type, str]  # fmt: skip
    things += [module for name, module in sys.modules.items() if name.partition(".")[0] in ("triton", "math")]
    jit = importlib.import_module("triton.runtime.jit")
    things += [jit.JITFunction, importlib.import_module("triton.runtime.interpreter").InterpretedFunction]
    inside = {"fn", "pre_run_hooks", "kwargs", "arg_names", "rewriter", "handle"}
    return frozenset(name for thing in things for name in dir(thing)) - of_values() | inside
