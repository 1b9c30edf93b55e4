"""The course's small models on a CPU: seconds to load one, tokens a second with the KV cache, and what a step loses to its bytes.

Weights are random: their values change no time. A decode step's peer is one sum over a tensor as large as the weights that the
step reads, in the same rounds: a step that reads them from the same place (caches included) cannot be faster.
"""

import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._result import write_result

SOURCES = (
    "benchmarks/model_cpu.py", "course_lib/model/attend.py", "course_lib/model/attention.py", "course_lib/model/cache.py",
    "course_lib/model/decoder.py", "course_lib/model/generate.py", "course_lib/model/layers.py", "course_lib/model/load.py",
    "course_lib/model/mla.py", "course_lib/model/positions.py", "course_lib/model/presets.py", "course_lib/model/rope.py",
    "course_lib/model/sampling.py", "course_lib/model/span.py",
)  # fmt: skip
THREADS, ROUNDS, TOKENS, PROMPT = 2, 15, 64, 64
LOAD_BAR_SECONDS, TOKENS_BAR = 0.5, 150


def main() -> int:
    import torch

    from course_lib.model import Decoder, generate, load, save
    from course_lib.model.presets import COURSE

    torch.set_num_threads(THREADS)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for config in COURSE:
            path = save(Decoder(config), Path(folder) / f"{config.name}.safetensors")
            start = time.perf_counter()
            model = load(path)
            first = time.perf_counter() - start
            seconds = [first] + [_seconds(lambda path=path: load(path)) for _ in range(ROUNDS)]
            rows.append(_row(f"load {config.name}, bf16 file to float32", "s", seconds))
            rows[-1]["first"] = first
            ids = torch.randint(1, config.vocab, (PROMPT,), generator=torch.Generator().manual_seed(0)).tolist()
            beside = torch.zeros(model.weight_bytes_per_step // 4)
            steps, reads = [], []
            for number in range(ROUNDS + 1):
                made = [new.seconds for new in generate(model, ids, max_new_tokens=TOKENS + 1)]
                read = min(_seconds(beside.sum) for _ in range(5))
                if number:  # the first is warm-up
                    steps.append(statistics.median(made[1:]))
                    reads.append(read)
            case = f"decode {config.name}, batch 1, context {PROMPT} to {PROMPT + TOKENS}, float32"
            rows.append(_row(case, "ms", [s * 1e3 for s in steps], [s * 1e3 for s in reads]))
            rows[-1]["tokens_per_s"] = 1 / statistics.median(steps)
            for row in rows[-2:]:
                print(f"{row['case']:<70}{row['ours']:>9.3g} {row['unit']:<3}", row.get("tokens_per_s", ""))
    print(write_result("model_cpu", rows, SOURCES, device=f"CPU {platform.machine()} {os.cpu_count()} cores"))
    target = {row["case"].split(",")[0]: row for row in rows}
    fast = (
        target["decode course-target"]["tokens_per_s"] >= TOKENS_BAR and target["load course-target"]["first"] <= LOAD_BAR_SECONDS
    )
    return 0 if fast else 1


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
