"""What a finished run leaves behind: bf16 weights, and the facts about the run that the model card is made from."""

import datetime
import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from course_lib.model import Decoder, held_out, save
from course_lib.model.evaluate import bits_of, score_of
from course_lib.model.load import load
from course_lib.model.tokenizer import Tokenizer

from .loop import Run
from .pair import pair_facts

CURVE_POINTS = 60


def finish(run: Run, shards: Path, out: Path, teacher: Path | None = None) -> dict[str, Any]:
    """Write NAME.safetensors and NAME.json; score the weights as they lie on disk -> what NAME.json says.

    teacher: the target's weights, where this is its draft; then the pair is scored too.
    """
    name = run.model.config.name
    path = save(run.model, out / f"{name}.safetensors")
    facts = {
        "model": name, "weights_sha256": sha256_of(path),
        "parameters": run.model.config.params, "config": run.model.config.to_dict(),
        "settings": run.plan, **progress_of(run), "data": data_of(shards, run), "device": device_name(run.windows.tokens.device),
        "minutes": round(run.history["seconds"] / 60, 2), "calls": run.history["calls"],
        "date": datetime.date.today().isoformat(), "seed": run.settings.seed,
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
    }  # fmt: skip
    if (shards / "held_out.xz").is_file():
        device, (documents, described) = run.windows.tokens.device, held_out_of(shards)
        facts["held_out"] = [score_on_disk(path, documents, described, device)]
        if teacher and (shards / "tokenizer.json").is_file():
            tokenizer = Tokenizer.load(shards / "tokenizer.json")
            texts = [tokenizer.decode(ids) for ids in documents]
            facts["pair"] = pair_facts(teacher, path, tokenizer, texts, device, text_sha256=described["text_sha256"])
    (out / f"{name}.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    return facts


def progress_of(run: Run) -> dict[str, Any]:
    """Steps, tokens, epochs, and the loss curve in nats a token, thinned to means of neighbours."""
    losses = run.history["losses"]
    width = max(1, math.ceil(len(losses) / CURVE_POINTS))
    groups = [losses[start : start + width] for start in range(0, len(losses), width)]
    curve = [[group[-1][0], round(sum(loss for _, loss in group) / len(group), 4)] for group in groups]
    return {
        "steps": run.step, "tokens_seen": run.step * run.settings.tokens_per_step,
        "epochs": round(run.step / run.windows.steps_per_epoch, 2), "loss_curve": curve, "validation": run.history["validation"],
    }  # fmt: skip


def data_of(shards: Path, run: Run) -> dict[str, Any]:
    """What the shards say about the text, and how much of it was there."""
    description = json.loads((shards / "shards.json").read_text(encoding="utf-8"))
    return {
        "tokens": len(run.windows.tokens), "tokenizer_sha256": description.get("tokenizer_sha256"),
        "text": description.get("text"), "shards": [row.get("sha256") for row in description["shards"]],
    }  # fmt: skip


def held_out_of(shards: Path) -> tuple[list[list[int]], dict[str, Any]]:
    """(tokens of each held-out module, what shards.json says of them): the text of the Python that prepared the shards."""
    from tools.corpus.shards import read_shard

    described = json.loads((shards / "shards.json").read_text(encoding="utf-8"))["held_out"]
    documents: list[list[int]] = [[]]
    for token in read_shard(shards / "held_out.xz").tolist():
        if token == Tokenizer.END:
            documents.append([])
        else:
            documents[-1].append(token)
    return documents[: len(described["modules"])], described


def score_on_disk(weights: Path, documents: list[list[int]], described: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """The held-out score of weights on disk, in float32."""
    sizes = {row["module"]: row["bytes"] for row in described["modules"]}
    version = next((v for v, sha in held_out.known_texts().items() if sha == described["text_sha256"]), "")
    return score_facts(load(weights, dtype=torch.float32, device=device), documents, sizes, version, described["text_sha256"])


def score_facts(
    model: Decoder, documents: Sequence[Sequence[int]], sizes: Mapping[str, int], python: str, text_sha256: str
) -> dict[str, Any]:
    """A score as plain data: the text that it is about, and the bits of each module. sizes: {module: bytes}, as documents go."""
    bits = bits_of(model, documents)
    score = score_of(bits, [len(ids) for ids in documents], list(sizes.values()))
    return {
        "python": python, "text_sha256": text_sha256, "bits_per_byte": round(score.bits_per_byte, 5), "low": round(score.low, 5),
        "high": round(score.high, 5), "perplexity": round(score.perplexity, 4), "tokens": score.tokens, "bytes": score.bytes,
        "device": device_name(model.device), "module_bytes": dict(sizes),
        "module_bits": {module: round(some, 2) for module, some in zip(sizes, bits, strict=True)},
    }  # fmt: skip


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU ({platform.machine()})"
