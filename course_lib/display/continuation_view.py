"""A continuation as HTML and as text: each token coloured by its probability, its rivals, and what its step read in what time."""

from html import escape

from .continuation import Continuation, Shown

_TEXT, _FAINT = "var(--jp-content-font-color1, inherit)", "var(--jp-content-font-color2, #5f6368)"
_LINE = "var(--jp-border-color2, rgba(128,128,128,.4))"
_RED = f"color:#c62828;color:color-mix(in srgb, #c62828 65%, {_TEXT})"
_BLUE = "31,111,178"
_MONO = "var(--jp-code-font-family, ui-monospace, monospace)"
_CELL = "text-align:left;padding:2px 14px 2px 0;border:none;max-width:none;background:transparent;white-space:nowrap"
LAST_STEPS = 6


def continuation_html(c: Continuation, problem: str = "") -> str:
    """The page part: text on the left, numbers on the right; `problem` is a sentence in red."""
    font = f"font-family:var(--jp-content-font-family, sans-serif);font-size:13px;line-height:1.4;color:{_TEXT}"
    told = f'<div style="font-weight:600;margin:4px 0;{_RED}">{escape(problem)}</div>' if problem else ""
    return (
        f'<div class="course-continuation" style="{font};max-width:980px">{told}'
        f'<div style="display:flex;flex-flow:row wrap;gap:8px 24px;align-items:flex-start">'
        f'<div style="flex:1 1 420px;min-width:300px">{_text_html(c)}</div>'
        f'<div style="flex:1 1 360px;min-width:300px">{_last_html(c)}</div></div>'
        f'<div style="margin-top:6px">{escape(summary(c))}</div></div>'
    )


def continuation_text(c: Continuation) -> str:
    """The same for a terminal or a plain export."""
    lines = [f"{c.prefix}{c.text}", "", summary(c)]
    if c.tokens:
        lines += ["", "last steps", *(f"  {_step_words(place, token)}" for place, token in _last(c))]
    return "\n".join(lines)


def summary(c: Continuation) -> str:
    """What the steps cost, in two sentences."""
    if not c.tokens:
        return f"{c.model}, {c.device}."
    last = c.tokens[-1]
    prompt = f"{c.prompt_tokens} token{'s' * (c.prompt_tokens > 1)}"
    words = f"{c.model}, {c.device}: the prompt's {prompt} in one step of {_ms(c.tokens[0].seconds)}"
    if c.token_seconds is not None:
        words += f", then {len(c.tokens) - 1} of {_ms(c.token_seconds)} each (median), {1 / c.token_seconds:.0f} tokens/s"
    cache = f"and the KV cache, {_mb(last.kv_bytes)} by now"
    ended = {"stop": " The model ended its text.", "length": " No room is left for more."}.get(c.ended, "")
    return f"{words}. Every step reads all weights once, {_mb(last.weight_bytes)}, whatever the token, {cache}.{ended}"


def _text_html(c: Continuation) -> str:
    style = f"font-family:{_MONO};font-size:13px;line-height:1.5;white-space:pre-wrap;overflow-wrap:anywhere"
    spans = "".join(_token_html(token) for token in c.tokens)
    scale = "".join(f'<span style="background:{_shade(p)};padding:0 5px">{p:.0%}</span>' for p in (0.1, 0.5, 0.9))
    note = f'<div style="color:{_FAINT};font-size:12px;margin-top:6px">Probability of a token: {scale}</div>' if c.tokens else ""
    return f'<div style="{style}"><span style="color:{_FAINT}">{escape(c.prefix)}</span>{spans}</div>{note}'


def _token_html(token: Shown) -> str:
    rivals = ", ".join(f"{text} {_percent(p)}" for text, p in token.rivals)
    title = escape(f"{_percent(token.probability)}  of {rivals}", quote=True)
    edge = "box-shadow:inset -1px 0 0 rgba(128,128,128,.35)"  # where one token ends and the next begins
    return f'<span title="{title}" style="background:{_shade(token.probability)};{edge}">{escape(token.text)}</span>'


def _last_html(c: Continuation) -> str:
    if not c.tokens:
        return ""
    last = c.tokens[-1]
    bars = "".join(_bar_html(text, p, text == last.piece) for text, p in last.rivals)
    if last.piece not in [text for text, _ in last.rivals]:
        bars += _bar_html(last.piece, last.probability, True)
    heads = ("step", "token", "weights", "KV cache", "time", "rate")
    head = "".join(f'<th scope="col" style="{_CELL};font-weight:600;color:{_FAINT}">{name}</th>' for name in heads)
    rows = "".join(
        f'<tr style="background:transparent;border-top:1px solid {_LINE}">'
        + "".join(f'<td style="{_CELL}">{escape(cell)}</td>' for cell in _cells(place, token))
        + "</tr>"
        for place, token in _last(c)
    )
    table = f'style="border-collapse:collapse;border:none;margin:0;font-size:12px;color:{_TEXT};table-layout:auto"'
    return (
        f'<div style="font-weight:600">Candidates for the last token</div>{bars}'
        f'<div style="font-weight:600;margin-top:8px">What the last steps read, and in what time</div>'
        f'<table {table}><thead><tr style="background:transparent">{head}</tr></thead><tbody>{rows}</tbody></table>'
    )


def _bar_html(text: str, probability: float, chosen: bool) -> str:
    weight = "600" if chosen else "normal"
    return (
        f'<div style="display:flex;align-items:center;gap:8px;font-size:12px;font-weight:{weight}">'
        f'<span style="font-family:{_MONO};flex:0 0 130px;overflow:hidden;white-space:pre;text-overflow:ellipsis">'
        f"{escape(text)}</span>"
        f'<span style="flex:0 0 140px;height:9px;background:rgba(128,128,128,.2)">'
        f'<span style="display:block;height:9px;width:{100 * probability:.1f}%;background:rgb({_BLUE})"></span></span>'
        f"<span>{_percent(probability)}{' ← chosen' if chosen else ''}</span></div>"
    )


def _last(c: Continuation) -> list[tuple[int, Shown]]:
    return list(enumerate(c.tokens, start=1))[-LAST_STEPS:]


def _cells(place: int, token: Shown) -> tuple[str, ...]:
    rate = f"{token.gb_per_s:.1f} GB/s"
    return str(place), token.piece, _mb(token.weight_bytes), _mb(token.kv_bytes), _ms(token.seconds), rate


def _step_words(place: int, token: Shown) -> str:
    _, piece, weights, kv, time, rate = _cells(place, token)
    return f"{place:>4}  {piece:<14}{_percent(token.probability):>5}  weights {weights}, KV {kv}, {time}, {rate}"


def _shade(probability: float) -> str:
    return f"rgba({_BLUE},{0.04 + 0.5 * probability:.2f})"


def _percent(probability: float) -> str:
    return "<1%" if probability < 0.005 else f"{probability:.0%}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"


def _mb(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"
