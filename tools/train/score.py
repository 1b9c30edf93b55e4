"""Scores finished models on a Python's held-out text and adds the numbers to their run records.

For each text: bits per byte with its interval, and bytes, hash and bits of every module, so that a test can score two modules
and compare, and models can be compared module by module.
"""

import hashlib
import json
import lzma
import os
import platform
from pathlib import Path
from typing import Any

ORDER = ("course-target", "course-draft", "course-mla")


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """The finished runs in a folder, in the course's order. FileNotFoundError where there is none."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    found = [run for run in found if "loss_curve" in run]
    if not found:
        raise FileNotFoundError(f"no finished run in {folder}; python -m tools.train writes NAME.json there")
    return sorted(found, key=lambda run: (ORDER.index(run["model"]) if run["model"] in ORDER else len(ORDER), run["model"]))


def read_overlap(folder: Path) -> dict[str, Any] | None:
    """What tools.corpus.overlap counted, where it lies beside the runs."""
    path = folder / "overlap.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def score_here(runs: Path, weights: Path, lib: Path | None = None) -> None:
    """Score each finished model on this Python's held-out text, or on lib's; an older score of the same text is replaced."""
    import torch

    from course_lib.model import held_out, load
    from course_lib.model.tokenizer import Tokenizer
    from course_lib.model.windows import encoded

    from .finish import score_facts

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    texts, tokenizer = held_out.read(lib), Tokenizer.load(weights / "tokenizer.json")
    sha, whole = held_out.digest(texts), b"".join(text.content for text in texts)
    known = next((version for version, digest in held_out.known_texts().items() if digest == sha), None)
    python = known or (platform.python_version() if lib is None else str(lib))
    documents, _ = encoded(tokenizer, [text.content for text in texts])
    more = {
        "xz_bits_per_byte": round(8 * len(lzma.compress(whole, preset=9)) / len(whole), 3),
        "module_sha256": {text.module: hashlib.sha256(text.content).hexdigest() for text in texts},
    }
    for name in [run["model"] for run in read_runs(runs)]:
        path = weights / f"{name}.safetensors"
        model = load(path, dtype=torch.float32, device=device)
        facts = score_facts(model, documents, {text.module: len(text.content) for text in texts}, python, sha)
        add_score(runs / f"{name}.json", path, {**facts, **more})
        said = f"{facts['bits_per_byte']:.4f} bits per byte [{facts['low']:.4f}, {facts['high']:.4f}]"
        print(f"score: {name}, Python {python}: {said}", flush=True)


def add_score(record: Path, weights: Path, facts: dict[str, Any]) -> None:
    """Put a score into a run record, in place of one of the same text. Numbers of other weights go: they are another model's."""
    from .finish import sha256_of

    run, sha = json.loads(record.read_text(encoding="utf-8")), sha256_of(weights)
    if run.setdefault("weights_sha256", sha) != sha:
        run.update(weights_sha256=sha, held_out=[])
        run.pop("pair", None)
    others = [old for old in run.get("held_out", []) if old["text_sha256"] != facts["text_sha256"]]
    run["held_out"] = sorted([*others, facts], key=lambda score: score["python"])
    beside = record.with_name(f".{record.name}.{os.getpid()}")
    beside.write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
    os.replace(beside, record)
