"""Agreement, acceptance and KL against values worked out by hand."""

import math

import pytest
import torch

from course_lib.model.agreement import (
    acceptance,
    greedy,
    kl_of_logits,
    next_token_kl,
    prompts_of,
    roll_out_agreement,
    top1_agreement,
)
from course_lib.model.config import ModelConfig
from course_lib.model.decoder import Decoder

from .stubs import MARK, Bytes, Fixed, Knows, Uniform

TEXTS = ["import os\nimport sys\n" * 3, "def f(x):\n    return x\n" * 4]
TINY = ModelConfig(name="tiny", vocab=300, hidden=32, layers=2, heads=2, kv_heads=1, head_dim=16, mlp_hidden=64)


@pytest.fixture(scope="module")
def pair():
    torch.manual_seed(5)
    model, changed = Decoder(TINY), Decoder(TINY)
    model.init_weights(std=0.3)  # far enough from uniform that the most likely token means something
    with torch.no_grad():
        for one, other in zip(model.parameters(), changed.parameters(), strict=True):
            other.copy_(one + 0.05 * torch.randn_like(one))
    return model, changed


def test_a_model_agrees_with_itself(pair):
    model, _ = pair
    for estimate in (
        top1_agreement(model, model, Bytes(), TEXTS),
        acceptance(model, model, Bytes(), TEXTS),
        roll_out_agreement(model, model, Bytes(), TEXTS, prompts=4, prompt_tokens=12, new_tokens=9),
    ):
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx((1, 1, 1))
    kl = next_token_kl(model, model, Bytes(), TEXTS)
    assert (kl.value, kl.low, kl.high) == (0, 0, 0)
    assert kl.count == sum(map(len, TEXTS))


def test_two_models_agree_somewhere_and_not_everywhere(pair):
    for measure in (top1_agreement, acceptance):
        estimate = measure(*pair, Bytes(), TEXTS)
        assert 0 < estimate.low <= estimate.value <= estimate.high < 1


def test_top1_counts_positions():
    # the first knows a b c a b c; the second knows only the way round of "ab": after b it says a, and after c token 0
    estimate = top1_agreement(Knows(b"abc"), Knows(b"ab"), Bytes(), "abc" * 4)
    assert estimate.value == pytest.approx(5 / 12)  # inputs: mark abc abc abc ab; alike behind the mark and each a


def test_acceptance_and_kl_equal_what_two_distributions_give_by_hand():
    p, q = Fixed(0.5, 0.25, 0.25), Fixed(0.25, 0.25, 0.5)
    tokenizer = Bytes()
    tokenizer.END = 0
    texts = [bytes([0, 1, 2, 1]), bytes([2, 2])]
    assert acceptance(p, q, tokenizer, texts).value == pytest.approx(0.75, abs=1e-12)
    assert next_token_kl(p, q, tokenizer, texts).value == pytest.approx(0.25 * math.log(2), abs=1e-12)  # (1/2 - 1/4) ln 2
    # at temperature 1/2 the probabilities are squared: 4, 1, 1 and 1, 1, 4, over 6
    assert acceptance(p, q, tokenizer, texts, temperature=0.5).value == pytest.approx(3 / 6, abs=1e-12)


def test_a_small_kl_survives_rounding():
    torch.manual_seed(0)
    logits = torch.randn(64, 4096)
    for size in (1e-2, 1e-4, 1e-6):
        move = size * torch.randn(64, 4096, dtype=torch.float64)
        kl = kl_of_logits(logits.double(), logits.double() + move)
        p = logits.double().softmax(-1)
        variance = (p * move**2).sum(-1) - (p * move).sum(-1) ** 2
        # half the variance of the move under p, up to third order in the move
        torch.testing.assert_close(kl, variance / 2, rtol=20 * size, atol=0)
    assert (kl > 0).all()


def test_kl_where_a_probability_is_zero():
    minus = -math.inf
    assert kl_of_logits(torch.tensor([[0.0, minus]]), torch.tensor([[0.0, 0.0]])).item() == pytest.approx(math.log(2))
    assert kl_of_logits(torch.tensor([[0.0, 0.0]]), torch.tensor([[0.0, minus]])).item() == math.inf
    assert kl_of_logits(torch.tensor([[0.0, -900.0]]), torch.tensor([[0.0, 900.0]])).item() == pytest.approx(900)


def test_greedy_with_a_cache_writes_what_whole_passes_write(pair):
    model, _ = pair
    tokens = torch.tensor([[MARK, 5, 9], [MARK, 8, 1]])
    expected = tokens
    for _ in range(8):
        with torch.no_grad():
            expected = torch.cat((expected, model(expected)[:, -1:].argmax(-1)), dim=1)
    with torch.no_grad():
        assert greedy(model, tokens, 8).equal(expected)


def test_prompts_take_every_document_first():
    documents = [[1, 2, 3, 10], [4, 5, 6, 7, 8], [9]]  # behind the first one's mark two pieces, and half of one
    assert prompts_of(documents, 4, 2, mark=0) == [[0, 1], [0, 4], [0, 9], [2, 3]]
    with pytest.raises(ValueError, match=r"hold 6 pieces .* give more text"):
        prompts_of(documents, 7, 2, mark=0)


def test_what_has_no_meaning_is_refused():
    with pytest.raises(ValueError, match=r"vocabularies of 300 and 301"):
        next_token_kl(Uniform(300), Uniform(301), Bytes(), "abc")
    with pytest.raises(ValueError, match="top1_agreement for greedy"):
        acceptance(Uniform(300), Uniform(300), Bytes(), "abc", temperature=0.0)
    for name in ("prompts", "prompt_tokens", "new_tokens"):
        with pytest.raises(ValueError, match=f"{name} is 0; use at least 1"):
            roll_out_agreement(Uniform(300), Uniform(300), Bytes(), "abc", **{name: 0})
