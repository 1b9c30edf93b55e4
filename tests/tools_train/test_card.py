"""The card, made from run records, and how scores get into these."""

import hashlib
import json
import platform
from pathlib import Path

import pytest

from course_lib.model import held_out
from course_lib.model.load import WEIGHTS
from course_lib.model.tokenizer import Tokenizer
from course_lib.recorded import recorded
from tests.model.stubs import Bytes
from tools.train.card import card, main
from tools.train.card_compare import difference, latent
from tools.train.score import add_score, read_overlap, read_runs, score_here

from .small import TINY_MLA

RUNS = Path(__file__).parents[2] / "tools/train/runs"
MANIFEST = (
    "package\tversion\tlicence\tarchive\tarchive_sha256\tfiles\tbytes\tfiles_sha256\n"
    "cpython\t3.11\tPSF-2.0\tLib\t-\t525\t8700000\tabc\n"
    "django\t5.2.19\tBSD-3-Clause\tdjango-5.2.19.tar.gz\tdef\t3000\t22100000\tghi\n"
)


def test_the_card_shows_models_scores_curve_data_and_limits(finished):
    facts, *_ = finished
    other = {**facts, "model": "tiny-draft", "held_out": [{**facts["held_out"][0], "python": "3.12.1", "text_sha256": "i" * 64}]}
    one = {"value": 0.61, "low": 0.6, "high": 0.62, "count": 8}
    about = {"target": "tiny.safetensors", "text_sha256": "i" * 64}
    other["pair"] = about | dict.fromkeys(("top1_teacher_forced", "top1_own_text", "acceptance", "kl_nats"), one)
    other["settings"] = {**facts["settings"], "teacher": "tiny.safetensors", "distil_share": 0.5}
    text = card([facts, other], MANIFEST)
    for said in (
        "| tiny | 90,496 | 2 | 64 | 2 heads, 1 KV head of 32 | 128 | 256 |",  # 2 layers * 2 * 1 KV head * 32 values * 2 bytes
        "8 bytes, 8 tokens, sha256 hhhhhhhhhhhh", "| 3.12.1 | not scored |", "| not packed | not scored |",
        "Limits of use",
        "| django | 5.2.19 | BSD-3-Clause | 3,000 | 22,100,000 |",
        "50% of its loss from the distribution of tiny",
        "The steps of tiny-draft contain their teacher's part",
        "python -m tools.train tiny-draft --shards DIR --out DIR --tokens 384",
        "--teacher DIR/tiny.safetensors --distil 0.5", "(0.02, 0.008)",
        "2 sources, 31 MB of text",
        "| acceptance at temperature 1, sum of min(p, q), on held-out text | 0.6100 [0.6000, 0.6200] | 8 |",
    ):  # fmt: skip
        assert said in " ".join(text.split()), said


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
    assert second["module_bits"].keys() == second["module_bytes"].keys() == {"a"}
    assert second["module_sha256"]["a"] == hashlib.sha256(b"x = 1\n" * 30).hexdigest()


def test_what_other_weights_scored_goes(finished, tmp_path):
    facts, out, _, _ = finished
    record, weights = tmp_path / "tiny.json", tmp_path / "tiny.safetensors"
    record.write_text(json.dumps({**facts, "pair": {"kl_nats": 1}}))
    weights.write_bytes((out / "tiny.safetensors").read_bytes())
    new = {**facts["held_out"][0], "python": "3.12.1", "text_sha256": "i" * 64}
    add_score(record, weights, new)
    kept = json.loads(record.read_text())
    assert kept["held_out"] == [facts["held_out"][0], new]
    assert kept["pair"] == {"kl_nats": 1}
    weights.write_bytes(b"other weights")
    add_score(record, weights, new)
    changed = json.loads(record.read_text())
    assert changed["held_out"] == [new]
    assert "pair" not in changed
    assert changed["weights_sha256"] == hashlib.sha256(b"other weights").hexdigest()


def scored(bits, sizes):
    names = [f"m{number}" for number in range(len(bits))]
    return {"held_out": [{"python": "3.11.7", "text_sha256": "t", "module_bits": dict(zip(names, bits, strict=True)),
                          "module_bytes": dict(zip(names, sizes, strict=True))}]}  # fmt: skip


def test_a_difference_is_paired_and_its_interval_does_not_hold_what_is_hard_for_both():
    """Modules from 0.4 to 1.9 bits per byte; one model is worse by 1% in each."""
    sizes = [1000 + 10 * number for number in range(16)]
    hard = [size * (0.4 + 0.1 * number) for number, size in enumerate(sizes)]
    value, low, high = difference(scored([1.01 * some for some in hard], sizes), scored(hard, sizes), "t")
    assert value == pytest.approx(0.01 * sum(hard) / sum(sizes))
    assert 0.008 < low < value < high < 0.015
    assert difference(scored(hard, sizes), scored(hard, sizes), "other text") is None


def test_the_card_says_what_latent_attention_costs(finished):
    def run(name, bits):
        return {**finished[0], **scored(bits, [100, 300]), "model": name}

    text = latent(run("course-target", [80, 200]), {**run("course-mla", [82, 206]), "config": TINY_MLA.to_dict()})
    assert "| 3.11.7 | +0.0200 [+0.0200, +0.0200] |" in text
    # 2 layers * (32 + 16) values * 2 bytes = 192 of 256
    assert "keeps 192 bytes a token in its cache, 75.0% of course-target's 256" in " ".join(text.split())
    assert "the same tokens in the same order" in " ".join(text.split())
    assert latent(None, run("course-mla", [1, 1])) == ""


def test_the_shipped_card_is_what_the_records_give():
    """`python -m tools.train.card tools/train/runs course_lib/model/weights` after every change of either."""
    manifest, shipped = ((WEIGHTS / name).read_text(encoding="utf-8") for name in ("manifest.tsv", "card.md"))
    assert shipped == card(read_runs(RUNS), manifest, read_overlap(RUNS))
    assert "distinct held-out lines" in shipped


def test_without_a_count_the_card_says_that_held_out_text_is_not_free_of_what_was_seen(finished, tmp_path):
    facts, *_ = finished
    assert read_overlap(tmp_path) is None
    assert "held-out text is not free of what was seen" in " ".join(card([facts], MANIFEST).split())
