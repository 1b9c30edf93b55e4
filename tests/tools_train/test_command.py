"""The command as it is typed: dry run, sweep, a run, its resumption, and a draft that learns from it."""

import json
import lzma
import sys
import time

import numpy as np
import pytest

import course_lib.model
from course_lib.model import load
from tools.train import loop
from tools.train.__main__ import arguments, main

from .small import TINY, text_bytes


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """call("--seconds", "60") runs `python -m tools.train tiny ...` on 30 kB of text and gives back what it printed."""
    shards = tmp_path / "shards"
    shards.mkdir()
    for name, part in (("train-00.xz", text_bytes(30_000)), ("held_out.xz", text_bytes(400).replace(b"\0", b"") + b"\0")):
        (shards / name).write_bytes(lzma.compress(np.frombuffer(part, dtype=np.uint8).astype("<u2").tobytes()))
    held_out = {"text_sha256": "h", "modules": [{"module": "a", "bytes": 400, "tokens": 400}]}
    rows = [{"file": "train-00.xz", "tokens": 30_000, "sha256": "x"}]
    (shards / "shards.json").write_text(json.dumps({"vocab": 257, "shards": rows, "held_out": held_out}))
    monkeypatch.setattr(course_lib.model, "preset", lambda name: TINY)
    monkeypatch.setattr(loop, "SPEED_FROM", 1)
    monkeypatch.setattr(loop, "SPEED_TO", 2)

    def run(*more, out="out"):
        fixed = ["tools.train", "tiny", "--shards", str(shards), "--out", str(tmp_path / out), "--batch", "4", "--length", "16"]
        monkeypatch.setattr(sys, "argv", [*fixed, *more])
        main(arguments(), time.monotonic())
        return capsys.readouterr().out

    run.out = tmp_path / "out"
    return run


def test_a_run_is_finished_by_one_call_and_found_finished_by_the_next(call):
    said = call("--tokens", "640", "--seconds", "100")
    assert "step 10/10" in said
    assert "bits per byte [" in said
    first = load(call.out / "tiny.safetensors").state_dict()
    assert {path.name for path in call.out.iterdir()} == {"tiny.safetensors", "tiny.json", "runs"}
    assert "resumes at step 10" in call("--tokens", "640", "--seconds", "100")
    again = load(call.out / "tiny.safetensors").state_dict()
    assert all(again[name].equal(weight) for name, weight in first.items())


def test_a_call_without_time_stops_and_says_how_to_go_on(call):
    said = call("--tokens", "6400", "--seconds", "0")
    assert "stopped in time at step 1 of 100; call again to go on" in said
    assert not (call.out / "tiny.safetensors").exists()


def test_a_draft_learns_from_finished_weights(call):
    call("--tokens", "128", "--seconds", "100")
    call("--tokens", "128", "--seconds", "100", "--teacher", str(call.out / "tiny.safetensors"), out="draft")
    facts = json.loads((call.out.parent / "draft" / "tiny.json").read_text())
    assert (facts["settings"]["teacher"], facts["settings"]["distil_share"]) == ("tiny.safetensors", 0.5)
    with pytest.raises(SystemExit, match="train it first"):
        call("--teacher", str(call.out / "none.safetensors"))


def test_dry_run_and_sweep_print_and_keep_nothing(call):
    said = call("--dry-run", "4", "8")
    assert "eager, batch 4 x 16" in said
    said = call("--sweep", "3", "--seconds", "1000")
    assert said.count("nats a token after") == 5
    assert "no time for the other rates" in call("--sweep", "3", "--seconds", "-1")
    assert not list(call.out.rglob("*"))
