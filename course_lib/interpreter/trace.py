"""Runs a kernel, or a function that launches kernels, once under the ledger with every check on, and keeps what a page needs:
the counts of each launch, its arguments as shapes, what to compile, and the mistake that ended it.

A mistake in a kernel is kept, not raised: it is an answer to "what does my kernel do?". Errors of the host's own code are raised.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from . import entry
from .counts.books import LaunchLedger, Ledger
from .text.jit_functions import configuration, inner_function, is_gluon, python_function

NEVER = (0, 0, 0)  # the grid of a launch that did not run


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor of a launch. address: of its first element; strides in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    address: int
    itemsize: int


@dataclass
class TracedLaunch:
    """One launch. kernel, args and kwargs are what compile_report takes; they also keep the tensors alive, and with them the
    addresses of `tensors`, so that equal addresses in two launches mean one tensor. `tensors` is empty where nothing is known."""

    ledger: LaunchLedger
    kernel: Any = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    tensors: dict[str, Argument] = field(default_factory=dict)


@dataclass
class Traced:
    """result: what a host function returned. mistake: the KernelMistake that ended the run, or None.

    tape  the launches of a host function as plain data, where they were written down (on a GPU): what can be compiled of them
    """

    launches: list[TracedLaunch] = field(default_factory=list)
    result: Any = None
    mistake: Any = None
    tape: Mapping[str, Any] | None = None


def is_kernel(function: Any) -> bool:
    """Made by @triton.jit, perhaps inside @triton.autotune or @triton.heuristics."""
    return inner_function(function) is not python_function(function) and python_function(function) is not None


def trace(
    function: Callable, args: Sequence[Any], kwargs: Mapping[str, Any], *, grid: Any = None, config: dict[str, int] | None = None
) -> Traced:
    """Run `function[grid](*args, **kwargs)` or, for a host function, `function(*args, **kwargs)`; see the file's first lines.

    Raises ValueError for a kernel without a grid or a host function with one, RuntimeError where nothing can be traced.
    """
    name = getattr(python_function(function) or function, "__name__", type(function).__name__)
    kernel = is_kernel(function)
    if kernel and grid is None:
        raise ValueError(f"{name} is a kernel, and a launch needs a grid: lab.trace({name}, ..., grid=(programs,))")
    if not kernel and grid is not None:
        cure = "write @triton.jit above it, or leave grid= out where it launches kernels itself"
        raise ValueError(f"{name} is no kernel made by @triton.jit, and grid= is for kernels: {cure}")
    if not callable(function) and not kernel:
        raise ValueError(f"trace takes a kernel or a function that launches kernels, got a {type(function).__name__}")
    if kernel and is_gluon(function):
        return _gluon(function, name, args, kwargs)
    state = entry.state()
    if state.mode in ("cuda", "rocm"):
        return _on_device(function, kernel, args, kwargs, grid, config)
    if state.mode != "interpreter":
        raise RuntimeError(f"nothing can be traced here: {state.reason}")
    return _interpreted(function[grid] if kernel else function, args, kwargs, config)


def _gluon(kernel: Callable, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Traced:
    from .mistakes.faults import NotEmulated

    why = f"{name} is a Gluon kernel, which only a GPU runs: nothing is counted here. What it compiles to can be shown"
    return Traced([_only_compiled(kernel, name, args, kwargs)], mistake=NotEmulated("refused", None, why))


def _only_compiled(kernel: Callable, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TracedLaunch:
    """A launch without counts; its ledger's grid is (0, 0, 0), which no launch that ran has."""
    return TracedLaunch(LaunchLedger(name, NEVER), kernel, args, kwargs)


def _interpreted(call: Callable, args: Sequence[Any], kwargs: Mapping[str, Any], config: dict[str, int] | None) -> Traced:
    from .mistakes.faults import KernelMistake
    from .switch import interpreting, ledger

    traced = Traced()
    listener = lambda *launch: _noted(book, traced.launches, *launch)  # noqa: E731
    with interpreting(listener=listener, config=config), ledger(pictures=True) as book:
        try:
            traced.result = call(*args, **kwargs)
        except KernelMistake as mistake:
            traced.mistake = mistake
    return traced


