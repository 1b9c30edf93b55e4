"""The model card, made from what training and scoring wrote down. No result in it is typed by hand.

    python -m tools.train.card RUNS WEIGHTS           RUNS/NAME.json of finished runs -> WEIGHTS/card.md
    python -m tools.train.card RUNS WEIGHTS --score [LIB]   scores each model on the held-out text of this Python, or of another
                                                            Python's Lib folder, into RUNS/NAME.json; then call it without

WEIGHTS is the folder that is shipped: NAME.safetensors, tokenizer.json, manifest.tsv. RUNS of those in git: tools/train/runs.
"""

import argparse
from pathlib import Path
from typing import Any

from course_lib.model.config import ModelConfig
from course_lib.recorded import recorded

from .card_compare import latent, pairs, score_on
from .card_training import training
from .markdown import paragraph, points, table
from .score import read_overlap, read_runs, score_here

HERE = Path("this Python")
BASELINES = ("held_out_baselines", "cpu-x86-64-2-cores")
PURPOSE = """\
# The course's own language models

Small decoders for Python source code, trained from scratch. They are there so that quantisation, KV compression and speculation
can be measured on a model whose perplexity and acceptance rate mean something, on any machine, with no download:
`course_lib.model.load("course-target")`. The draft has the target's tokenizer and proposes tokens for it; the MLA sibling saw the
same data as the target and has latent attention in place of grouped-query attention (GQA).

`tools/corpus` prepared the text, `tools/train` trained, and `python -m tools.train.card` made this page from their records.
"""
HELD_OUT = (
    "Standard-library modules that no training saw (`course_lib/model/held_out.txt`), read from the Python named; windows of",
    "1024 tokens, stride 512, so that all but a module's first 512 tokens are predicted from at least 512 before them. Weights",
    "as shipped, in float32. In brackets: 95% interval, bootstrap over modules. It says how much the number would move with",
    "other modules, not how well two models can be told apart: for that see the differences below. xz: preset 9 over all",
    "modules in one stream. Kneser-Ney: the best of the byte n-grams that `benchmarks/held_out_baselines.py` counted and",
    "scored on the same text.",
)
LIMITS = """\
## Limits of use

- The models know Python source code and its documentation, little English and nothing else. What they write is often wrong; it is
  material for measuring inference, not help with programming.
- They saw 1024 tokens at once. Beyond that their numbers get worse, and `generate` goes no further.
- Numbers compare only on one text and by one protocol (`course_lib/model/windows.py`). A learner's Python may have other held-out
  text than the versions above: compare two models on the same text.
{overlap}- Training text may come back verbatim. Its licences are permissive and listed below, its authors in NOTICE.
"""


def card(runs: list[dict[str, Any]], manifest: str, overlap: dict[str, Any] | None = None) -> str:
    """card.md. runs: what finish() and score_here() wrote for each model; manifest: the text of manifest.tsv; overlap: what
    tools.corpus.overlap counted.
    """
    named = {run["model"]: run for run in runs}
    parts = [
        PURPOSE, _models(runs), _held_out(runs), latent(named.get("course-target"), named.get("course-mla")), pairs(runs),
        training(runs), LIMITS.format(overlap=_overlap(overlap)), _data(runs, manifest),
    ]  # fmt: skip
    return "\n".join(part for part in parts if part)


def _models(runs: list[dict[str, Any]]) -> str:
    head = ["model", "parameters", "layers", "hidden", "attention", "MLP", "KV bytes a token", "sha256 of the weights"]
    rows = []
    for run in runs:
        config = ModelConfig.from_dict(run["config"])
        kind = f"{config.heads} heads, {config.kv_heads} KV head{'s' * (config.kv_heads > 1)} of {config.head_dim}"
        if config.mla:
            kind = f"{config.heads} heads, a latent of {config.mla.kv_rank} and a rotated key of {config.mla.rope_dim}"
        rows.append([
            run["model"], f"{run['parameters']:,}", config.layers, config.hidden, kind, config.mlp_hidden,
            f"{config.kv_bytes_per_token(2):,.0f}", run.get("weights_sha256", "")[:12] or "not recorded",
        ])  # fmt: skip
    vocab, length = runs[0]["config"]["vocab"], runs[0]["settings"]["length"]
    said = paragraph(
        f"Llama style: RMSNorm, half-split RoPE, SwiGLU, embedding and head tied. Vocabulary {vocab:,} (byte-level BPE),",
        f"trained on {length:,} tokens at once. Weights and KV bytes in bf16.",
    )
    return "## Models\n\n" + said + "\n" + table(head, rows)


