"""What compressors and byte n-grams reach on the held-out standard-library modules, in the unit the models are scored in.

    COURSE_CORPUS=BUILD_FOLDER python -m benchmarks.held_out_baselines      BUILD_FOLDER: of `python -m tools.corpus`

Every n-gram model counts the same 100 MB of random documents of the training text; COURSE_CORPUS_BYTES asks for more or less.
"""

import os
import platform
import time
from pathlib import Path
from typing import Any

from course_lib.model import held_out
from tools.corpus.baselines import kneser_ney_bits_per_byte, training_text, xz_bits_per_byte
from tools.corpus.kneser_ney import KneserNey
from tools.corpus.prepare import DOCUMENTS, documents

from ._result import write_result

ORDERS = (4, 5, 6, 8)
TEXT_BYTES = int(os.environ.get("COURSE_CORPUS_BYTES", 100_000_000))
SOURCES = (
    "benchmarks/held_out_baselines.py", "tools/corpus/baselines.py", "tools/corpus/kneser_ney.py",
    "course_lib/model/held_out.py", "course_lib/model/held_out.txt",
)  # fmt: skip


def row(case: str, ours: float, **more: Any) -> dict[str, Any]:
    print(f"{case:<60} {ours:.3f} bits per byte", flush=True)
    return {"case": case, "unit": "bits per byte", "ours": ours, "peer": None, "peer_name": None, "ratio": None,
            "roof_share": None, "spread": None} | more  # fmt: skip


def main() -> int:
    build = Path(os.environ.get("COURSE_CORPUS", ""))
    if not (build / DOCUMENTS).is_file():
        print("blocked: needs the training text; run `python -m tools.corpus BUILD_FOLDER` and set COURSE_CORPUS to that folder")
        return 1
    read = held_out.read()
    texts = [text.content for text in read]
    about = {"python": platform.python_version(), "text_sha256": held_out.digest(read), "text_bytes": sum(map(len, texts))}
    rows = [
        row("xz -9, each file by itself", xz_bits_per_byte(texts, one_stream=False), **about),
        row("xz -9, all files in one stream", xz_bits_per_byte(texts, one_stream=True), **about),
    ]
    counted = training_text(build, documents(build), TEXT_BYTES)
    for order in ORDERS:
        start = time.monotonic()
        model = KneserNey(counted, order)
        bits = kneser_ney_bits_per_byte(model, texts)
        case = f"modified Kneser-Ney, bytes, order {order}, {len(counted) / 1e6:.0f} MB of the training text"
        seconds = time.monotonic() - start
        rows.append(row(case, bits, **about, training_bytes=len(counted), grams=model.grams, seconds=round(seconds, 1)))
        del model
    print(write_result("held_out_baselines", rows, SOURCES, device=f"CPU {platform.machine()} {os.cpu_count()} cores"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
