"""The model card, made from what training and scoring wrote down: nothing in it is typed by hand.

    python -m tools.train.card RUNS WEIGHTS           RUNS/NAME.json of finished runs -> WEIGHTS/card.md
    python -m tools.train.card RUNS WEIGHTS --score [LIB]   scores each model on the held-out text of this Python, or of another
                                                            Python's Lib folder, into RUNS/NAME.json; then call it without

WEIGHTS is the folder that is shipped: NAME.safetensors, tokenizer.json, manifest.tsv.
"""

import argparse
import json
import lzma
import platform
from pathlib import Path
from typing import Any

from course_lib.recorded import recorded

HERE = Path("this Python")
BASELINES = ("held_out_baselines", "cpu-x86-64-2-cores")
ORDER = ("course-target", "course-draft", "course-mla")
ROWS_OF_CURVE = 12
HELD_OUT = """\
## Held-out bits per byte

Standard-library modules that no training saw (`course_lib/model/held_out.txt`), read from the Python named; windows of 1024
tokens, stride 512. In brackets: 95% interval, bootstrap over modules. xz: preset 9 over all modules in one stream. Kneser-Ney:
the best of the byte n-grams that `benchmarks/held_out_baselines.py` counted and scored on the same text.

"""
LIMITS = """\
## Limits of use

- The models know Python source code and its documentation, little English and nothing else. What they write is often wrong; it is
  material for measuring inference, not help with programming.
- They saw 1024 tokens at once. Beyond that their numbers get worse.
- Numbers compare only on one text and by one protocol (`course_lib/model/windows.py`). A learner's Python may have other held-out
  text than the versions below: compare two models on the same text.
- Training text may come back verbatim. Its licences are permissive and listed below, its authors in NOTICE.
"""


def card(runs: list[dict[str, Any]], manifest: str) -> str:
    """card.md. runs: what finish() wrote for each model; manifest: the text of manifest.tsv."""
    parts = [
        "# The course's own language models\n",
        "Trained from scratch by `tools/train` on text prepared by `tools/corpus`. This card is made by `tools/train/card.py`.\n",
        _models(runs), _held_out(runs), _pairs(runs), _curves(runs), LIMITS, _data(runs, manifest),
    ]  # fmt: skip
    return "\n".join(parts)


def _models(runs: list[dict[str, Any]]) -> str:
    head = ["model", "parameters", "shape", "KV bytes a token", "tokens seen", "epochs", "minutes", "device", "date", "seed"]
    rows = []
    for run in runs:
        config = run["config"]
        shape = f"{config['layers']} layers of {config['hidden']}, {config['heads']} heads, MLP {config['mlp_hidden']}"
        rows.append([
            run["model"], f"{run['parameters']:,}", shape, f"{_kv_bytes(config):,}", f"{run['tokens_seen'] / 1e6:,.0f} M",
            run["epochs"], run["minutes"], run["device"], run["date"], run["seed"],
        ])  # fmt: skip
    notes = []
    for run in runs:
        settings = run["settings"]
        rates = f"Muon {settings['muon_rate']}, AdamW {settings['adam_rate']}"
        how = f"{settings['batch']} windows of {settings['length']} tokens a step, {rates}"
        taught = f"; {settings['distil_share']:.0%} of its loss from {settings['teacher']}" if settings["teacher"] else ""
        notes.append(f"- {run['model']}: {run['steps']:,} steps, {how}{taught}. PyTorch {run['versions']['torch']}.")
    return "## Models and training\n\n" + _table(head, rows) + "\n" + "\n".join(notes) + "\n"


def _kv_bytes(config: dict[str, Any]) -> int:
    from course_lib.model.config import ModelConfig

    return round(ModelConfig.from_dict(config).kv_bytes_per_token(2))


def _held_out(runs: list[dict[str, Any]]) -> str:
    """Bits per byte of each model for each Python version that was scored, with the interval."""
    texts = {(s["python"], s["text_sha256"], s["bytes"]) for run in runs for s in run.get("held_out", [])}
    rows = []
    for python, sha, size in sorted(texts, key=lambda text: [int(n) for n in text[0].split(".") if n.isdigit()]):
        scores = [s for run in runs for s in run.get("held_out", []) if s["text_sha256"] == sha]
        packed = next((s["xz_bits_per_byte"] for s in scores if "xz_bits_per_byte" in s), "not packed")
        row: list[Any] = [python or "unknown", f"{size:,}", sha[:12], packed, _kneser_ney(sha)]
        for run in runs:
            score = next((s for s in run.get("held_out", []) if s["text_sha256"] == sha), None)
            row.append(f"{score['bits_per_byte']:.4f} [{score['low']:.4f}, {score['high']:.4f}]" if score else "not scored")
        rows.append(row)
    head = ["Python", "bytes", "sha256 of the text", "xz -9", "Kneser-Ney", *(run["model"] for run in runs)]
    return HELD_OUT + _table(head, rows)


