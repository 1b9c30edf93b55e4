"""Progress as a badge: a small picture for a README or a web page."""

from html import escape

from ..course.progress_summary import PhaseState, Summary

_CHARACTER_WIDTH = 6.2  # of 11 px Verdana, on average; textLength makes it fit
_GREY, _BLUE, _GREEN = "#5f6368", "#1a66c2", "#1e7e34"  # white text stands out at least 4.5 : 1 on each


def badge_svg(summary: Summary, label: str = "progress") -> str:
    """A self-contained SVG that says for instance "progress | 1 of 4 phases (25%)"."""
    if summary.total and summary.completed == summary.total:
        colour = _GREEN
    else:
        started = any(phase.state not in (PhaseState.EMPTY, PhaseState.OPEN) for phase in summary.phases)
        colour = _BLUE if started else _GREY
    left, right = (round(len(text) * _CHARACTER_WIDTH) + 12 for text in (label, summary.text))
    width, name = left + right, escape(f"{label}: {summary.text}")

    def text(words: str, start: int, room: int) -> str:
        return f'<text x="{start + room / 2:g}" y="14" textLength="{room - 12}">{escape(words)}</text>'

    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" aria-label="{name}">'
        f'<title>{name}</title><clipPath id="r"><rect width="{width}" height="20" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="20" fill="#3c4043"/>'
        f'<rect x="{left}" width="{right}" height="20" fill="{colour}"/></g>'
        f'<g fill="#fff" text-anchor="middle" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">'
        f"{text(label, 0, left)}{text(summary.text, left, right)}</g></svg>"
    )
