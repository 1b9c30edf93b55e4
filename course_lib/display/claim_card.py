"""Predict, then reveal: a claim of the roadmap, a choice of verdicts, and what holds, folded away until the reader has chosen.

The card is HTML with the answer in <details>, which needs neither a script nor a kernel, so that it works on an exported page and
in a front end without widgets. In a live notebook a row of buttons follows it. No score is kept; a guess is remembered until the
kernel ends.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from ..claims import Claim, PartState, Verdict
from .claim_words import MARKS, choices, evidence_rows, verdict_words
from .front_end import someone_can_click

_TEXT, _FAINT = "var(--jp-content-font-color1, inherit)", "var(--jp-content-font-color2, #5f6368)"
_LINE = "var(--jp-border-color2, rgba(128,128,128,.4))"
_INK = {
    Verdict.CORRECT: "#2e7d32", Verdict.MISLEADING: "#b26a00", Verdict.WRONG: "#c62828",
    Verdict.TO_MEASURE: "#1f6fb2", Verdict.UNVERIFIABLE: "#607d8b",
}  # fmt: skip
_guesses: dict[str, Verdict] = {}  # of this session


class ClaimCards:
    """The value of a `lab.predict` cell: one or more cards. As text a card is its question; `answer` is the folded part."""

    def __init__(self, claims: Sequence[Claim]):
        self.claims = tuple(claims)

    def __repr__(self) -> str:
        return "\n\n".join(map(_question_text, self.claims))

    @property
    def answer(self) -> str:
        return "\n\n".join(map(answer_text, self.claims))

    def _ipython_display_(self) -> None:
        from IPython.display import display

        live = someone_can_click()
        for claim in self.claims:
            buttons = _buttons(claim) if live else None
            display(bundle(claim, with_buttons=buttons is not None), raw=True)
            if buttons is not None:
                display(buttons)


def bundle(claim: Claim, with_buttons: bool = False) -> dict[str, str]:
    """A card without its buttons: complete by itself, since an exported page has no kernel behind a button."""
    return {"text/plain": _question_text(claim), "text/html": _folded_html(claim, with_buttons)}


def answer_text(claim: Claim) -> str:
    """Verdict, corrected value, reason, each part of the check, and source, as lines."""
    lines = [f"{claim.id}: {verdict_words(claim.verdict)}", f"  right   {claim.corrected_value}", f"  why     {claim.why}"]
    lines += [f"  {MARKS[part.state]}       {what}  {came}" for part, what, came in evidence_rows(claim)]
    lines += [f"  source  {claim.source}"]
    return "\n".join(lines + ([f"  note    {claim.note}"] if claim.note else []))


def _question_text(claim: Claim) -> str:
    return (
        f"{claim.id}, {claim.place}\n  The roadmap: {claim.claim_paraphrased}.\n  Its value: {claim.roadmap_says}\n"
        f"  Is that {choices()}? When you have guessed: labs claims --id {claim.id}"
    )


def _buttons(claim: Claim) -> Any:
    """A button for each verdict; a press shows the answer, another one changes the guess. None where ipywidgets is missing."""
    try:
        import ipywidgets
    except ImportError:
        return None

    class Choice(ipywidgets.VBox):
        def _repr_mimebundle_(self, **kwargs: Any) -> Any:
            return (super()._repr_mimebundle_(**kwargs) or {}) | {"text/plain": ""}  # a front end without widgets shows nothing

    answer = ipywidgets.HTML()
    buttons = {verdict: _button(ipywidgets, claim, verdict) for verdict in Verdict}

    def show(guess: Verdict) -> None:
        _guesses[claim.id] = guess
        for verdict, button in buttons.items():
            button.icon = "check" if verdict is guess else ""
        answer.value = _framed(_answer_html(claim, guess))

    for verdict, button in buttons.items():
        button.on_click(lambda _button, verdict=verdict: show(verdict))
    if claim.id in _guesses:
        show(_guesses[claim.id])
    return Choice([ipywidgets.HBox(list(buttons.values()), layout=ipywidgets.Layout(flex_flow="row wrap")), answer])


def _button(ipywidgets: Any, claim: Claim, verdict: Verdict) -> Any:
    words = verdict_words(verdict)
    layout = ipywidgets.Layout(width="auto", min_width="96px")
    return ipywidgets.Button(description=words, tooltip=f"{claim.id} is {words}", layout=layout)


def _folded_html(claim: Claim, with_buttons: bool) -> str:
    asks = "Decide, then press a button, or open the answer here." if with_buttons else f"Is that {choices()}? Decide, then open."
    opener = f'<summary style="cursor:pointer;color:{_FAINT};font-size:13px">{escape(asks)}</summary>'
    return _framed(f'{_question_html(claim)}<details style="margin-top:4px">{opener}{_answer_html(claim)}</details>')


def _framed(inside: str) -> str:
    font = "font-family:var(--jp-content-font-family, sans-serif);font-size:14px;line-height:1.5"
    return (
        f'<div class="course-claim" style="color:{_TEXT};{font};border-left:4px solid {_LINE};padding:2px 12px;margin:6px 0;'
        f'max-width:860px">{inside}</div>'
    )


def _question_html(claim: Claim) -> str:
    return (
        f'<div style="color:{_FAINT};font-size:13px"><b>{claim.id}</b>&ensp;roadmap, {escape(claim.place)}</div>'
        f'<div style="font-size:15px">{escape(claim.claim_paraphrased)}.</div>'
        f'<div style="color:{_FAINT};font-size:13px">The roadmap\'s value: <b>{escape(claim.roadmap_says)}</b></div>'
    )


def _answer_html(claim: Claim, guess: Verdict | None = None) -> str:
    verdict = f'<b style="{_ink(_INK[claim.verdict])}">{verdict_words(claim.verdict)}</b>'
    head = f"The verdict: {verdict}."
    if guess is claim.verdict:
        head = f"You said {verdict}, and that is the verdict."
    elif guess is not None:
        head = f"You said <b>{verdict_words(guess)}</b>. The verdict: {verdict}."
    rows = [("Right", escape(claim.corrected_value)), ("Why", escape(claim.why)), ("Check", _checks_html(claim))]
    rows += [("Source", escape(claim.source))] + ([("Note", escape(claim.note))] if claim.note else [])
    cell = "text-align:left;vertical-align:top;padding:3px 14px 3px 0;border:none;max-width:none;background:transparent"
    label = f"font-weight:normal;color:{_FAINT};width:1px"
    body = "".join(
        f'<tr style="background:transparent"><th scope="row" style="{cell};{label}">{name}</th>'
        f'<td style="{cell};overflow-wrap:anywhere">{value}</td></tr>'
        for name, value in rows
    )
    style = f"border-collapse:collapse;border:none;margin:2px 0;table-layout:auto;width:100%;font-size:13px;color:{_TEXT}"
    return f'<div style="margin-top:6px">{head}</div><table style="{style}"><tbody>{body}</tbody></table>'


def _checks_html(claim: Claim) -> str:
    lines = []
    for part, what, came in evidence_rows(claim):
        colour = {PartState.FAILS: "#c62828", PartState.NOT_HERE: "#607d8b"}.get(part.state, "#2e7d32")
        shown = f"<code>{escape(what)}</code>" if part.evaluated is not None else escape(what)
        joint = " " if part.evaluated is not None else ": "
        lines.append(f'<div><span style="{_ink(colour)}">{MARKS[part.state]}</span> {shown}{joint}{escape(came)}</div>')
    return "".join(lines)


def _ink(colour: str) -> str:
    """Mixed with the theme's text colour it is dark on light, and light on dark."""
    return f"color:{colour};color:color-mix(in srgb, {colour} 65%, {_TEXT})"
