"""A kernel's mistake, so that nobody has to look for it: kernel, line with its neighbours, program, argument, index and bounds.

What to do next is part of its message (interpreter/faults.py).
"""

import linecache
import textwrap
from html import escape
from typing import Any

from .ledger_cells import CODE, QUIET, WRONG, ink

AROUND = 2  # lines of source above and below


def headline(mistake: Any) -> str:
    where = f" in {mistake.place.kernel}, line {mistake.place.line}" if mistake.place else ""
    return f"{mistake.kind[:1].upper()}{mistake.kind[1:]}{where}"


def source_lines(mistake: Any) -> list[tuple[bool, int, str]]:
    """(is it the line?, its number, its text); the one line that is known when the source is nowhere to be read."""
    place = mistake.place
    if place is None:
        return []
    every = linecache.getlines(place.file)
    if not 0 < place.line <= len(every) or every[place.line - 1].strip() != place.text:
        return [(True, place.line, place.text)]
    numbers = list(range(max(1, place.line - AROUND), min(len(every), place.line + AROUND) + 1))
    left = [number for number in numbers if number >= place.line and every[number - 1][:1].strip()]
    if left and left[0] > place.line:  # a line at the left margin: the kernel ended before it
        numbers = numbers[: numbers.index(left[0])]
    while not every[numbers[-1] - 1].strip():
        numbers.pop()
    return [(number == place.line, number, every[number - 1].rstrip()) for number in numbers]


def facts(mistake: Any) -> list[tuple[str, str]]:
    found = []
    if mistake.place:
        found.append(("program", f"({', '.join(map(str, mistake.place.program))})"))
    if mistake.argument:
        found.append(("argument", mistake.argument))
    if mistake.index is not None:
        found.append(("index", str(mistake.index)))
    if mistake.bounds is not None:
        low, end = mistake.bounds
        found.append(("allowed", f"{low} to {end - 1}" if end > low else "nothing: the tensor is empty"))
    return found


def mistake_html(mistake: Any) -> str:
    """Self-contained HTML; source and message are escaped."""
    rows = []
    for here, number, text in source_lines(mistake):
        look = ink(WRONG) if here else QUIET
        rows.append(f'<span style="{look}">{"→" if here else " "} {number:>4}  {escape(text)}</span>')
    told = " &nbsp; ".join(f'<span style="{QUIET}">{name}</span> <b>{escape(value)}</b>' for name, value in facts(mistake))
    source = f'<pre style="{CODE};margin:6px 0;background:transparent;overflow-x:auto">{"<br>".join(rows)}</pre>' if rows else ""
    return (
        f'<div class="course-mistake" style="border-left:4px solid {WRONG};padding:4px 12px;margin:4px 0 8px">'
        f'<div style="{ink(WRONG)};font-size:1.08em">✗ {escape(headline(mistake))}</div>{source}'
        f"<div>{told}</div><div>{escape(_sentence(mistake))}</div></div>"
    )


def mistake_text(mistake: Any, width: int = 110) -> str:
    lines = [f"✗ {headline(mistake)}"]
    for here, number, text in source_lines(mistake):
        lines.append(f"  {'→' if here else ' '} {number:>4}  {text}"[:width])
    if told := facts(mistake):
        lines.append("  " + ", ".join(f"{name} {value}" for name, value in told))
    lines += textwrap.wrap(_sentence(mistake), width - 2, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def _sentence(mistake: Any) -> str:
    """The message; without a place of its own it begins with a kernel's name, which is left as it is."""
    message = mistake.message.strip()
    first = message[:1].upper() if mistake.place else message[:1]
    return f"{first}{message[1:]}{'' if message.endswith(('.', '!', '?')) else '.'}"
