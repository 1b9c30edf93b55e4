"""The page of a trace: the mistake, if there is one, what stands out, and for each launch tables and pictures side by side."""

import re
import textwrap
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from io import BytesIO
from typing import Any, Protocol

from ..hardware import GpuSpec
from ..interpreter.compiled.report import CompileReport
from ..interpreter.trace import TracedLaunch
from . import compile_table, ledger_table
from .compile_table import compile_cells, compile_remarks
from .ledger_between import between_launches
from .ledger_cells import CODE, FONT, QUIET, TEXT, WASTE
from .ledger_findings import Finding, findings
from .ledger_mistake import mistake_html, mistake_text
from .ledger_numbers import UNITS, intensity_text
from .ledger_picture import Panel, panel_figure, panels
from .ledger_roofline import floors, ledger_roofline, roofline_words
from .ledger_table import argument_cells, launch_cells, line_cells, summary

OPEN = 3  # launches that are shown unfolded
WIDTH = 110
_NOTHING = "No kernel was launched."


class Shown(Protocol):
    """What a page needs of a trace (course/trace.py)."""

    launches: list[TracedLaunch]
    mistake: Any
    gpu: GpuSpec
    compiled: list[CompileReport]
    why_not_compiled: str


def every_finding(trace: Shown) -> list[tuple[int, Finding]]:
    """(number of the launch, or 0 for one between launches; finding), in the order of the launches."""
    found = [(number, one) for number, launch in enumerate(trace.launches, 1) for one in findings(launch.ledger)]
    return [*found, *((0, one) for one in between_launches(trace.launches))]


def page_html(trace: Shown) -> str:
    """Self-contained: no style sheet, no script, nothing loaded from elsewhere; text of the learner's is escaped."""
    parts = [f'<div class="course-trace" style="{TEXT};{FONT};max-width:1180px">']
    if trace.mistake is not None:
        parts.append(mistake_html(trace.mistake))
        if trace.launches:
            parts.append(f'<div style="{QUIET}">What follows was counted up to there.</div>')
    parts += _findings_html(trace)
    many = len(trace.launches) > 1
    if many:
        parts.append(_beside(_titled("Launches", launch_cells(trace.launches).html()), _roofline_html(trace, trace.launches)))
    for number, launch in enumerate(trace.launches, 1):
        inside = "".join(_launch_html(trace, launch, roofline=not many))
        head = f"{f'Launch {number}: ' if many else ''}{summary(launch.ledger)}"
        opened = " open" if number <= OPEN else ""
        told = f'<summary style="cursor:pointer">{escape(head)}</summary>'
        parts.append(f'<details{opened} style="margin:8px 0">{told}{inside}</details>')
    for report in trace.compiled:
        remarks = "".join(f"<li>{escape(remark)}</li>" for remark in compile_remarks(report))
        listed = f'<ul style="margin:4px 0">{remarks}</ul>' if remarks else ""
        title = f"{report.kernel} compiled, Triton {report.triton}"
        parts.append(_titled(title, compile_cells(report).html() + listed))
    if trace.compiled:
        parts.append(_note(compile_table.WORDS))
    if trace.why_not_compiled:
        parts.append(_note(trace.why_not_compiled))
    if _nothing(trace):
        parts.append(f"<div>{_NOTHING}</div>")
    elif any(launch.ledger.total.bytes for launch in trace.launches):
        parts.append(_note(f"Requested traffic, before any cache. {ledger_table.WORDS}. {UNITS}."))
    return "".join(parts) + "</div>"


def _nothing(trace: Shown) -> bool:
    return not trace.launches and not trace.compiled and trace.mistake is None


def page_text(trace: Shown) -> str:
    """The same for a terminal, in lines of at most 110 characters, without the pictures."""
    return re.sub(r"\n{3,}", "\n\n", "\n".join(_text_lines(trace)))


def _text_lines(trace: Shown) -> Iterator[str]:
    if trace.mistake is not None:
        yield mistake_text(trace.mistake, WIDTH)
        yield ""
        if trace.launches:
            yield "What follows was counted up to there."
            yield ""
    if _nothing(trace):
        yield _NOTHING
    if len(trace.launches) > 1:
        yield launch_cells(trace.launches).text(WIDTH)
        yield ""
    for number, launch in enumerate(trace.launches, 1):
        found = findings(launch.ledger)
        yield from textwrap.wrap(f"{f'Launch {number}: ' if len(trace.launches) > 1 else ''}{summary(launch.ledger)}", WIDTH)
        for cells in (argument_cells(launch, found), line_cells(launch.ledger, found)):
            if cells.rows:
                yield ""
                yield cells.text(WIDTH)
        if launch.ledger.total.bytes:
            yield ""
            yield from textwrap.wrap(_roof_sentence(launch, trace.gpu), WIDTH)
        for note in _notes(trace, launch):
            yield from textwrap.wrap(f"- {note}", WIDTH, subsequent_indent="  ")
        yield ""
    told = every_finding(trace)
    for number, finding in told:
        lead = f"launch {number}, " if number and len(trace.launches) > 1 else ""
        sign = "!" if finding.kind != "lanes" else "-"
        yield from textwrap.wrap(f"{sign} {lead}{finding.text}", WIDTH, subsequent_indent="  ")
    for report in trace.compiled:
        yield ""
        yield f"{report.kernel} compiled, Triton {report.triton}"
        yield compile_cells(report).text(WIDTH)
        for remark in compile_remarks(report):
            yield from textwrap.wrap(f"- {remark}", WIDTH, subsequent_indent="  ")
    yield from textwrap.wrap(trace.why_not_compiled, WIDTH)
    if trace.launches:
        if told or trace.compiled or trace.why_not_compiled:
            yield ""
        yield from textwrap.wrap(f"Requested traffic, before any cache. {ledger_table.WORDS}. {UNITS}.", WIDTH)


