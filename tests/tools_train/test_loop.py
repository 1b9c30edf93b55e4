"""Runs: they learn, resume bit for bit, stop in time, and leave weights that load."""

import dataclasses
import json

import pytest
import torch

from tools.train import checkpoint, loop
from tools.train.build import build, fresh
from tools.train.finish import progress_of
from tools.train.loop import Progress, Settings, fitting_steps, train, validation_loss
from tools.train.optimise import Optimiser

from .small import TINY, TINY_MLA, bigram_nats, corpus, text_bytes

SMALL = Settings(batch=8, length=16, warmup_steps=3, muon_rate=0.02, adam_rate=0.02)


@pytest.fixture(scope="module")
def tokens():
    return corpus(60_000)


def run_of(tokens, path, *, steps, settings=SMALL, config=TINY):
    return build(config, settings, tokens, path / "runs" / "tiny.pt", total_steps=steps)


def go(run, *, seconds=1e6):
    progress = Progress(run, run.path.with_suffix(".jsonl"), began=run.clock(), flops_per_token=1e6, peak_flops=None)
    return train(run, progress, seconds=seconds)


def masters(run):
    return {name: weight.clone() for name, weight in run.optimiser.masters.items()}


def equal(one, other):
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def test_a_tiny_model_beats_every_bigram_model(tmp_path):
    settings = Settings(batch=32, length=32, warmup_steps=10, muon_rate=0.02, adam_rate=0.02)
    run = build(TINY, settings, corpus(), tmp_path / "tiny.pt", total_steps=150)
    untrained = validation_loss(run)
    go(run)
    # 154,000 tokens, less than one epoch; the bigram's loss is counted on the very text, the model's on windows that it never saw
    assert untrained > 5
    assert validation_loss(run) < bigram_nats(text_bytes())


@pytest.mark.parametrize("config", [TINY, TINY_MLA], ids=["gqa", "mla"])
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path, tokens, config):
    whole = run_of(tokens, tmp_path / "a", steps=9, config=config)
    go(whole)
    first = run_of(tokens, tmp_path / "b", steps=9, config=config)
    for _ in range(4):
        first.advance()
    first.save()
    second = run_of(tokens, tmp_path / "b", steps=None, config=config)
    assert (second.step, second.total_steps) == (4, 9)
    go(second)
    assert equal(masters(whole), masters(second))
    assert whole.history["losses"] == second.history["losses"]
    assert not equal(masters(whole), masters(first))


def test_it_stops_in_time_and_the_next_call_finishes(tmp_path, tokens):
    times = iter(range(100_000))  # a clock that moves a second each time it is read
    run = run_of(tokens, tmp_path, steps=40)
    run.clock = lambda: float(next(times))
    assert go(run, seconds=30) is False
    assert 0 < run.step < 40
    assert next(times) <= 30
    again = run_of(tokens, tmp_path, steps=40)
    assert again.step == run.step
    assert go(again) is True
    assert again.step == 40
    assert again.history["calls"] == 2


def test_a_run_decides_its_length_from_its_speed(tmp_path, tokens, monkeypatch):
    monkeypatch.setattr(loop, "SPEED_FROM", 2)
    monkeypatch.setattr(loop, "SPEED_TO", 4)
    run = run_of(tokens, tmp_path, steps=None)
    now = [0.0]

    def clock():
        now[0] += 0.01
        return now[0]

    run.clock = clock
    advance = type(run).advance

    def slow(self):
        now[0] += 1.0
        return advance(self)

    monkeypatch.setattr(type(run), "advance", slow)
    assert go(run, seconds=45) is True
    assert now[0] < 45 - 0.5 * loop.FINISH_SECONDS  # time is left for weights and score
    assert run.step == run.total_steps
    assert 18 <= run.step <= 24  # 4 steps, then 0.97 * (45 - 4 - 20) / 1.01
    assert fitting_steps(0.02, 120) == 4850


def test_a_loss_that_is_no_number_stops_the_run(tmp_path, tokens):
    run = run_of(tokens, tmp_path, steps=5)
    with torch.no_grad():
        run.model.embed.weight.fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="lower --muon-rate"):
        go(run)
    assert not run.path.exists()  # a broken state is not kept


def test_the_log_forgets_what_a_dead_call_did_after_its_checkpoint(tmp_path, tokens, monkeypatch):
    monkeypatch.setattr(loop, "LOG_STEPS", 1)
    run = run_of(tokens, tmp_path, steps=6)
    for _ in range(3):
        run.advance()
    run.save()
    log = run.path.with_suffix(".jsonl")
    log.write_text('{"step": 5, "loss": 9.9}\n')
    again = run_of(tokens, tmp_path, steps=6)
    go(again)
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["step"] for row in rows] == [4, 5, 6]
    assert rows[-1]["tokens"] == 6 * 8 * 16
    assert "validation" in rows[-1]


def test_another_runs_checkpoint_is_refused(tmp_path, tokens):
    run_of(tokens, tmp_path, steps=5).save()
    with pytest.raises(ValueError, match=r"muon_rate was 0.02 and is 0.03; use the old settings, or another --out"):
        run_of(tokens, tmp_path, steps=5, settings=dataclasses.replace(SMALL, muon_rate=0.03))


def test_an_interrupted_save_leaves_the_old_checkpoint(tmp_path, tokens, monkeypatch):
    run = run_of(tokens, tmp_path, steps=5)
    run.save()
    run.advance()

    def breaks(data, path):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint.torch, "save", breaks)
    with pytest.raises(OSError, match="disk full"):
        run.save()
    assert run_of(tokens, tmp_path, steps=5).step == 0


def test_the_model_computes_with_its_masters_rounded(tmp_path, tokens):
    run = run_of(tokens, tmp_path, steps=3)
    run.model.to(torch.bfloat16)
    run.optimiser.copy_to_model()
    before = masters(run)
    run.optimiser.muon_rate, run.optimiser.adam_rate = 1e-6, 1e-6  # far below what bfloat16 can hold
    for name, weight in run.model.named_parameters():
        weight.grad = torch.ones_like(weight)
        assert weight.equal(before[name].bfloat16()), name
    run.optimiser.step(1.0)
    after = masters(run)
    assert all(not after[name].equal(before[name]) for name in before)  # the masters keep the small step


def test_a_model_in_bfloat16_has_float32_masters_too():
    model = fresh(TINY, 0, torch.device("cpu")).bfloat16()
    optimiser = Optimiser(model, muon_rate=0.02, adam_rate=0.004, weight_decay=0.01)
    assert {master.dtype for master in optimiser.masters.values()} == {torch.float32}


def test_the_curve_of_a_long_run_is_thinned_to_means(tmp_path, tokens):
    run = run_of(tokens, tmp_path, steps=3)
    run.history["losses"] = [[step, float(step)] for step in range(1, 241)]
    curve = progress_of(run)["loss_curve"]
    assert len(curve) == 60
    assert curve[0] == [4, 2.5]
