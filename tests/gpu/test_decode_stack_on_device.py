"""The decode stack on a device: compiled kernels, a library's attention and products, and a graph that replays the step."""

import pytest
import torch

from course_lib.workloads.decode_stack import LLAMA_3_8B_NUMBERS, DecodeStack
from tests.workloads.test_decode_stack import reference

pytestmark = pytest.mark.gpu
SMALL_VOCAB = LLAMA_3_8B_NUMBERS | {"vocab": 4096}


@pytest.mark.parametrize("batch", [1, 5, 16, 17, 64])
def test_layers_of_the_8b_shape_equal_float64(batch):
    torch.manual_seed(batch)
    stack = DecodeStack(SMALL_VOCAB, 2, batch, 100)
    logits = stack.step().double().cpu()
    stack.weights.layers[:] = [{name: w.cpu() for name, w in layer.items()} for layer in stack.weights.layers]
    stack.caches[:] = [(k.cpu(), v.cpu()) for k, v in stack.caches]
    object.__setattr__(stack.weights, "head", stack.weights.head.cpu())
    stack.embedded = stack.embedded.cpu()
    expected = reference(stack)
    assert (logits - expected).norm() / expected.norm() < 0.02  # bf16 rounds at 4e-3, some ten times along the way


def test_a_replay_gives_what_a_step_gives():
    stack = DecodeStack(SMALL_VOCAB, 2, 3, 64)
    expected = stack.step().clone()
    replay = stack.graph()
    stack.logits.fill_(float("nan"))
    replay()
    assert torch.equal(stack.logits, expected)
