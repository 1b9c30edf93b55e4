"""On a CUDA device a compiled bf16 step has the loss and the gradients of a plain float32 one, and a few steps learn."""

import dataclasses

import pytest
import torch

from course_lib.model import preset
from tests.tools_train.small import corpus
from tools.train.build import build, fresh, loss_of
from tools.train.loop import Settings, validation_loss
from tools.train.objective import next_token_loss

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["course-target", "course-mla", "course-draft"])
def test_a_compiled_step_has_the_gradients_of_a_plain_one(name):
    config = dataclasses.replace(preset(name), layers=2)
    tokens = torch.randint(4096, (4, 257), device="cuda")
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    settings = Settings(length=256)
    model = fresh(config, 0, torch.device("cuda"))
    plain = fresh(config, 0, torch.device("cpu")).to(device="cuda")
    loss = loss_of(model, settings, None, compiled=True)(inputs, targets)
    expected = next_token_loss(plain, 256, torch.device("cuda"))(inputs, targets)
    loss.backward()
    expected.backward()
    assert float(loss) == pytest.approx(float(expected), rel=2e-3)
    for (label, one), other in zip(model.named_parameters(), plain.parameters(), strict=True):
        # bf16 keeps 8 bits; a chain of a dozen roundings leaves a few percent of a gradient's length
        error = (one.grad.float() - other.grad).norm() / other.grad.norm()
        assert error < 0.08, f"{label}: {error:.3f}"


def test_a_few_steps_learn(tmp_path):
    config = dataclasses.replace(preset("course-target"), layers=2, vocab=257)
    settings = Settings(batch=16, length=128, warmup_steps=10)
    run = build(config, settings, corpus(400_000).cuda(), tmp_path / "none.pt", compiled=True, total_steps=120)
    before = validation_loss(run)
    while not run.finished:
        run.advance()
    assert before > 5
    assert validation_loss(run) < 2.4
    assert {weight.dtype for weight in run.optimiser.masters.values()} == {torch.float32}
    assert {weight.dtype for weight in run.model.parameters()} == {torch.bfloat16}
