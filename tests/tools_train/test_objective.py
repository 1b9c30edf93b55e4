"""What is minimised, and what a step costs."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from course_lib.model import Decoder, preset
from tools.train.objective import distillation_loss, flops_per_token, hidden, logits_of, next_token_loss, rotary

from .small import TINY, TINY_MLA

CPU = torch.device("cpu")


@pytest.mark.parametrize("config", [TINY, TINY_MLA, dataclasses.replace(TINY, tied=False)], ids=["gqa", "mla", "untied"])
def test_the_training_pass_gives_the_decoders_logits(config):
    torch.manual_seed(0)
    model, tokens = Decoder(config), torch.randint(257, (3, 40))
    with torch.no_grad():
        made = logits_of(model, tokens, *rotary(model, 40, CPU))
        torch.testing.assert_close(made, model(tokens), rtol=1e-5, atol=1e-5)
        assert hidden(model, tokens, *rotary(model, 40, CPU)).shape == (3, 40, 64)


def test_every_weight_gets_a_gradient():
    for config in (TINY, TINY_MLA):
        model = Decoder(config)
        next_token_loss(model, 16, CPU)(torch.randint(257, (2, 16)), torch.randint(257, (2, 16))).backward()
        assert all(weight.grad is not None and weight.grad.abs().sum() > 0 for weight in model.parameters())


def test_distillation_is_cross_entropy_with_a_mixture_of_text_and_teacher():
    torch.manual_seed(1)
    model, teacher = Decoder(TINY), Decoder(TINY)
    teacher.init_weights(std=0.2)
    tokens, targets = torch.randint(257, (2, 16)), torch.randint(257, (2, 16))
    with torch.no_grad():
        mixture = 0.7 * F.one_hot(targets, 257) + 0.3 * teacher(tokens).softmax(-1)
        expected = -(mixture * model(tokens).log_softmax(-1)).sum(-1).mean()
        assert float(distillation_loss(model, teacher, 0.3, 16, CPU)(tokens, targets)) == pytest.approx(float(expected), rel=1e-5)
        plain = next_token_loss(model, 16, CPU)(tokens, targets)
        assert float(distillation_loss(model, teacher, 0.0, 16, CPU)(tokens, targets)) == pytest.approx(float(plain), rel=1e-6)


def test_a_distilled_step_moves_towards_the_teacher():
    torch.manual_seed(2)
    model, teacher = Decoder(TINY), Decoder(TINY)
    teacher.init_weights(std=0.2)
    tokens = torch.randint(257, (4, 32))
    loss = distillation_loss(model, teacher.requires_grad_(False), 1.0, 32, CPU)
    before = loss(tokens, tokens)
    before.backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.1 * weight.grad
    assert loss(tokens, tokens) < before


def test_flops_of_the_target_equal_the_sum_on_paper():
    with torch.device("meta"):
        model = Decoder(preset("course-target"))
    c = model.config
    layer = c.hidden * c.head_dim * (2 * c.heads + 2 * c.kv_heads) + 3 * c.hidden * c.mlp_hidden
    attention = 4 * c.heads * c.head_dim * 512  # scores and values over 512 keys on average, a multiply and an add each
    assert flops_per_token(model, 1024) == 3 * (2 * (c.layers * layer + c.vocab * c.hidden) + c.layers * attention)
