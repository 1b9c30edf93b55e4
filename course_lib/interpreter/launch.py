"""Runs the grid of one launch: programs run one after the other, mistakes name their place, and all is as before at its end."""

import inspect
import os
import sys
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import triton
from triton.compiler.compiler import make_backend
from triton.runtime.interpreter import GridExecutor

from .counts.accounting import Account
from .counts.books import LaunchLedger, program_index
from .launch_arguments import as_value, grid_of, refuse_foreign, tensors_in
from .mistakes.faults import KernelMistake, Place, WrongArguments
from .mistakes.memory import Memory
from .mistakes.next_step import next_step
from .numbers.builder import builder
from .source import language
from .source.rewrite import codes, rewritten
from .targets import Target, gpu_target
from .watch import Checks, Launch, source_line


def run_grid(
    kernel: Any,
    grid: Any,
    args: tuple,
    kwargs: dict,
    *,
    checks: Checks,
    target: Target,
    ledger: LaunchLedger | None,
    pictures: bool,
    programs: int | None = None,
) -> None:
    """Run `kernel[grid](*args, **kwargs)`, or its first `programs` only.

    kernel  Triton's InterpretedFunction; ledger: filled while it runs, or None
    Raises  KernelMistake for a mistake (see faults.py), and for any other error inside the kernel
    Threads take turns: builtins of the language answer for one launch at a time.
    """
    with _turn:
        if builder.launch is not None and not _inside_a_launch():
            _tidy()
        if builder.launch is not None:
            outer, inner = builder.launch.kernel, kernel.fn.__name__
            raise builder.launch.mistake(
                "refused", f"{outer} launches {inner}; a kernel can only call another, without a grid: {inner}(...)"
            )
        _run(kernel, grid, args, kwargs, checks, target, ledger, pictures, programs)


_turn = threading.RLock()


def _inside_a_launch() -> bool:
    """Is a launch of this thread running? If not, what it left behind is that of one whose end was interrupted."""
    frame = sys._getframe()
    while frame is not None and frame.f_code is not _run.__code__:
        frame = frame.f_back
    return frame is not None


def _tidy() -> None:
    """The language as it is outside of launches."""
    language.restore()
    builder.launch = None


def _run(
    kernel: Any, grid: Any, args: tuple, kwargs: dict, checks: Checks, target: Target,
    ledger: LaunchLedger | None, pictures: bool, programs: int | None,
) -> None:  # fmt: skip
    fn = rewritten(kernel.fn)
    names = inspect.getfullargspec(kernel.fn).args
    if unknown := kwargs.keys() - set(names) - _launch_options():
        known = f"its arguments are {', '.join(names)}; options of a launch are num_warps, num_stages and the like"
        raise WrongArguments(f"{kernel.fn.__name__} has no argument {' and no argument '.join(sorted(unknown))}: {known}")
    kwargs = {name: value for name, value in kwargs.items() if name in names}
    executor = GridExecutor(kernel.fn, kernel.arg_names, grid, kernel.pre_run_hooks)
    elsewhere = any(tensor.device.type != "cpu" for _, tensor in tensors_in({"args": args, **kwargs}))
    args_host, kwargs_host = executor._init_args_hst(args, kwargs) if elsewhere else (args, kwargs)
    for hook in kernel.pre_run_hooks:
        hook(*args_host, **kwargs_host)
    try:
        bound = inspect.getcallargs(kernel.fn, *args_host, **kwargs_host)
    except TypeError as error:
        raise WrongArguments(f"{error}; its arguments are {', '.join(names)}") from None
    refuse_foreign({name: value for name, value in bound.items() if name not in executor.constexprs}, kernel.fn.__name__)
    memory = Memory(tensors_in(bound))
    sizes = grid_of(grid, bound, kernel.fn.__name__)
    account = None
    if ledger is not None:
        ledger.grid = sizes
        account = Account(ledger, pictures)
    launch = Launch(kernel.fn.__name__, memory, sizes, checks, target, account, codes=codes)
    stopped = "the launch was interrupted"
    try:
        builder.launch = launch
        builder.aim_at(target)
        language.apply()
        with np.errstate(all="ignore"):
            values = {name: value if name in executor.constexprs else as_value(value, name) for name, value in bound.items()}
            _run_programs(fn, launch, values, programs)
        stopped = ""
    except Exception as error:
        stopped = str(error)
        raise
    finally:
        try:
            _tidy()
        except BaseException:  # an interrupt at just this time; whatever is left after a second one, the next launch tidies up
            _tidy()
            raise
        if account is not None:
            account.close(stopped)
        if elsewhere:
            executor._restore_args_dev(args, args_host, kwargs, kwargs_host)


def _forget_the_parents_launch() -> None:
    """A child of a fork has the thread that forked, and none that might be in a launch: nobody would end its turn."""
    global _turn
    if not _turn._is_owned():
        _turn = threading.RLock()
        _tidy()


os.register_at_fork(after_in_child=_forget_the_parents_launch)


@cache
def _launch_options() -> frozenset[str]:
    """What a compiled launch takes besides a kernel's arguments: num_warps, maxnreg, waves_per_eu, ... None of it counts here."""
    gpus = (gpu_target(name) for name in ("sm_90", "gfx942"))
    return frozenset(name for gpu in gpus for name in vars(make_backend(gpu).parse_options({})))


def _run_programs(fn: Callable, launch: Launch, values: dict[str, Any], programs: int | None) -> None:
    for linear in range(int(np.prod(launch.grid, dtype=np.int64)))[:programs]:
        launch.linear, launch.program = linear, program_index(linear, launch.grid)
        try:
            fn(**values)
        except KernelMistake:
            raise
        except Exception as error:
            if triton.knobs.compilation.front_end_debugging:
                raise
            step = next_step(error)
            words = f"{type(error).__name__}: {error}{'; ' if step else ''}{step}"
            raise KernelMistake("error", _where(error, launch), words) from error


def _where(error: BaseException, launch: Launch) -> Place | None:
    """The learner's line in a traceback (the frame itself is gone)."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code in launch.codes:
            found = source_line(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return found and Place(launch.kernel, found.file, found.number, found.text, launch.program)
