"""How counts are written, everywhere in a trace: 1 MB = 1e6 bytes, thousands with a comma, three digits where that is enough."""

UNITS = "1 MB = 1,000,000 bytes"


def bytes_text(count: int) -> str:
    """Exact up to a million (786,432 B), then with three digits or more: 1.05 MB, 268 MB, 1.07 GB."""
    return f"{count:,} B" if count < 1e6 else f"{count_text(count)}B"


def count_text(count: int) -> str:
    """Sectors, elements, FLOPs: exact up to a million, then 1.05 M, 268 M, 1.07 G, 2.20 T."""
    if count < 1e6:
        return f"{count:,}"
    for unit, size in (("M", 1e6), ("G", 1e9)):
        if count < 999.5 * size:
            return f"{_three(count / size)} {unit}"
    return f"{count / 1e12:,.2f} T"


def times_text(ratio: float | None) -> str:
    """A factor: 8.0×, 1.04×; "" where there is none."""
    if ratio is None:
        return ""
    return f"{ratio:,.0f}×" if ratio >= 99.95 else f"{ratio:.1f}×" if ratio >= 1.95 or ratio == 1 else f"{ratio:.2f}×"


def share_text(share: float | None) -> str:
    """12.5%, 100%, <0.1%; "" where there is none. Never rounded up to 100%."""
    if share is None:
        return ""
    percent = 100 * share
    if percent == round(percent):
        return f"{percent:.0f}%"
    return "<0.1%" if percent < 0.1 else f"{min(percent, 99.9):.1f}%"


def intensity_text(flops_per_byte: float) -> str:
    if flops_per_byte == float("inf"):
        return "∞"
    return f"{flops_per_byte:,.0f}" if flops_per_byte >= 99.5 else f"{flops_per_byte:.3g}"


def seconds_text(seconds: float) -> str:
    for unit, size in (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def shape_text(shape: tuple[int, ...], dtype: str) -> str:
    return f"{'x'.join(map(str, shape)) or 'scalar'} {dtype}"


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(0, width - 1)].rstrip() + "…"


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