def _held_out(runs: list[dict[str, Any]]) -> str:
    """Bits per byte of each model for each Python version that was scored, with the interval."""
    texts = {(s["python"], s["text_sha256"], s["bytes"], s["tokens"]) for run in runs for s in run.get("held_out", [])}
    rows, sources = [], []
    for python, sha, size, tokens in sorted(texts, key=lambda text: [int(n) for n in text[0].split(".") if n.isdigit()]):
        scores = [score_on(run, sha) for run in runs]
        packed = next((s["xz_bits_per_byte"] for s in scores if s and "xz_bits_per_byte" in s), "not packed")
        row: list[Any] = [python or "unknown"]
        row += [f"{s['bits_per_byte']:.4f} [{s['low']:.3f}, {s['high']:.3f}]" if s else "not scored" for s in scores]
        rows.append([*row, packed, _kneser_ney(sha)])
        perplexities = ", ".join(f"{run['model']} {s['perplexity']:.2f}" for run, s in zip(runs, scores, strict=True) if s)
        of = f"{size:,} bytes, {tokens:,} tokens, sha256 {sha[:12]}"
        sources.append(f"{python or 'unknown'}: {of}; perplexity a token: {perplexities}.")
    head = ["Python", *(run["model"] for run in runs), "xz -9", "Kneser-Ney"]
    return "## Held-out bits per byte\n\n" + paragraph(*HELD_OUT) + "\n" + table(head, rows) + "\n" + points(sources)


def _kneser_ney(text_sha256: str) -> str:
    """Bits per byte of the best n-grams, and what they counted, where they were scored on this text."""
    rows = [row for row in recorded(*BASELINES)["rows"] if "Kneser-Ney" in row["case"] and row["text_sha256"] == text_sha256]
    if not rows:
        return "not scored"
    best = min(rows, key=lambda row: row["ours"])
    return f"{best['ours']:.3f} ({best['case'].partition(', bytes, ')[2]})"


def _overlap(found: dict[str, Any] | None) -> str:
    """What of the held-out text was seen all the same; by numbers where they were counted."""
    said = "Idioms of the standard library occur in text of other packages too, and CPython's documentation quotes its modules"
    if not found:
        return points([f"{said}: held-out text is not free of what was seen."])
    share, run = found["largest_share"], found["longest_run"]
    return points([
        f"{said}. Of {found['lines']:,} distinct held-out lines (25 bytes or more, no comments, Python {found['python']})"
        f" {found['lines_found'] / found['lines']:.1%} stand somewhere in the training text. No file has more than"
        f" {share['share']:.0%} of a module's lines ({share['module']}, {_where(share)}); the longest run of lines in their order"
        f" is {run['lines']} ({run['module']}, {_where(run)})."
    ])  # fmt: skip


def _where(found: dict[str, Any]) -> str:
    """Package and the end of the path: "cpython: xml/sax/handler.py" as it is, a Debian path by its last folder."""
    source, _, path = found["file"].partition(": ")
    return f"{source}: {'/'.join(path.split('/')[-3:])}"


def _data(runs: list[dict[str, Any]], manifest: str) -> str:
    lines = [line.split("\t") for line in manifest.splitlines() if line]
    columns = {name: place for place, name in enumerate(lines[0])}
    keep = ("package", "version", "licence", "files", "bytes")
    if missing := [name for name in keep if name not in columns]:
        raise ValueError(f"manifest.tsv has no columns {missing}; it has {lines[0]}")
    rows = [[line[columns[n]] for n in keep[:3]] + [f"{int(line[columns[n]]):,}" for n in keep[3:]] for line in lines[1:]]
    tokens, text = max(run["data"]["tokens"] for run in runs), runs[0]["data"].get("text") or {}
    total = sum(int(line[columns["bytes"]]) for line in lines[1:])
    copies = text.get("prose_copies", 1)
    twice = f", with documentation counted {copies} times" if copies > 1 else ""
    said = paragraph(
        f"{len(rows)} sources, {total / 1e6:,.0f} MB of text; an epoch is {tokens / 1e6:,.1f} M tokens{twice}. Source code,",
        "tests and documentation of CPython and of Python packages under the licences named (SPDX). Packages under GPL, LGPL,",
        "AGPL or MPL were refused, and files that name such a licence near their head left out. Sources with their hashes:",
        "manifest.tsv; every file: files.tsv.xz; copyright lines: NOTICE. The text itself is not shipped. The weights are under",
        "the course's licence.",
    )
    return "## Data\n\n" + said + "\n" + table(list(keep), rows)


def main(runs: Path, weights: Path) -> None:
    text = card(read_runs(runs), (weights / "manifest.tsv").read_text(encoding="utf-8"), read_overlap(runs))
    (weights / "card.md").write_text(text, encoding="utf-8")
    print(f"card: {weights / 'card.md'}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.train.card", description="Make the model card.")
    parser.add_argument("runs", type=Path)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--score", type=Path, nargs="?", const=HERE, metavar="LIB", help="score on this Python's text, or LIB's")
    given = parser.parse_args()
    if given.score:
        score_here(given.runs, given.weights, None if given.score == HERE else given.score)
    else:
        main(given.runs, given.weights)