def _kneser_ney(text_sha256: str) -> str:
    """Bits per byte of the best n-grams, and what they counted, where they were scored on this text."""
    rows = [row for row in recorded(*BASELINES)["rows"] if "Kneser-Ney" in row["case"] and row["text_sha256"] == text_sha256]
    if not rows:
        return "not scored"
    best = min(rows, key=lambda row: row["ours"])
    return f"{best['ours']:.3f} ({best['case'].partition(', bytes, ')[2]})"


def _pairs(runs: list[dict[str, Any]]) -> str:
    """What the draft does for its target, by agreement.py; nothing where no pair was scored."""
    names = {
        "top1_teacher_forced": "same most likely token, on held-out text",
        "top1_own_text": "the same, on the target's own greedy text",
        "acceptance": "acceptance at temperature 1, sum of min(p, q)", "kl_nats": "KL of target to draft, nats a token",
    }  # fmt: skip
    rows = [
        [run["model"], said, f"{one['value']:.4f} [{one['low']:.4f}, {one['high']:.4f}]"]
        for run in runs if "pair" in run for key, said in names.items() for one in [run["pair"][key]]
    ]  # fmt: skip
    return "## Draft and target\n\n" + _table(["draft", "measure", "value"], rows) if rows else ""


def _curves(runs: list[dict[str, Any]]) -> str:
    """Training loss in nats a token at evenly spaced shares of each run."""
    rows = []
    for number in range(1, ROWS_OF_CURVE + 1):
        row: list[Any] = [f"{number / ROWS_OF_CURVE:.0%}"]
        for run in runs:
            curve = run["loss_curve"]
            row.append(f"{curve[max(0, round(number / ROWS_OF_CURVE * len(curve)) - 1)][1]:.3f}")
        rows.append(row)
    last = ["held windows", *(f"{run['validation'][-1][1]:.3f}" if run["validation"] else "" for run in runs)]
    head = ["share of the run", *(run["model"] for run in runs)]
    why = "\nA distilled model's loss contains its teacher's part, so it compares with no other column; its last row does.\n"
    taught = any(run["settings"]["teacher"] for run in runs)
    return "## Loss, nats a token\n\n" + _table(head, [*rows, last]) + (why if taught else "")


def _data(runs: list[dict[str, Any]], manifest: str) -> str:
    lines = [line.split("\t") for line in manifest.splitlines() if line]
    columns = {name: place for place, name in enumerate(lines[0])}
    keep = ("package", "version", "licence", "files", "bytes")
    if missing := [name for name in keep if name not in columns]:
        raise ValueError(f"manifest.tsv has no columns {missing}; it has {lines[0]}")
    rows = [[line[columns[name]] for name in keep] for line in lines[1:]]
    tokens = max(run["data"]["tokens"] for run in runs)
    total = sum(int(line[columns["bytes"]]) for line in lines[1:])
    said = f"{len(rows)} archives, {total / 1e6:,.0f} MB of text, {tokens / 1e6:,.1f} M tokens. "
    return "## Data\n\n" + said + "Archives and hashes: manifest.tsv.\n\n" + _table(list(keep), rows)


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell) for cell in line) + " |\n" for line in lines)


def read_runs(folder: Path) -> list[dict[str, Any]]:
    """The finished runs in a folder, in the course's order. FileNotFoundError where there is none."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    found = [run for run in found if "loss_curve" in run]
    if not found:
        raise FileNotFoundError(f"no finished run in {folder}; python -m tools.train writes NAME.json there")
    return sorted(found, key=lambda run: (ORDER.index(run["model"]) if run["model"] in ORDER else len(ORDER), run["model"]))


def score_here(runs: Path, weights: Path, lib: Path | None = None) -> None:
    """Score each finished model on this Python's held-out text, or on lib's; an older score of the same text is replaced."""
    import torch

    from course_lib.model import held_out, load
    from course_lib.model.evaluate import evaluate
    from course_lib.model.tokenizer import Tokenizer

    from .finish import score_facts

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    texts, tokenizer = held_out.read(lib), Tokenizer.load(weights / "tokenizer.json")
    sha, whole = held_out.digest(texts), b"".join(text.content for text in texts)
    known = next((version for version, digest in held_out.known_texts().items() if digest == sha), None)
    python = known or (platform.python_version() if lib is None else str(lib))
    packed = round(8 * len(lzma.compress(whole, preset=9)) / len(whole), 3)
    for run in read_runs(runs):
        model = load(weights / f"{run['model']}.safetensors", dtype=torch.float32, device=device)
        score = evaluate(model, tokenizer, [text.content for text in texts])
        others = [old for old in run.get("held_out", []) if old["text_sha256"] != sha]
        facts = {**score_facts(score, python, sha), "xz_bits_per_byte": packed}
        run["held_out"] = [*others, facts]
        (runs / f"{run['model']}.json").write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        print(f"card: {run['model']}, Python {python}: {score}", flush=True)


def main(runs: Path, weights: Path) -> None:
    text = card(read_runs(runs), (weights / "manifest.tsv").read_text(encoding="utf-8"))
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
