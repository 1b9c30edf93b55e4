"""The course's small models on a CPU: seconds to load one, tokens a second with the KV cache, seconds to score 50,000 tokens.

A decode step's peer is one sum over a tensor as large as the weights that the step reads, in the same rounds: a step that reads
them from the same place (caches included) cannot be faster. Scored are the first held-out modules with 50,000 tokens in all.
It ends with 1 where the target misses a bar.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

from ._result import write_result

SOURCES = (
    "benchmarks/model_cpu.py", "course_lib/model/attend.py", "course_lib/model/attention.py", "course_lib/model/cache.py",
    "course_lib/model/decoder.py", "course_lib/model/evaluate.py", "course_lib/model/generate.py", "course_lib/model/held_out.py",
    "course_lib/model/held_out.txt", "course_lib/model/layers.py", "course_lib/model/load.py", "course_lib/model/mla.py",
    "course_lib/model/positions.py", "course_lib/model/presets.py", "course_lib/model/rope.py", "course_lib/model/sampling.py",
    "course_lib/model/span.py", "course_lib/model/tokenizer.py", "course_lib/model/windows.py",
)  # fmt: skip
THREADS, ROUNDS, TOKENS, PROMPT = 2, 15, 64, 64
SCORED_TOKENS = 50_000
LOAD_BAR_SECONDS, TOKENS_BAR, SCORE_BAR_SECONDS = 0.5, 150, 30.0


def main() -> int:
    import torch

    from course_lib.model.presets import COURSE

    torch.set_num_threads(THREADS)
    texts = _texts()
    rows = []
    for config in COURSE:
        load_row, model = _load(config.name)
        for row in (load_row, _decode(model), _score(model, texts)):
            rows.append(row)
            more = [f"{value:.4g} {name}" for name, value in row.items() if name in ("first", "tokens_per_s", "bits_per_byte")]
            print(f"{row['case']:<75}{row['ours']:>9.3g} {row['unit']:<3}", *more, flush=True)
    print(write_result("model_cpu", rows, SOURCES, device=f"CPU {platform.machine()} {os.cpu_count()} cores"))
    return 0 if fast_enough(rows) else 1


def fast_enough(rows: list[dict[str, Any]]) -> bool:
    """Whether the target holds its three bars: first load, decode, score."""
    load, decode, score = (next(row for row in rows if row["case"].startswith(f"{what} course-target"))
                           for what in ("load", "decode", "score"))  # fmt: skip
    quick = load["first"] <= LOAD_BAR_SECONDS and score["ours"] <= SCORE_BAR_SECONDS
    return quick and decode["tokens_per_s"] >= TOKENS_BAR


def _texts() -> list[bytes]:
    """The first held-out modules that hold SCORED_TOKENS tokens."""
    from course_lib.model import held_out
    from course_lib.model.tokenizer import Tokenizer

    texts, tokens, tokenizer = [], 0, Tokenizer.load()
    for text in held_out.read():
        if tokens < SCORED_TOKENS:
            texts.append(text.content)
            tokens += len(tokenizer.encode(text.content))
    return texts


def _load(name: str) -> tuple[dict[str, Any], Any]:
    """(row, the loaded model). first: the first time in this process."""
    from course_lib.model import load

    start = time.perf_counter()
    model = load(name)
    first = time.perf_counter() - start
    row = _row(f"load {name}, bf16 file to float32", "s", [first] + [_seconds(lambda: load(name)) for _ in range(ROUNDS)])
    return {**row, "first": first}, model


def _decode(model: Any) -> dict[str, Any]:
    import torch

    from course_lib.model import generate

    ids = torch.randint(1, model.config.vocab, (PROMPT,), generator=torch.Generator().manual_seed(0)).tolist()
    beside = torch.zeros(model.weight_bytes_per_step // 4)
    steps, reads = [], []
    for number in range(ROUNDS + 1):
        made = [new.seconds for new in generate(model, ids, max_new_tokens=TOKENS + 1)]
        read = min(_seconds(beside.sum) for _ in range(5))
        if number:  # the first is warm-up
            steps.append(statistics.median(made[1:]))
            reads.append(read)
    case = f"decode {model.config.name}, batch 1, context {PROMPT} to {PROMPT + TOKENS}, float32"
    row = _row(case, "ms", [s * 1e3 for s in steps], [s * 1e3 for s in reads])
    return {**row, "tokens_per_s": 1 / statistics.median(steps)}


def _score(model: Any, texts: list[bytes]) -> dict[str, Any]:
    """One call of evaluate, tokenizing included."""
    from course_lib.model.evaluate import evaluate

    start = time.perf_counter()
    score = evaluate(model, model.tokenizer(), texts)
    row = _row(f"score {model.config.name}, {score.tokens:,} held-out tokens, float32", "s", [time.perf_counter() - start])
    return {**row, "bits_per_byte": round(score.bits_per_byte, 4), "text_bytes": score.bytes, "python": platform.python_version()}


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def _row(case: str, unit: str, ours: list[float], peer: list[float] | None = None) -> dict[str, Any]:
    ours_median, peer_median = statistics.median(ours), statistics.median(peer) if peer else None
    return {
        "case": case, "unit": unit, "ours": ours_median, "peer": peer_median,
        "peer_name": "one sum over as many bytes" if peer else None, "ratio": ours_median / peer_median if peer_median else None,
        "roof_share": min(peer_median / ours_median, 1.0) if peer_median else None, "spread": [min(ours), max(ours)],
        "threads": THREADS,
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
