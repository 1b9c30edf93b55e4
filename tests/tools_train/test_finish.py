"""What a finished run leaves behind: weights, the facts about the run, and the pair's numbers."""

import hashlib
import json

import pytest
import torch

from course_lib.model import load
from course_lib.model.evaluate import evaluate_tokens
from course_lib.model.windows import scored_windows
from tests.model.stubs import Bytes
from tools.train.pair import pair_facts

from .small import TINY


def test_weights_on_disk_are_the_run_s_in_bf16_and_score_as_it_says(finished):
    facts, out, documents, sizes = finished
    model = load(out / "tiny.safetensors")
    assert model.config == TINY
    score = evaluate_tokens(model, documents, sizes)
    told = facts["held_out"][0]
    assert told["bits_per_byte"] == pytest.approx(score.bits_per_byte, abs=1e-5)
    assert (told["tokens"], told["bytes"], told["text_sha256"]) == (8, 8, "h" * 64)
    assert sum(told["module_bits"].values()) / 8 == pytest.approx(score.bits_per_byte, abs=0.01)
    assert told["module_bytes"] == {"a": 5, "b": 3}
    assert [piece.document for piece in scored_windows([model], documents, mark=0)] == [0, 1]


def test_the_facts_name_what_a_card_needs(finished):
    facts, out, _, _ = finished
    assert json.loads((out / "tiny.json").read_text()) == facts
    assert facts["tokens_seen"] == 3 * 8 * 16
    assert facts["parameters"] == TINY.params
    assert facts["weights_sha256"] == hashlib.sha256((out / "tiny.safetensors").read_bytes()).hexdigest()
    assert facts["data"]["tokens"] == 30_000 - 64 * 16 - 1
    for name in ("device", "minutes", "date", "seed", "versions", "loss_curve", "validation", "settings", "epochs"):
        assert facts[name] not in (None, [], {}, ""), name


def test_a_pair_of_equal_weights_agrees_everywhere(finished):
    _, out, _, _ = finished
    path, texts = out / "tiny.safetensors", [b"import os\n" * 4]
    sizes = {"prompts": 2, "prompt_tokens": 5, "new_tokens": 4}
    found = pair_facts(path, path, Bytes(), texts, torch.device("cpu"), text_sha256="h", **sizes)
    values = [found[name]["value"] for name in ("top1_teacher_forced", "top1_own_text", "acceptance", "kl_nats")]
    assert values == pytest.approx([1, 1, 1, 0])
    assert found["text_sha256"] == "h"
    assert found["target_sha256"] == found["draft_sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
