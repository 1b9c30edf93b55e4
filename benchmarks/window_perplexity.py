"""What a sliding window costs in perplexity, with and without sinks, beyond the length that the model was trained on.

course-target (trained on texts up to 1024 tokens) reads the first 4096 tokens of held-out modules once, as a server streams: each
query sees the sinks and the last `window` tokens. Scored are tokens 1024 to 4095. The peer predicts the same tokens from 512 to
1023 tokens before, computed anew in windows of the trained length: more work, and what the model can do.
"""

import math
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ._result import write_result

SOURCES = (
    "benchmarks/window_perplexity.py", "course_lib/model/window_attend.py", "course_lib/model/attention.py",
    "course_lib/model/decoder.py", "course_lib/model/held_out.py", "course_lib/model/held_out.txt", "course_lib/model/layers.py",
    "course_lib/model/load.py", "course_lib/model/positions.py", "course_lib/model/presets.py", "course_lib/model/rope.py",
    "course_lib/model/span.py", "course_lib/model/tokenizer.py", "course_lib/model/windows.py",
)  # fmt: skip
THREADS, TEXTS, TOKENS, SCORED_FROM = 1, 8, 4096, 1024
WINDOWS, SINKS = (64, 128, 256, 512), (0, 1, 4)
PEER = "windows of 1024, computed anew"


def main() -> int:
    import torch

    from course_lib.model import load

    torch.set_num_threads(THREADS)
    model = load("course-target")
    texts = first_texts(model.tokenizer(), TEXTS, TOKENS)
    start = time.perf_counter()
    rows = measure(model, texts, cases(), SCORED_FROM)
    print(f"{time.perf_counter() - start:.0f} s")
    print(write_result("window_perplexity", rows, SOURCES, device=f"CPU {platform.machine()} {os.cpu_count()} cores"))
    return 0


def cases() -> list[tuple[int | None, int, str]]:
    """(window, sinks, positions): everything seen, then each window without sinks, with them by rank, and by place."""
    without = [(window, 0, "text") for window in WINDOWS]
    ranked = [(window, sinks, "rank") for window in WINDOWS for sinks in SINKS if sinks]
    placed = [(window, SINKS[-1], "text") for window in WINDOWS]
    return [(None, 0, "text"), *without, *ranked, *placed]


def first_texts(tokenizer: Any, count: int, tokens: int) -> list[list[int]]:
    """The beginnings of the first held-out modules that are long enough."""
    from course_lib.model import held_out

    found: list[list[int]] = []
    for text in held_out.read():
        if len(found) < count and len(ids := tokenizer.encode(text.content)) >= tokens:
            found.append(ids[:tokens])
    return found


def measure(
    model: Any, texts: Sequence[list[int]], wanted: Sequence[tuple[int | None, int, str]], scored_from: int
) -> list[dict]:
    """A row for each case, with the bits of each text, so that two cases can be compared text by text."""
    mark, context = model.tokenizer().END, model.config.context
    peer = anew_bits(model, texts, mark, context, scored_from)
    rows = []
    for window, sinks, positions in wanted:
        bits = [streamed_bits(model, ids, mark, window, sinks, positions, scored_from) for ids in texts]
        rows.append(row(model, bits, peer, [len(ids) - scored_from for ids in texts], window, sinks, positions))
        print(f"{rows[-1]['case']:<52}{rows[-1]['ours']:>9.3f}, ratio {rows[-1]['ratio']:.4f}", flush=True)
    return rows


def row(
    model: Any, bits: list[float], peer: list[float], scored: list[int], window: int | None, sinks: int, positions: str
) -> dict[str, Any]:
    ours, beside = (2 ** (sum(some) / sum(scored)) for some in (bits, peer))
    each = [2 ** (some / count) for some, count in zip(bits, scored, strict=True)]
    kept = None if window is None else window + sinks
    if window is None:
        case = "everything seen"
    else:
        how = {"text": "places in the text", "rank": "ranks"}[positions]
        case = f"window {window}, " + (f"{sinks} sinks, positions are {how}" if sinks else "no sinks")
    return {
        "case": case, "unit": "perplexity", "ours": ours, "peer": beside, "peer_name": PEER, "ratio": ours / beside,
        "roof_share": None, "spread": [min(each), max(each)], "window": window, "sinks": sinks, "positions": positions,
        "kept_tokens": kept, "scored_tokens": sum(scored), "bits": bits, "peer_bits": peer, "model": model.config.name,
    }  # fmt: skip


def streamed_bits(
    model: Any, ids: list[int], mark: int, window: int | None, sinks: int, positions: Any, scored_from: int
) -> float:
    """Bits for the tokens of one text from scored_from on, everything computed once."""
    import torch

    from course_lib.model.window_attend import WindowAttend

    before = model.parts
    model.parts = replace(before, attend=WindowAttend(model.config, window, sinks, positions))
    try:
        with torch.inference_mode():
            logits = model(torch.tensor([[mark, *ids[:-1]]]))[0, scored_from:]
    finally:
        model.parts = before
    return _bits(logits, torch.tensor(ids[scored_from:]))


def anew_bits(model: Any, texts: Sequence[list[int]], mark: int, context: int, scored_from: int) -> list[float]:
    """The same tokens by the protocol of windows.py."""
    from course_lib.model.windows import scored_windows

    bits = [0.0] * len(texts)
    for piece in scored_windows([model], texts, mark=mark, window=context):
        skip = max(scored_from - piece.start, 0)
        bits[piece.document] += _bits(piece.logits[0][skip:], piece.targets[skip:])
    return bits


def _bits(logits: Any, targets: Any) -> float:
    wanted = logits.gather(1, targets[:, None])[:, 0]
    return float((logits.logsumexp(-1) - wanted).double().sum()) / math.log(2)


if __name__ == "__main__":
    raise SystemExit(main())