def _launch_html(trace: Shown, launch: TracedLaunch, *, roofline: bool) -> Iterator[str]:
    found = findings(launch.ledger)
    arguments, lines = argument_cells(launch, found), line_cells(launch.ledger, found)
    left = _titled("By argument", arguments.html()) if arguments.rows else ""
    yield _beside(left, _roofline_html(trace, [launch]) if roofline else "")
    if not roofline and launch.ledger.total.bytes:
        yield f"<div>{escape(_roof_sentence(launch, trace.gpu))}</div>"
    if lines.rows:
        yield _titled("By source line", lines.html())
    if drawn := panels(launch.ledger):
        yield _titled("Which program touches which element", _panels_html(drawn))
    yield "".join(_note(note) for note in _notes(trace, launch))


def _notes(trace: Shown, launch: TracedLaunch) -> list[str]:
    """What else is to be said of a launch; a mistake says it better."""
    return launch.ledger.notes if trace.mistake is None else []


def _panels_html(drawn: list[Panel]) -> str:
    cells = []
    for panel in drawn:
        image = _image(panel_figure(panel), f"{panel.title}: {panel.caption}. {panel.alt}")
        title, caption = f'<div style="{CODE}">{escape(panel.title)}</div>', escape(panel.caption)
        words = f'<div style="{QUIET};font-size:12px">{caption}</div>'
        cells.append(f'<div style="width:350px;max-width:100%;margin:4px 0 10px">{title}{image}{words}</div>')
    return f'<div style="display:flex;flex-wrap:wrap;gap:4px 24px;align-items:flex-start">{"".join(cells)}</div>'


def _roofline_html(trace: Shown, launches: list[TracedLaunch]) -> str:
    ledgers = [launch.ledger for launch in launches]
    figure = ledger_roofline(ledgers, trace.gpu)
    drawn = _image(figure, roofline_words(ledgers, trace.gpu)) if figure is not None else ""
    words = _roof_sentence(launches[0], trace.gpu) if len(launches) == 1 and ledgers[0].total.bytes else ""
    return f'<div style="max-width:440px">{drawn}<div>{escape(words)}</div></div>' if drawn or words else ""


def _roof_sentence(launch: TracedLaunch, gpu: GpuSpec) -> str:
    if not launch.ledger.flops:
        return f"No FLOPs: only bytes count. {floors(launch.ledger, gpu)}"
    requested, distinct = map(intensity_text, (launch.ledger.requested_intensity, launch.ledger.intensity))
    return f"{requested} FLOP per requested byte, {distinct} per distinct byte. {floors(launch.ledger, gpu)}"


def _findings_html(trace: Shown) -> Iterator[str]:
    told = every_finding(trace)
    if not told:
        return
    items = []
    for number, finding in told:
        lead = f"launch {number}, " if number and len(trace.launches) > 1 else ""
        text = lead + finding.text
        items.append(f'<li style="margin:2px 0">{escape(text[:1].upper() + text[1:])}</li>')
    listed = f'<ul style="margin:2px 0 2px 1.2em;padding:0">{"".join(items)}</ul>'
    edge = f"border-left:4px solid {WASTE};padding:4px 12px;margin:4px 0 8px"
    yield f'<div style="{edge}"><div style="font-weight:600">What stands out</div>{listed}</div>'


def _beside(left: str, right: str) -> str:
    """The right part stands beside the left one where a line has room for both, else below it."""
    sizes = ("flex:1 1 auto;max-width:100%", "flex:0 1 420px")
    parts = [(part, size) for part, size in zip((left, right), sizes, strict=True) if part]
    cells = "".join(f'<div style="min-width:0;{size}">{part}</div>' for part, size in parts)
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px 32px;align-items:flex-start">{cells}</div>'


def _titled(title: str, inside: str) -> str:
    return f'<div style="margin:8px 0"><div style="font-weight:600;margin:2px 0">{escape(title)}</div>{inside}</div>'


def _note(words: str) -> str:
    return f'<div style="{QUIET};font-size:12px;margin:4px 0">{escape(words[:1].upper() + words[1:])}</div>'


def _image(figure: Any, alt: str) -> str:
    """A PNG with twice the pixels, so that it is sharp on a fine screen too."""
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=200)
    width = figure.get_figwidth() * 100
    data = b64encode(buffer.getvalue()).decode()
    return (
        f'<img src="data:image/png;base64,{data}" alt="{escape(alt, quote=True)}" '
        f'style="width:{width:.0f}px;max-width:100%;height:auto;border-radius:4px">'
    )
