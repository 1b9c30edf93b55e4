"""`lab.trace`: one run of a kernel, or of a function that launches kernels, as a page.

A mistake in a kernel is shown and does not raise: the cell ends with the page, `trace.mistake` holds it, and what was counted
up to it stands below it. Errors of host code, and a missing grid, raise as usual.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..hardware import GpuSpec
    from ..interpreter.compiled import CompileReport
    from ..interpreter.counts.books import LaunchLedger
    from ..interpreter.trace import Traced, TracedLaunch

TARGETS = ("sm_75", "sm_80", "sm_90", "gfx942")  # T4, A100, H100, MI300


class Trace:
    """What `lab.trace` returns. As the value of a cell it is the page; `print` gives its text.

    launches   the launches in order, each with `.ledger`, a LaunchLedger, which holds every number that is shown
    ledger     that of the only launch; an error where there are several
    mistake    the KernelMistake that ended the run, or None
    result     what a traced host function returned
    findings   sentences on what costs more than the result needs
    compiled   a CompileReport for each kernel (and kind of arguments) that was launched; why_not_compiled: or why there is none
    """

    def __init__(self, traced: "Traced", gpu: "GpuSpec", targets: Sequence[str] = ()):
        self._traced, self.gpu = traced, gpu
        self.compiled, self.why_not_compiled = _compiled(traced, targets)

    @property
    def launches(self) -> "list[TracedLaunch]":
        from ..interpreter.trace import NEVER

        return [launch for launch in self._traced.launches if launch.ledger.grid != NEVER]

    @property
    def mistake(self) -> Any:
        return self._traced.mistake

    @property
    def result(self) -> Any:
        return self._traced.result

    @property
    def ledger(self) -> "LaunchLedger":
        if len(self.launches) != 1:
            raise ValueError(f"there are {len(self.launches)} launches here; take launches[i].ledger")
        return self.launches[0].ledger

    @property
    def findings(self) -> list[str]:
        from ..display.trace_page import every_finding

        return [finding.text for _, finding in every_finding(self)]

    def __repr__(self) -> str:
        from ..display.trace_page import page_text

        return page_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from ..display.trace_page import page_html

        return {"text/plain": repr(self), "text/html": page_html(self)}


def trace(
    function: Callable,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    grid: Any,
    gpu: Any,
    targets: str | Sequence[str],
    config: dict[str, int] | None,
) -> Trace:
    """See `lab.trace`. What is asked for is checked before anything runs."""
    from ..hardware import gpu_named
    from ..interpreter.compiled.targets import target_named
    from ..interpreter.trace import trace as run

    named = gpu_named(gpu)
    targets = [target_named(name).name for name in ([targets] if isinstance(targets, str) else targets)]
    traced = run(function, args, kwargs, grid=grid, config=config)
    return Trace(traced, named, targets)


def _compiled(traced: "Traced", targets: Sequence[str]) -> "tuple[list[CompileReport], str]":
    """A report for each kernel and kind of arguments, or why there is none: a kernel that cannot be written down, no compiler.

    Says on stdout that it is at work, since a new kernel takes seconds.
    """
    from ..interpreter.text.kernel_parts import SourceError
    from ..interpreter.text.kernel_text import RefusedText

    if not targets or not traced.launches:
        return [], ""
    names = ", ".join(dict.fromkeys(launch.ledger.kernel for launch in traced.launches))
    print(f"compiling {names} for {', '.join(targets)} ...", flush=True)
    try:
        return _reports(traced, targets), ""
    except (SourceError, RefusedText, RuntimeError) as error:
        return [], f"not compiled: {error}"


def _reports(traced: "Traced", targets: Sequence[str]) -> "list[CompileReport]":
    if traced.tape is not None:
        from ..interpreter.recorded.recorded_compile import compile_recordings

        return compile_recordings([traced.tape], targets, cached=True)[0]
    from ..interpreter.compiled import Launch, compile_reports

    first: dict[tuple, TracedLaunch] = {}
    for launch in traced.launches:
        first.setdefault(_kind(launch), launch)
    return compile_reports([Launch(one.kernel, one.args, one.kwargs, targets) for one in first.values()])


def _kind(launch: "TracedLaunch") -> tuple:
    """Equal for launches that compile to the same code; where unsure, different."""
    from ..interpreter.text.jit_functions import constant_names, python_function

    function = python_function(launch.kernel)
    given = dict(zip(function.__code__.co_varnames, launch.args, strict=False)) | dict(launch.kwargs)
    exact = constant_names(function) | (given.keys() - set(function.__code__.co_varnames))
    return (id(function), *((name, repr(value) if name in exact else _value(value)) for name, value in sorted(given.items())))


def _value(value: Any) -> Any:
    """What of an argument decides the code."""
    if hasattr(value, "data_ptr"):
        return (str(value.dtype), value.data_ptr() % 16, value.untyped_storage().nbytes() >= 2**31)
    if type(value) is int:
        return (value == 1, value % 16 == 0, value.bit_length() > 31)
    return repr(value)