def _noted(
    book: Ledger, launches: list[TracedLaunch], kernel: Any, grid: Any, args: tuple, kwargs: dict, config: str, run: Callable
) -> None:
    """Run one launch, and keep it with its arguments, even when it ends in a mistake."""
    known = len(book.launches)
    try:
        run(grid)
    finally:
        for counted in book.launches[known:]:
            launches.append(TracedLaunch(counted, kernel, args, kwargs, _tensors_of(kernel, args, kwargs)))


def _on_device(
    function: Callable, kernel: bool, args: Sequence[Any], kwargs: Mapping[str, Any], grid: Any, config: dict[str, int] | None
) -> Traced:
    """Where kernels are compiled for a GPU: the launches are written down without running, and run interpreted in a child.

    What a host function computes from a launch's result is therefore computed from memory that nobody wrote; a function that
    decides by such a value has to be traced kernel by kernel.
    """
    from .recorded.replay import ledger_of

    if not kernel:
        return _recorded(function, args, kwargs, config)
    options = {**kwargs, **_chosen(function, config)}
    try:
        counted = ledger_of(function, *args, grid=grid, config=config, pictures=True, **kwargs)
    except RuntimeError as error:
        never = _only_compiled(function, python_function(function).__name__, args, options)
        return Traced([never], mistake=_from_child(error))
    return Traced([TracedLaunch(counted, function, args, options, _tensors_of(function, args, kwargs))])


def _chosen(kernel: Any, config: dict[str, int] | None) -> dict[str, Any]:
    """All that the configuration asked for sets (constants, num_warps, ...), so that it is the one that is compiled."""
    while config and not hasattr(kernel, "configs"):
        if not hasattr(kernel, "fn"):
            return {}
        kernel = kernel.fn
    return configuration(kernel.base_fn.__name__, kernel.configs, config).all_kwargs() if config else {}


def _recorded(function: Callable, args: Sequence[Any], kwargs: Mapping[str, Any], config: dict[str, int] | None) -> Traced:
    """A host function on a GPU: its launches on a tape, replayed. A storage's number stands for its address."""
    from .recorded.recording import record
    from .recorded.replay import replay
    from .recorded.replay_worker import tensors_of

    with record(run=False, config=config) as tape:
        function(*args, **kwargs)
    data = tape.data()
    places = [dict(tensors_of(launch["arguments"])) for launch in data["launches"]]
    replayed = replay(data, may_compute=sorted({name for place in places for name in place}), pictures=True)
    if replayed.reason:
        error = RuntimeError(replayed.reason)
        if replayed.blocked:
            raise error
        return Traced(mistake=_from_child(error))
    tensors = [{name: _taped(tensor) for name, tensor in place.items()} for place in places]
    launches = [TracedLaunch(counted, tensors=mine) for counted, mine in zip(replayed.launches, tensors, strict=True)]
    return Traced(launches, tape=data)


def _from_child(error: RuntimeError) -> Exception:
    """The mistake that a child process told in words; any other error is raised."""
    from .mistakes.faults import KernelMistake

    if ", line " not in str(error):
        raise error
    return KernelMistake("mistake", None, str(error))


def _tensors_of(kernel: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Argument]:
    from .launch_arguments import tensors_in

    names = python_function(kernel).__code__.co_varnames
    bound = dict(zip(names, args, strict=False)) | {name: value for name, value in kwargs.items() if name in names}
    return {name: _argument(tensor) for name, tensor in tensors_in(bound)}


def _taped(place: Mapping[str, Any]) -> Argument:
    import torch

    itemsize = getattr(torch, place["dtype"]).itemsize
    address = (place["storage"] << 48) + place["offset"] * itemsize
    return Argument(tuple(place["size"]), tuple(place["stride"]), place["dtype"], address, itemsize)


def _argument(tensor: Any) -> Argument:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return Argument(tuple(tensor.shape), tuple(tensor.stride()), dtype, tensor.data_ptr(), tensor.element_size())
