"""The interpreter's builder: what Triton's frontend calls for each operation, done at once with numpy.

It subclasses the builder of Triton's own interpreter for the names of types, and answers everything that computes itself.
One instance serves all launches; `launch` is the one that runs now.
"""

from typing import Any, NoReturn

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder

from ..mistakes.faults import NotEmulated
from ..targets import ANY_TARGET, Target
from ..values import Value, joined
from ..watch import Launch
from .builder_arithmetic import Arithmetic
from .builder_atomics import Atomics
from .builder_casts import Casts
from .builder_descriptors import Descriptors
from .builder_dot import Products
from .builder_integers import Integers
from .builder_memory import Memory
from .builder_shape import Shape
from .frontend import CourseSemantic
from .library import emulation
from .numpy_types import computed


class CourseBuilder(Arithmetic, Integers, Casts, Products, Memory, Atomics, Descriptors, Shape, InterpreterBuilder):
    """See the module. Scalars are arrays of shape (1,)."""

    def __init__(self) -> None:
        super().__init__()
        self.launch: Launch | None = None
        self.aim_at(ANY_TARGET)

    def aim_at(self, target: Target) -> None:
        """Refuse what the compiler for this target would refuse (shapes of tl.dot, fp8 types)."""
        self.target, self.options, self.arch = target, target.options, target.arch
        self.codegen_fns["min_dot_size"] = target.min_dot_size
        self.codegen_fns["convert_custom_types"] = self._convert_custom_types

    def _convert_custom_types(self, arg: Any, dst_ty: Any, rounding: Any, _semantic: Any) -> Any:
        return tl.tensor(self.create_fp_to_fp(arg.handle, dst_ty, rounding), dst_ty)

    # -- constants and the grid ----------------------------------------------------------------------------------------

    def create_get_program_id(self, axis: int) -> Value:
        index = self.launch.program[axis]
        return Value(np.array([index], np.int32), tl.int32, bound=index)

    def create_get_num_programs(self, axis: int) -> Value:
        count = self.launch.grid[axis]
        return Value(np.array([count], np.int32), tl.int32, bound=count)

    # -- asserts, prints, and what cannot be done here -----------------------------------------------------------------

    def create_assert(self, condition: Value, message: str) -> None:
        if not condition.data.all():
            lane = [int(i) for i in np.argwhere(~condition.data)[0]]
            raise self.launch.mistake("assert", f"tl.device_assert failed at lane {lane}: {message}", index=lane)

    def create_assume(self, condition: Value) -> None:
        if not condition.data.all():
            raise self.launch.mistake("assert", "tl.assume was told something that is not so")

    def create_barrier(self) -> None:
        """Lanes of one program always stand at the same line here."""

    create_gather_barrier = create_barrier

    def create_print(self, prefix: str, hexadecimal: bool, values: list[Value], is_signed: Any) -> None:
        start = f"({', '.join(map(str, self.launch.program))}) {(prefix or '').strip()}".rstrip()
        for value in values:
            shown = np.vectorize(lambda x: f"{int(x):#x}", otypes=[object])(value.data) if hexadecimal else value.data
            print(f"{start} {shown}")

    def create_extern_elementwise(self, lib: str, path: str, symbol: str, args: list[Value], ret_type: Any, *_: Any) -> Value:
        """A function of libdevice, where numpy has it."""
        compute = emulation(symbol)
        if compute is None:
            raise NotEmulated(
                "refused", self.launch.place(), f"the library function {symbol} exists only in compiled code; {_INSTEAD}"
            )
        self.launch.count_special(symbol.removeprefix("__nv_"), max(arg.data.size for arg in args))
        data = np.asarray(compute(*(arg.data for arg in args)))
        doubt = joined(data.shape, *(arg.doubt for arg in args))
        kind = {"f": tl.float64, "b": tl.int1}.get(data.dtype.kind, ret_type.scalar)
        return self.create_fp_trunc(Value(data, kind, doubt=doubt), ret_type)

    def create_inline_asm(self, asm: str, *_: Any) -> None:
        raise NotEmulated("refused", self.launch.place(), f"inline assembly `{asm.strip()[:60]}` runs only compiled; {_INSTEAD}")

    def refuse(self, what: str) -> NoReturn:
        raise NotEmulated("refused", self.launch.place(), f"{what} is not emulated; {_INSTEAD}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("create_"):
            what = f"the operation {name.removeprefix('create_')} is not emulated; {_INSTEAD}"
            place = self.launch.place() if self.launch else None
            raise NotEmulated("refused", place, what)
        raise AttributeError(name)


_INSTEAD = "run it on a GPU, or prove with compile_report that it compiles"


def _constant(name: str) -> Any:
    kind = getattr(tl, name)

    def get(self: CourseBuilder, value: Any) -> Value:
        data = np.array([value]).astype(computed(kind))
        return Value(data, kind, bound=abs(int(value)) if kind.is_int() else None)

    return get


for _tl, _short in (
    ("int1", "int1"), ("int8", "int8"), ("int16", "int16"), ("int32", "int32"), ("int64", "int64"), ("uint8", "uint8"),
    ("uint16", "uint16"), ("uint32", "uint32"), ("uint64", "uint64"),
    ("float16", "fp16"), ("float32", "fp32"), ("float64", "fp64"),
):  # fmt: skip
    setattr(CourseBuilder, f"get_{_short}", _constant(_tl))


def _get_bf16(self: CourseBuilder, value: Any) -> Value:
    return self.create_fp_trunc(self.get_fp32(value), tl.bfloat16)


CourseBuilder.get_bf16 = _get_bf16

builder = CourseBuilder()
semantic = CourseSemantic(builder)
