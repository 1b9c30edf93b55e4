"""What lies below a kernel's decorators, read without importing Triton: its classes are known by their names."""

from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any


def inner_function(value: Any) -> Any:
    """The object that @jit made, out of autotune and heuristics; anything else comes back as it is."""
    while type(value).__name__ in ("Autotuner", "Heuristics"):
        value = value.fn
    return value


def python_function(value: Any) -> FunctionType | None:
    """The Python function below a jit function (compiled, interpreted or Gluon) or a constexpr function."""
    value = inner_function(value)
    fn = value if isinstance(value, FunctionType) else getattr(value, "fn", None)
    return fn if isinstance(fn, FunctionType) and (fn is value or from_triton(type(value))) else None


def from_triton(thing: Any) -> bool:
    """Does a function, class or jit function come from Triton itself? Then it is imported, not copied."""
    module = getattr(thing, "__module__", None) or ""
    return module == "triton" or module.startswith("triton.")


def is_gluon(kernel: Any) -> bool:
    asked = getattr(inner_function(kernel), "is_gluon", None)
    return callable(asked) and asked()


def as_function(argument: Any) -> FunctionType | None:
    """The Python function of an argument that is a jit function, perhaps inside tl.constexpr; None for other arguments."""
    return python_function(argument.value if type(argument).__name__ == "constexpr" else argument)


def functions_in(arguments: Iterable[Any]) -> list[Any]:
    """The jit functions among the arguments of a launch: the kernel's text must define them."""
    return [argument for argument in arguments if as_function(argument) is not None]


def constant_names(fn: FunctionType) -> set[str]:
    """The parameters that are annotated as tl.constexpr."""
    return {name for name, note in fn.__annotations__.items() if "constexpr" in str(note)}


def configuration(kernel: str, configs: Iterable[Any], wanted: Mapping[str, Any]) -> Any:
    """The first of `configurations`."""
    return configurations(kernel, configs, wanted)[0]


def configurations(kernel: str, configs: Iterable[Any], wanted: Mapping[str, Any]) -> list[Any]:
    """Those of an autotuner's configurations that have these constants. Raises ValueError, with all there are, for none."""
    configs = list(configs)
    found = [config for config in configs if all(config.all_kwargs().get(name) == value for name, value in wanted.items())]
    if found:
        return found
    have = "; ".join(map(str, configs))
    raise ValueError(f"no configuration of {kernel} has {dict(wanted)}; there are: {have}")
