"""The benchmark of sliding windows: the same tokens are scored in every case and by the peer, and its sources exist."""

import math
from pathlib import Path

import pytest
import torch

from benchmarks import window_perplexity as bench
from course_lib.recorded import recorded

from .tiny import decoder, tokens

ROOT = Path(__file__).parents[2]
END = 3


@pytest.fixture
def model():
    made = decoder("grouped", context=16)
    made.tokenizer_factory = lambda: type("Tokenizer", (), {"END": END})()
    return made


def test_sources_exist_and_each_window_comes_with_and_without_sinks():
    assert all((ROOT / name).is_file() for name in bench.SOURCES)
    cases = bench.cases()
    assert len(cases) == len(set(cases)) == 1 + len(bench.WINDOWS) * 4
    assert {window for window, sinks, _ in cases if not sinks} == {None, *bench.WINDOWS}
    assert max(bench.WINDOWS) + max(bench.SINKS) <= bench.SCORED_FROM  # every ring has gone round before a token is scored


def test_a_window_that_holds_the_text_costs_what_a_plain_pass_costs(model):
    texts = tokens(2, 15).tolist()
    rows = bench.measure(model, texts, [(None, 0, "text"), (15, 0, "text"), (15, 2, "rank"), (3, 0, "text")], 5)
    everything, whole, sinks, short = rows
    logits = model(torch.tensor([[END, *ids[:-1]] for ids in texts]))
    nats = -logits.log_softmax(-1).gather(2, torch.tensor(texts)[..., None])[:, 5:, 0].double().sum(1)
    assert everything["bits"] == pytest.approx((nats / math.log(2)).tolist(), rel=1e-5)
    assert everything["scored_tokens"] == 20
    assert everything["ratio"] == pytest.approx(1, rel=1e-5)  # the peer's window, 16, holds the text as well
    for row in (whole, sinks):
        assert row["ours"] == pytest.approx(everything["ours"], rel=1e-5)
    assert short["ours"] != pytest.approx(everything["ours"], rel=1e-3)
    assert (short["kept_tokens"], sinks["kept_tokens"], everything["kept_tokens"]) == (3, 17, None)


def test_the_model_is_afterwards_as_it_was(model):
    before = model.parts
    bench.measure(model, tokens(1, 12).tolist(), [(4, 1, "rank")], 6)
    assert model.parts is before


def test_the_peer_scores_each_token_once_and_from_the_first_wanted_one_on(model):
    texts = tokens(1, 40).tolist()
    bits = [bench.anew_bits(model, texts, END, 16, start)[0] for start in (0, 11, 12, 16, 17, 39)]
    assert bits == sorted(bits, reverse=True)
    one = bits[1] - bits[2]  # token 11, in the first window: it sees 12 inputs
    logits = model(torch.tensor([[END, *texts[0][:11]]]))[0, -1]
    assert one == pytest.approx(float(-logits.log_softmax(-1)[texts[0][11]]) / math.log(2), rel=1e-4)


def test_the_record_says_what_section_11_of_phase_2_says():
    """About half of a window's loss is the first token's, four sinks do no better than one, and places in the text do harm."""
    measured = recorded("window_perplexity", device="cpu-x86-64-2-cores")["rows"]
    ratio = {(row["window"], row["sinks"], row["positions"]): row["ratio"] for row in measured}
    assert ratio[None, 0, "text"] == max(ratio.values())
    for window in bench.WINDOWS:
        alone, one, four = ratio[window, 0, "text"], ratio[window, 1, "rank"], ratio[window, 4, "rank"]
        assert 0.35 < (alone - one) / (alone - 1) < 0.65
        assert four == pytest.approx(one, rel=0.02)
    assert sum(ratio[window, 4, "text"] > ratio[window, 0, "text"] for window in bench.WINDOWS) == 3
    assert ratio[512, 1, "rank"] < 1.05
