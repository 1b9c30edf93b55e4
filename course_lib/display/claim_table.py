"""Claims for a terminal: a table with counts below it, or one claim in full."""

from collections.abc import Sequence
from typing import Any

from ..claims import Claim, PartState, Verdict
from ..claims.counts import Summary, count
from .claim_words import MARKS, evidence_rows, marks, verdict_words

_STYLE = {
    Verdict.CORRECT: "green", Verdict.MISLEADING: "yellow", Verdict.WRONG: "red", Verdict.TO_MEASURE: "blue",
    Verdict.UNVERIFIABLE: "dim",
}  # fmt: skip
_PART_STYLE = {PartState.FAILS: "red", PartState.NOT_HERE: "dim"}
_LEAST_WIDTH_FOR_COLUMNS = 72


def rich_table(claims: Sequence[Claim], title: str) -> Any:
    """A rich renderable: a line for each claim, and how many there are of each verdict and state. Narrow terminals get lines."""
    return _ClaimTable(tuple(claims), title)


def rich_claim(claim: Claim) -> Any:
    """One claim in full, with the arithmetic of its check done now."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("roadmap", Text(f"{claim.claim_paraphrased}."))
    table.add_row("its value", Text(claim.roadmap_says))
    table.add_row("verdict", Text(verdict_words(claim.verdict), f"bold {_STYLE[claim.verdict]}"))
    table.add_row("right", Text(claim.corrected_value))
    table.add_row("why", Text(claim.why))
    for place, (part, what, came) in enumerate(evidence_rows(claim)):
        mark = Text(f"{MARKS[part.state]} ", _PART_STYLE.get(part.state, "green"))
        joint = " " if part.evaluated is not None else ": "
        told = mark + Text(what) + Text(f"{joint}{came}", _PART_STYLE.get(part.state, ""))
        table.add_row("check" if place == 0 else "", told)
    table.add_row("source", Text(claim.source))
    if claim.note:
        table.add_row("note", Text(claim.note))
    return Group(Text.assemble((claim.id, "bold"), f"  {claim.place}"), table, Text())


class _ClaimTable:
    def __init__(self, claims: tuple[Claim, ...], title: str):
        self.claims, self.summary = claims, count(claims, title)

    def __rich_console__(self, console: Any, options: Any) -> Any:
        from rich.text import Text

        if options.max_width >= _LEAST_WIDTH_FOR_COLUMNS:
            yield _columns(self.claims)
        else:
            for one in self.claims:
                yield Text.assemble((one.id, "bold"), "  ", (verdict_words(one.verdict), _STYLE[one.verdict]))
                yield Text(f"  {one.claim_paraphrased}\n  right: {one.corrected_value}")
        yield Text()
        yield _counts(self.summary)


def _columns(claims: tuple[Claim, ...]) -> Any:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("The roadmap says", ratio=5, overflow="fold")
    table.add_column("Verdict", no_wrap=True)
    table.add_column("Right is", ratio=5, overflow="fold")
    table.add_column("Check", no_wrap=True, justify="right")
    phases = {one.phase for one in claims}
    shown = None
    for one in claims:
        if len(phases) > 1 and one.phase != shown:
            shown = one.phase
            table.add_row("", Text(f"Phase {shown}", "bold"), "", "", "")
        verdict = Text(verdict_words(one.verdict), _STYLE[one.verdict])
        table.add_row(Text(one.id, "bold"), Text(one.claim_paraphrased), verdict, Text(one.corrected_value), marks(one))
    return table


def _counts(summary: Summary) -> Any:
    from rich.text import Text

    line = Text(f"{summary.title}: {len(summary.claims)} claims. ")
    for place, (verdict, number) in enumerate((v, n) for v, n in summary.verdicts.items() if n):
        line.append(", " if place else "").append(f"{number} {verdict_words(verdict)}", _STYLE[verdict])
    line.append(f".\n{summary.checks_text}\n")
    return line.append("✓ holds, tested or measured   ○ not checked here   labs claims --id C039 shows one in full", "dim")
