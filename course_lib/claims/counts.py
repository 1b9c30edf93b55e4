"""How many claims there are of each verdict, for a phase or for all, and how their checks stand: counts, and a small table."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from .load import Claim, Verdict, select
from .states import PartState, evidence

MEANING = {
    Verdict.CORRECT: "holds, at times with a condition",
    Verdict.MISLEADING: "true only under conditions that are left out, or right in kind and wrong in size",
    Verdict.WRONG: "contradicts a source, a measurement or its own arithmetic",
    Verdict.TO_MEASURE: "depends on a configuration that is not given: it has to be measured",
    Verdict.UNVERIFIABLE: "a choice or a target; there is nothing that could refute it",
}


@dataclass(frozen=True)
class Summary:
    """Counts over some claims. Shows itself as text, and as a table in a notebook."""

    title: str
    claims: tuple[Claim, ...]
    verdicts: dict[Verdict, int]
    states: dict[PartState, int]  # over the parts of all checks

    def __repr__(self) -> str:
        rows = [f"{self.title}: {len(self.claims)} claims"]
        rows += [f"  {count:>4}  {verdict:<13} {MEANING[verdict]}" for verdict, count in self.verdicts.items()]
        return "\n".join([*rows, "", self.checks_text])

    @property
    def checks_text(self) -> str:
        """One sentence on the parts of the checks."""
        words = {
            PartState.HOLDS: "of arithmetic, which holds to the printed digits", PartState.FAILS: "of arithmetic that FAILS",
            PartState.TESTED: "examined by a test", PartState.MEASURED: "measured on a device",
            PartState.NOT_HERE: "not checked here",
        }  # fmt: skip
        parts = [f"{self.states[state]} {words[state]}" for state in PartState if self.states[state]]
        return f"Parts of their checks: {'; '.join(parts)}." if parts else "No claims."

    def _repr_html_(self) -> str:
        cell = "text-align:left;padding:4px 14px 4px 0;border:none;vertical-align:baseline"
        most = max(self.verdicts.values(), default=1) or 1
        rows = "".join(
            f'<tr style="background:transparent"><td style="{cell};text-align:right;font-weight:600">{count}</td>'
            f'<td style="{cell};white-space:nowrap">{verdict}</td>'
            f'<td style="{cell}"><div aria-hidden="true" style="width:{160 * count / most:.0f}px;height:10px;border-radius:3px;'
            f'background:var(--jp-brand-color1, #2b7de9)"></div></td><td style="{cell};opacity:.85">{MEANING[verdict]}</td></tr>'
            for verdict, count in self.verdicts.items()
        )
        style = "border-collapse:collapse;border:none;margin:4px 0;table-layout:auto;font-size:13px"
        return (
            f'<div style="color:var(--jp-content-font-color1, inherit);max-width:880px;font-size:13px">'
            f'<div style="font-weight:600;font-size:1.1em">{self.title}: {len(self.claims)} claims</div>'
            f'<table style="{style}"><tbody>{rows}</tbody></table><div>{self.checks_text}</div></div>'
        )


def summary(phase: int | None = None) -> Summary:
    """Counts of one phase, or of the whole roadmap."""
    return count(select(phase=phase), "The whole roadmap" if phase is None else f"Phase {phase} of the roadmap")


def count(claims: Iterable[Claim], title: str) -> Summary:
    """Counts over these claims: every verdict is there, with 0 where there is none."""
    claims = tuple(claims)
    verdicts = Counter(one.verdict for one in claims)
    states = Counter(part.state for one in claims for part in evidence(one))
    counts = {verdict: verdicts[verdict] for verdict in Verdict}
    return Summary(title, claims, counts, {state: states[state] for state in PartState})
