"""A launch's arguments as plain data: what decides the compiled code, and nothing else.

Of a tensor that is its dtype, whether its address is a multiple of 16 bytes, and whether it is smaller than 2 GiB (AMD's buffer
loads); of an integer whether it is 1, a multiple of 16, and how wide it must be. Two launches with equal descriptions compile to
the same code, so the descriptions serve as a key of the cache. The values of constexpr parameters are kept whole.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from ..text.jit_functions import as_function
from ..text.kernel_constants import expression
from ..text.kernel_source import KernelSource

NOT_OPTIONS = ("grid", "warmup")
ALSO_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # given by name they are options, parameters though they may be
SMALL_BYTES = 2**31


def bind(source: KernelSource, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(arguments by parameter, launch options), as `kernel[grid](*args, **kwargs)` would sort them.

    Raises TypeError for too many, doubled or missing arguments, with the names.
    """
    names, defaulted = _parameters(source)
    if len(args) > len(names):
        raise TypeError(f"{source.name} takes {len(names)} arguments ({', '.join(names)}), got {len(args)}")
    given = dict(zip(names, args, strict=False))
    if doubled := given.keys() & kwargs.keys():
        raise TypeError(f"{source.name} got {', '.join(sorted(doubled))} twice, by position and by name")
    given |= {name: kwargs[name] for name in names if name in kwargs}
    if missing := [name for name in names if name not in given and name not in defaulted]:
        raise TypeError(f"{source.name} needs {', '.join(missing)} as well; give every argument of a launch")
    options = {name: value for name, value in kwargs.items() if name in ALSO_OPTIONS or name not in (*names, *NOT_OPTIONS)}
    return given, {name: value for name, value in options.items() if value is not None}


def describe(source: KernelSource, given: Mapping[str, Any], functions: Sequence[Any]) -> dict[str, Any]:
    """Plain data for each argument; worker.py makes stand-ins of it. Raises TypeError for what no kernel can be given."""
    constants = _constants(source)
    called = {id(as_function(f)): name for f, name in zip(functions, source.also, strict=True)}
    return {name: _described(name, value, name in constants, called) for name, value in given.items()}


def with_choices(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """kwargs completed by autotune's first config and by heuristics, and what was chosen, in words."""
    chosen, remarks = dict(kwargs), []
    while type(kernel).__name__ in ("Autotuner", "Heuristics"):
        names = kernel.arg_names
        values = dict(zip(names, args, strict=False)) | chosen
        if type(kernel).__name__ == "Heuristics":
            for name, rule in kernel.values.items():
                chosen[name] = rule({**values, **chosen})
        elif missing := {name: value for name, value in kernel.configs[0].kwargs.items() if name not in values}:
            config = kernel.configs[0]
            launch = {"num_warps": config.num_warps, "num_stages": config.num_stages, "num_ctas": config.num_ctas}
            launch |= {"maxnreg": config.maxnreg}
            chosen = missing | {name: value for name, value in launch.items() if value is not None} | chosen
            remarks.append(f"the first of {len(kernel.configs)} autotune configs: {config}")
        kernel = kernel.fn
    return chosen, tuple(remarks)


def _parameters(source: KernelSource) -> tuple[list[str], set[str]]:
    """Names of the parameters in order, and of those that have a default."""
    arguments = _definition(source).args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    defaulted = set(positional[len(positional) - len(arguments.defaults) :])
    defaulted |= {arg.arg for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default}
    return positional + [argument.arg for argument in arguments.kwonlyargs], defaulted


def _constants(source: KernelSource) -> set[str]:
    arguments = _definition(source).args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return {one.arg for one in every if one.annotation and "constexpr" in ast.unparse(one.annotation)}


def _definition(source: KernelSource) -> ast.FunctionDef:
    for node in ast.parse(source.text).body:
        if isinstance(node, ast.FunctionDef) and node.name == source.name:
            return node
    raise TypeError(f"the text defines no function {source.name}")


def _described(name: str, value: Any, constant: bool, called: Mapping[int, str]) -> dict[str, Any]:
    if function := called.get(id(as_function(value))):
        return {"kind": "function", "name": function}
    if hasattr(value, "data_ptr"):
        return _tensor(value)
    if type(value).__name__ == "TensorDescriptor":
        return _descriptor(value)
    if type(value) is tuple and not constant:
        return {"kind": "tuple", "items": [_described(name, item, False, called) for item in value]}
    if not constant and isinstance(value, int) and not isinstance(value, bool):
        value = _like(int(value))
    elif not constant and isinstance(value, float):
        value = 0.5
    text = expression(value)
    if text is None:
        raise TypeError(f"argument {name} is a {type(value).__name__}; a kernel takes tensors, numbers, tuples and constants")
    return {"kind": "value", "expression": text}


def _like(value: int) -> int:
    """The number of the smallest size that Triton treats as it treats `value`: 1, or as divisible by 16 and as wide."""
    if value == 1:
        return 1
    for bits in (31, 63, 64):
        if -(2 ** min(bits, 63)) <= value < 2**bits:
            wide = {31: 16, 63: 2**31, 64: 2**63}[bits]
            return wide if value % 16 == 0 else wide + 1
    return value  # no integer type holds it: the compiler says so


def _tensor(value: Any) -> dict[str, Any]:
    dtype = str(value.dtype).rpartition(".")[2]
    size = value.element_size() if hasattr(value, "element_size") else getattr(value.dtype, "itemsize", 1)
    if str(getattr(value, "device", "")).startswith("meta"):  # has no address; its storage would be aligned
        address, held = value.storage_offset() * size, value.untyped_storage().nbytes()
    else:
        address = value.data_ptr()
        held = value.untyped_storage().nbytes() if hasattr(value, "untyped_storage") else 0
    return {"kind": "tensor", "dtype": dtype, "itemsize": size, "aligned": address % 16 == 0, "small": held < SMALL_BYTES}


def _descriptor(value: Any) -> dict[str, Any]:
    """A host tensor descriptor. Its shape and strides are arguments of the launch, its block shape is part of the code."""
    strides = [max(16, int(stride) // 16 * 16) for stride in value.strides[:-1]] + [1]
    fields = {"base": _tensor(value.base), "shape": _value([16] * len(value.shape)), "strides": _value(strides)}
    fields["block_shape"] = _value(list(value.block_shape))
    for field, usual in (("padding", "zero"), ("round_f32_to_tf32", False), ("layout", None)):
        if getattr(value, field, usual) != usual:  # Triton 3.6 does not know all of them
            fields[field] = _value(getattr(value, field))
    return {"kind": "descriptor", "module": type(value).__module__, "fields": fields}


def _value(value: Any) -> dict[str, Any]:
    return {"kind": "value", "expression": expression(value)}
