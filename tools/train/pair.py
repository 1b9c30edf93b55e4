"""A draft beside its target: the numbers that say what speculation gains from the pair."""

import dataclasses
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from course_lib.model import load
from course_lib.model.agreement import acceptance, next_token_kl, roll_out_agreement, top1_agreement


def pair_facts(
    target: Path, draft: Path, tokenizer, texts: Sequence[bytes], device: torch.device, *, text_sha256: str, **prompts: int
) -> dict[str, Any]:
    """top-1 agreement teacher-forced and on the target's own greedy text, acceptance at temperature 1, and KL in nats."""
    models = [load(path, dtype=torch.float32, device=device) for path in (target, draft)]
    found = {
        "top1_teacher_forced": top1_agreement(*models, tokenizer, texts),
        "top1_own_text": roll_out_agreement(*models, tokenizer, texts, **prompts),
        "acceptance": acceptance(*models, tokenizer, texts),
        "kl_nats": next_token_kl(*models, tokenizer, texts),
    }
    numbers = {name: {key: round(value, 5) for key, value in dataclasses.asdict(one).items()} for name, one in found.items()}
    about = {"target": target.name, "draft": draft.name, "text_sha256": text_sha256}
    hashes = {f"{role}_sha256": sha256(path.read_bytes()).hexdigest() for role, path in (("target", target), ("draft", draft))}
    return {**about, **hashes, **numbers}
