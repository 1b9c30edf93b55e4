"""One table, two looks: HTML for a notebook (light and dark, no style sheet) and plain text for a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

from .ledger_numbers import shortened

TEXT = "color:var(--jp-content-font-color1,inherit)"
QUIET = "color:var(--jp-content-font-color2,#616161)"
FONT = "font-family:var(--jp-content-font-family,sans-serif);font-size:13px;line-height:1.45"
CODE = "font-family:var(--jp-code-font-family,monospace);font-size:12px"
RULE = "1px solid var(--jp-border-color2,#bdbdbd)"
WASTE, WRONG = "#b26a00", "#c62828"


def ink(colour: str) -> str:
    """A colour for text; mixed with the theme's text colour it is dark on light, and light on dark."""
    return f"font-weight:600;color:color-mix(in srgb,{colour} 60%,var(--jp-content-font-color1,currentColor))"


@dataclass(frozen=True, slots=True)
class Column:
    """name: its head; text: words, on the left, instead of numbers, on the right; code: a fixed-width font in HTML.

    most  characters in a terminal, 0 for as many as it takes
    """

    name: str
    text: bool = False
    code: bool = False
    most: int = 0


@dataclass(slots=True)
class Cells:
    """rows: strings, one for each column. marked: rows with something to say, whose first column gets a sign.

    loud: places (row, column) that are the reason
    """

    columns: Sequence[Column]
    rows: list[Sequence[str]] = field(default_factory=list)
    marked: dict[int, str] = field(default_factory=dict)  # row -> colour
    loud: set[tuple[int, int]] = field(default_factory=set)

    def mark(self, column: int, colour: str) -> None:
        """Mark the last row, and the place in it that is the reason."""
        self.marked[len(self.rows) - 1] = colour
        self.loud.add((len(self.rows) - 1, column))

    def html(self) -> str:
        """A table that scrolls sideways when there is no room; every cell is escaped."""
        used = self._used()
        head = "".join(self._cell("th", self.columns[i].name, i, f"{QUIET};font-weight:600;border-bottom:{RULE}") for i in used)
        body = "".join(self._row(place, row, used) for place, row in enumerate(self.rows))
        table = f"table-layout:auto;border-collapse:collapse;border:none;margin:0;{TEXT};font-size:12px"
        return (
            f'<div style="overflow-x:auto"><table style="{table}"><thead style="border:none"><tr style="background:transparent">'
            f"{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def _row(self, place: int, row: Sequence[str], used: list[int]) -> str:
        colour = self.marked.get(place, "")
        cells = []
        for i in used:
            style = ink(colour or WASTE) if (place, i) in self.loud else ""
            if i == used[0]:
                style += f";border-left:3px solid {colour or 'transparent'};padding-left:6px"
            cells.append(self._cell("td", row[i], i, style))
        return f'<tr style="background:transparent">{"".join(cells)}</tr>'

    def _cell(self, tag: str, text: str, column: int, style: str) -> str:
        kind = self.columns[column]
        side = "left" if kind.text else "right"
        wide = "white-space:nowrap"
        code = f";{CODE};white-space:pre" if kind.code and tag == "td" else ""
        base = f"padding:2px 12px 2px 0;border:none;background:transparent;max-width:none;vertical-align:top;text-align:{side}"
        numbers = "" if kind.text else ";font-variant-numeric:tabular-nums"
        return f'<{tag} style="{base};{wide}{numbers}{code};{style}">{escape(text)}</{tag}>'

    def _used(self) -> list[int]:
        """Columns in which some row says something."""
        return [i for i in range(len(self.columns)) if any(row[i] for row in self.rows)]

    def text(self, width: int = 110) -> str:
        """Lines of at most `width` characters; the widest columns of words are cut where there is no room."""
        used = self._used()
        rows = [[shortened(row[i], self.columns[i].most or 10**6) for i in used] for row in self.rows]
        heads = [self.columns[i].name for i in used]
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        words = [place for place, i in enumerate(used) if self.columns[i].text]
        while words and 2 + sum(widths) + 2 * (len(widths) - 1) > width:
            widths[max(words, key=lambda place: widths[place])] -= 1
        lines = []
        for place, row in enumerate([heads, *rows]):
            sign = "! " if place - 1 in self.marked else "  "
            cells = []
            for i, text, room in zip(used, row, widths, strict=True):
                cut = shortened(text, room)
                cells.append(cut.ljust(room) if self.columns[i].text else cut.rjust(room))
            lines.append((sign + "  ".join(cells)).rstrip())
        return "\n".join(lines)
