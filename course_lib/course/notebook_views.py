"""What a notebook shows where a ledger or a compile report is the value of a cell: the tables of `lab.trace`.

Registered with IPython by `lab`, by name, so that neither the interpreter nor Triton is loaded for it. Elsewhere both print as
what they are.
"""

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..hardware import GpuSpec
    from ..interpreter.compiled import CompileReport
    from ..interpreter.trace import TracedLaunch

_BOOKS, _REPORT = "course_lib.interpreter.counts.books", "course_lib.interpreter.compiled.report"
GPU = "H100 SXM"  # whose roofline is drawn; lab.trace(..., gpu=) draws another's


@dataclass
class _Page:
    """As much of a trace as there is."""

    gpu: "GpuSpec"
    launches: "list[TracedLaunch]" = field(default_factory=list)
    compiled: "list[CompileReport]" = field(default_factory=list)
    mistake: Any = None
    why_not_compiled: str = ""


def register(formatter: Any = None) -> None:
    """formatter: IPython's DisplayFormatter; default: that of the notebook that this runs in, if it is one."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and formatter is None else None
    formatter = shell.display_formatter if shell is not None else formatter
    if formatter is None:
        return
    html, plain = formatter.formatters["text/html"], formatter.formatters["text/plain"]
    for module, name, page in (
        (_BOOKS, "Ledger", _ledger),
        (_BOOKS, "LaunchLedger", _launch),
        (_REPORT, "CompileReport", _report),
    ):
        html.for_type_by_name(module, name, lambda shown, page=page: _html(page(shown)))
        plain.for_type_by_name(module, name, lambda shown, printer, cycle, page=page: printer.text(_text(page(shown))))


def _html(page: _Page) -> str:
    from ..display.trace_page import page_html

    return page_html(page)


def _text(page: _Page) -> str:
    from ..display.trace_page import page_text

    return page_text(page).strip("\n")


def _page(**parts: Any) -> _Page:
    from ..hardware import gpu_named

    return _Page(gpu_named(GPU), **parts)


def _ledger(book: Any) -> _Page:
    from ..interpreter.trace import TracedLaunch

    return _page(launches=[TracedLaunch(launch) for launch in book.launches])


def _launch(launch: Any) -> _Page:
    from ..interpreter.trace import TracedLaunch

    return _page(launches=[TracedLaunch(launch)])


def _report(report: Any) -> _Page:
    return _page(compiled=[report])
