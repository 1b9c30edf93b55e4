"""The numbers beside the explorer's picture: a table in HTML, and the same lines as text."""

from html import escape
from math import inf

from .roofline_explorer_figure import digits, kind_of, percent
from .roofline_explorer_numbers import Numbers

_TEXT, _FAINT = "var(--jp-content-font-color1, inherit)", "var(--jp-content-font-color2, #5f6368)"
_LINE = "var(--jp-border-color2, rgba(128,128,128,.4))"
_RED = f"color:#c62828;color:color-mix(in srgb, #c62828 65%, {_TEXT})"
_CELL = "text-align:left;vertical-align:top;padding:3px 10px 3px 0;border:none;max-width:none;background:transparent"
_UP = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def rows_of(numbers: Numbers) -> list[tuple[str, str, str]]:
    """(name, value, what it is made of), top to bottom."""
    n, step = numbers, numbers.step
    parts = f"weights {_bytes(n.weights_read_bytes)}, KV {_bytes(n.kv_moved_bytes)}, activations {_bytes(n.activation_bytes)}"
    seconds = n.floor_ms / 1e3
    each, all_of_them = n.setting.new_tokens / seconds, n.tokens / seconds / n.ranks
    times = f"arithmetic {_three(n.arithmetic_ms)}, memory {_three(n.memory_ms)} ms"
    times += f", and all-reduces {_three(n.allreduce_ms)} ms" if n.ranks > 1 else ""
    rate = "tokens/s" if n.setting.new_tokens == 1 else "prompt tokens/s"
    rows = [
        ("FLOPs", _scientific(step.flops), f"products {percent(n.product_flops / step.flops)}, "
         f"attention {percent(n.attention_flops / step.flops)}"),
        ("Bytes", _bytes(step.bytes_moved), parts),
        ("Intensity", f"{digits(step.flops_per_byte)} FLOP/byte", f"ridge {digits(n.ridge)}"),
        ("Time floor", f"{_three(n.floor_ms)} ms", times),
        (rate, f"{digits(each)} a user", f"{digits(all_of_them)} a GPU"),
        ("Peak usable", percent(n.peak_share), f"of {digits(n.peak_tflops)} TFLOP/s {n.precision}"),
        ("Memory", f"{_three(n.resident_bytes / 1e9)} GB", f"of {n.gpu.hbm_gb} GB" + (" on each GPU" if n.ranks > 1 else "")),
        ("M*", f"{digits(n.token_threshold)} tokens", f"in a step, this one has {digits(n.tokens)}"),
    ]  # fmt: skip
    if n.context_limit is not None:
        if n.context_limit < inf:
            rows.append(("s*", f"{digits(n.context_limit)} tokens", "of context; beyond, no batch reaches the ridge"))
        else:  # attention alone is right of the ridge
            rows.append(("s*", "no limit", "of context: a large enough batch reaches the ridge at any"))
    return rows


def headline(numbers: Numbers) -> str:
    return f"{kind_of(numbers).capitalize()}: waits for {numbers.bound}"


def room(numbers: Numbers) -> str:
    """A sentence on memory: how many sequences fit, or that these do not."""
    most, batch = numbers.most_batch, numbers.setting.batch
    where = "on this GPU" if numbers.ranks == 1 else f"on {numbers.ranks} GPUs"
    if most == 0:
        return f"Does not fit: the weights and one sequence are more than there is room for {where}."
    held = f"{digits(most)} sequence{'s' if most > 1 else ''} of this length fit{'' if most > 1 else 's'} {where}"
    return f"Fits: up to {held}." if numbers.fits else f"Does not fit: {held}, not {digits(batch)}."


def panel_html(numbers: Numbers, *, below: bool = False, foot: str = "") -> str:
    """The table, what has to be said about it, and a last line in faint letters.

    below  for a place below the picture, as wide as it is: each row on one line
    """
    gap, width = (f'</td><td style="{_CELL}">', 660) if below else ("<br>", 340)
    body = "".join(
        f'<tr style="background:transparent;border-bottom:1px solid {_LINE}">'
        f'<th scope="row" style="{_CELL};font-weight:normal;color:{_FAINT};white-space:nowrap">{escape(name)}</th>'
        f'<td style="{_CELL}"><b>{escape(value)}</b>{gap}'
        f'<span style="color:{_FAINT};font-size:12px">{escape(made_of)}</span></td></tr>'
        for name, value, made_of in rows_of(numbers)
    )
    ink = f"color:{_TEXT}" if numbers.fits else f"font-weight:600;{_RED}"
    notes = "".join(
        f'<div style="margin-top:4px;color:{_FAINT}">{escape(note)}</div>' for note in (*numbers.notes, *filter(None, [foot]))
    )
    style = f"border-collapse:collapse;border:none;margin:4px 0;table-layout:auto;width:100%;font-size:13px;color:{_TEXT}"
    font = "font-family:var(--jp-content-font-family, sans-serif);font-size:13px;line-height:1.35"
    return (
        f'<div class="course-explorer" style="color:{_TEXT};{font};max-width:{width}px">'
        f'<div style="font-size:15px;font-weight:600">{escape(headline(numbers))}</div>'
        f'<table style="{style}"><tbody>{body}</tbody></table><div style="{ink}">{escape(room(numbers))}</div>{notes}</div>'
    )


def panel_text(numbers: Numbers) -> str:
    s, n = numbers.setting, numbers
    first = f"{s.model} on {n.ranks} x {n.gpu.name}, weights {s.weights}, KV {s.kv}, batch {s.batch}, context {s.context}"
    rows = [f"  {name:<16}{value:<18}{made_of}" for name, value, made_of in rows_of(numbers)]
    return "\n".join([first, headline(numbers), *rows, room(numbers), *numbers.notes])


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{_three(count / size)} {unit}"
    return f"{_three(count / 1e3)} kB"


def _three(value: float) -> str:
    """Three digits, zeros at the end too: 15.0, where digits() gives 15."""
    return digits(value) if value >= 99.95 else f"{value:#.3g}"


def _scientific(value: float) -> str:
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa} × 10{str(int(exponent)).translate(_UP)}"
