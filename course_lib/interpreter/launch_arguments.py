"""What a launch is given: its grid as three numbers, its tensors by name, and each argument as the value that a kernel sees."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.jit import TensorWrapper, mangle_type
from triton.tools.tensor_descriptor import TensorDescriptor

from .mistakes.faults import WrongArguments, WrongGrid
from .numbers.builder import builder, semantic
from .numbers.numpy_types import COMPUTED
from .values import Value


def refuse_foreign(bound: dict[str, Any], name: str) -> None:
    """Numpy arrays and lists are what a launch on a GPU refuses as well; other strangers are named where they are used."""
    for argument, value in bound.items():
        if isinstance(value, np.ndarray):
            cure = f"pass torch.from_numpy({argument})"
        elif isinstance(value, (list, dict, set)):
            cure = "make a tensor of it with torch.tensor" if isinstance(value, list) else "pass its parts one by one"
        else:
            continue
        kind = "a numpy array" if isinstance(value, np.ndarray) else f"a {type(value).__name__}"
        raise WrongArguments(f"{argument} of {name} is {kind}; a kernel takes torch tensors, numbers and constants: {cure}")


def grid_of(grid: Any, bound: dict[str, Any], name: str) -> tuple[int, int, int]:
    """The sizes of a launch's grid, which may be a function of the arguments. Raises WrongGrid for one that no GPU takes.

    Limits: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", maximum dimension of a grid.
    """
    sizes = grid(bound) if callable(grid) else grid
    if not isinstance(sizes, (tuple, list)):
        like = f"({sizes!r},)" if hasattr(sizes, "__index__") else "(triton.cdiv(n, BLOCK),)"
        raise WrongGrid(f"the grid of {name} is {sizes!r}; a grid is a tuple, as in {like}")
    if fractions := [size for size in sizes if not hasattr(size, "__index__")]:
        raise WrongGrid(f"the grid of {name} holds {fractions[0]!r}; whole programs are counted: use triton.cdiv(n, BLOCK)")
    sizes = tuple(int(size) for size in sizes)
    if not 1 <= len(sizes) <= 3 or any(size < 0 for size in sizes):
        raise WrongGrid(f"the grid of {name} is {sizes}; a grid has one to three sizes, none negative")
    sizes = sizes + (1,) * (3 - len(sizes))
    for size, limit, axis in zip(sizes, (2**31 - 1, 65535, 65535), "xyz", strict=True):
        if size > limit:
            raise WrongGrid(f"the grid of {name} has {size} programs along {axis}; CUDA allows {limit}")
    return sizes


def tensors_in(bound: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name, tensor) of every tensor among the arguments, those inside tuples and descriptors too."""
    for name, value in bound.items():
        if isinstance(value, TensorDescriptor):
            value = value.base
        if isinstance(value, tuple):
            fields = getattr(value, "_fields", range(len(value)))
            yield from tensors_in({f"{name}.{part}": item for part, item in zip(fields, value, strict=True)})
        elif hasattr(value, "data_ptr"):
            yield name, value.base if isinstance(value, TensorWrapper) else value


def as_value(arg: Any, name: str) -> Any:
    """A launch argument as the compiled kernel gets it: pointers, int32 or int64, float32, int1; the rest as it is."""
    if hasattr(arg, "data_ptr"):
        dtype = tl.str_to_ty(mangle_type(arg), None)
        return tl.tensor(Value(np.array([arg.data_ptr()], np.uint64), dtype, arg=name), dtype)
    if isinstance(arg, TensorDescriptor):
        if getattr(arg, "round_f32_to_tf32", False):  # of Triton 3.7
            raise builder.launch.mistake("refused", f"{name} asks for round_f32_to_tf32, which only a GPU does: leave it out")
        strides = [as_value(int(step), name) for step in arg.strides[:-1]] + [tl.constexpr(int(arg.strides[-1]))]
        return semantic.make_tensor_descriptor(
            as_value(arg.base, name), [as_value(int(size), name) for size in arg.shape], strides,
            [tl.constexpr(size) for size in arg.block_shape], arg.padding,
        )  # fmt: skip
    if isinstance(arg, tuple):
        fields = getattr(arg, "_fields", None)
        items = [as_value(item, f"{name}.{part}") for item, part in zip(arg, fields or range(len(arg)), strict=True)]
        return type(arg)(*items) if fields else tuple(items)
    if isinstance(arg, (bool, np.bool_)):
        return tl.tensor(Value(np.array([bool(arg)]), tl.int1), tl.int1)
    if isinstance(arg, (int, np.integer)):
        dtype = tl.str_to_ty(mangle_type(int(arg)), None)
        return tl.tensor(Value(np.array([arg], COMPUTED[dtype.name]), dtype, bound=abs(int(arg))), dtype)
    if isinstance(arg, (float, np.floating)):
        return tl.tensor(Value(np.array([arg], np.float32), tl.float32), tl.float32)
    return arg
