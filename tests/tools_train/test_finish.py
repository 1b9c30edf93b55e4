"""What a finished run leaves behind, and the card that is made from it."""

import json
import lzma
import platform

import numpy as np
import pytest
import torch

from course_lib.model import held_out, load
from course_lib.model.evaluate import evaluate_tokens
from course_lib.model.tokenizer import Tokenizer
from course_lib.model.windows import scored_windows
from course_lib.recorded import recorded
from tests.model.stubs import Bytes
from tools.train.build import build
from tools.train.card import card, main, read_runs, score_here
from tools.train.finish import finish
from tools.train.loop import Progress, Settings, train
from tools.train.pair import pair_facts

from .small import TINY, corpus

MANIFEST = (
    "package\tversion\tlicence\tarchive\tarchive_sha256\tfiles\tbytes\tfiles_sha256\n"
    "cpython\t3.11\tPSF-2.0\tLib\t-\t525\t8700000\tabc\n"
    "django\t5.2.19\tBSD-3-Clause\tdjango-5.2.19.tar.gz\tdef\t3000\t22100000\tghi\n"
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """(facts, out folder, held-out documents, their sizes) of a run of three steps."""
    folder = tmp_path_factory.mktemp("finished")
    shards, out = folder / "shards", folder / "out"
    shards.mkdir()
    documents, sizes = [[5, 6, 7, 8, 9], [1, 2, 3]], [5, 3]
    data = np.array([*documents[0], 0, *documents[1], 0], dtype="<u2").tobytes()
    (shards / "held_out.xz").write_bytes(lzma.compress(data))
    rows = [{"module": "a", "bytes": 5, "tokens": 5}, {"module": "b", "bytes": 3, "tokens": 3}]
    described = {"vocab": 257, "shards": [{"sha256": "x"}], "text": {"documents": 2}, "tokenizer_sha256": "t",
                 "held_out": {"text_sha256": "h" * 64, "modules": rows}}  # fmt: skip
    (shards / "shards.json").write_text(json.dumps(described))
    settings = Settings(batch=8, length=16, warmup_steps=3)
    with torch.random.fork_rng():
        run = build(TINY, settings, corpus(30_000), out / "runs" / "tiny.pt", total_steps=3)
        progress = Progress(run, out / "runs" / "tiny.jsonl", began=run.clock(), flops_per_token=1e6, peak_flops=None)
        assert train(run, progress, seconds=1e6)
    return finish(run, shards, out), out, documents, sizes


def test_weights_on_disk_are_the_run_s_in_bf16_and_score_as_it_says(finished):
    facts, out, documents, sizes = finished
    model = load(out / "tiny.safetensors")
    assert model.config == TINY
    score = evaluate_tokens(model, documents, sizes)
    told = facts["held_out"][0]
    assert told["bits_per_byte"] == pytest.approx(score.bits_per_byte, abs=1e-5)
    assert (told["tokens"], told["bytes"], told["text_sha256"]) == (8, 8, "h" * 64)
    assert [piece.document for piece in scored_windows([model], documents, mark=0)] == [0, 1]


def test_the_facts_name_what_a_card_needs(finished):
    facts, out, _, _ = finished
    assert json.loads((out / "tiny.json").read_text()) == facts
    assert facts["tokens_seen"] == 3 * 8 * 16
    assert facts["parameters"] == TINY.params
    assert facts["data"]["tokens"] == 30_000 - 64 * 16 - 1
    for name in ("device", "minutes", "date", "seed", "versions", "loss_curve", "validation", "settings", "epochs"):
        assert facts[name] not in (None, [], {}, ""), name


def test_the_card_shows_models_scores_curve_data_and_limits(finished):
    facts, *_ = finished
    other = {**facts, "model": "tiny-draft", "held_out": [{**facts["held_out"][0], "python": "3.12.1", "text_sha256": "i" * 64}]}
    one = {"value": 0.61, "low": 0.6, "high": 0.62, "count": 8}
    other["pair"] = dict.fromkeys(("top1_teacher_forced", "top1_own_text", "acceptance", "kl_nats"), one)
    other["settings"] = {**facts["settings"], "teacher": "tiny.safetensors", "distil_share": 0.5}
    text = card([facts, other], MANIFEST)
    for said in (
        "| tiny | 90,496 |", "2 heads, MLP 128 | 256 |",  # 2 layers * 2 * 1 KV head * 32 values * 2 bytes
         "| unknown | 8 | hhhhhhhhhhhh | not packed | not scored |",
        "| 3.12.1 | 8 | iiiiiiiiiiii | not packed | not scored | not scored |",
        "Limits of use",
        "| django | 5.2.19 | BSD-3-Clause | 3000 | 22100000 |", "50% of its loss from tiny.safetensors", "its teacher's part",
        "31 MB of text", "| tiny-draft | acceptance at temperature 1, sum of min(p, q) | 0.6100 [0.6000, 0.6200] |",
    ):  # fmt: skip
        assert said in text, said


def test_the_card_quotes_the_n_grams_that_were_scored_on_the_same_text(finished):
    rows = recorded("held_out_baselines", "cpu-x86-64-2-cores")["rows"]
    facts, best = finished[0], min(row["ours"] for row in rows if "Kneser-Ney" in row["case"])
    same = [{**facts["held_out"][0], "text_sha256": rows[-1]["text_sha256"]}]
    text = card([{**facts, "held_out": same}], MANIFEST)
    assert f"| not packed | {best:.3f} (order 8, 100 MB of the training text) |" in text


def test_a_manifest_without_licences_is_refused(finished):
    with pytest.raises(ValueError, match=r"no columns \['licence'\]"):
        card([finished[0]], MANIFEST.replace("licence", "license"))


def test_the_command_writes_the_card_beside_the_weights(finished, tmp_path, capsys):
    _, out, _, _ = finished
    (tmp_path / "manifest.tsv").write_text(MANIFEST)
    main(out, tmp_path)
    assert (tmp_path / "card.md").read_text().startswith("# The course's own language models")
    assert "card.md" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match="no finished run"):
        read_runs(tmp_path)


def test_a_pair_of_equal_weights_agrees_everywhere(finished):
    _, out, _, _ = finished
    path, texts = out / "tiny.safetensors", [b"import os\n" * 4]
    sizes = {"prompts": 2, "prompt_tokens": 5, "new_tokens": 4}
    found = pair_facts(path, path, Bytes(), texts, torch.device("cpu"), text_sha256="h", **sizes)
    values = [found[name]["value"] for name in ("top1_teacher_forced", "top1_own_text", "acceptance", "kl_nats")]
    assert values == pytest.approx([1, 1, 1, 0])
    assert found["text_sha256"] == "h"


def test_scoring_here_adds_this_pythons_text_and_keeps_the_others(finished, tmp_path, monkeypatch):
    facts, out, _, _ = finished
    (tmp_path / "tiny.json").write_text(json.dumps(facts))
    (tmp_path / "tiny.safetensors").write_bytes((out / "tiny.safetensors").read_bytes())
    monkeypatch.setattr(held_out, "read", lambda lib: (held_out.HeldOutText("a", b"x = 1\n" * 30),))
    monkeypatch.setattr(Tokenizer, "load", lambda path: Bytes())
    for _ in range(2):
        score_here(tmp_path, tmp_path)
    first, second = json.loads((tmp_path / "tiny.json").read_text())["held_out"]
    assert first == facts["held_out"][0]
    assert (second["python"], second["bytes"]) == (platform.python_version(), 180)
    assert second["xz_bits_per_byte"] > 1
