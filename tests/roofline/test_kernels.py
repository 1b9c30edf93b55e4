"""A decode step's kernels, one by one, add up to the step, and are the ones that the stack runs."""

import pytest

from course_lib.roofline import LLAMA_3_8B, LLAMA_3_70B, decode_step
from course_lib.roofline.kernels import decode_kernels


@pytest.mark.parametrize("model", [LLAMA_3_8B, LLAMA_3_70B], ids=lambda m: m.name)
@pytest.mark.parametrize(("batch", "context"), [(1, 1023), (7, 0), (64, 2047)])
def test_the_kernels_add_up_to_the_step(model, batch, context):
    kernels, step = decode_kernels(model, batch, context), decode_step(model, batch, context)
    flops = sum(k.count * k.flops for k in kernels)
    attention_of_the_new_token = batch * 4 * model.layers * model.heads * model.head_dim  # the step counts `context` keys
    assert flops == step.flops + attention_of_the_new_token
    moved = sum(k.count * k.bytes_moved for k in kernels)
    width, qkv = model.heads * model.head_dim, (model.heads + 2 * model.kv_heads) * model.head_dim
    h, m = model.hidden, model.mlp_hidden
    layer = 8 * h + 3 * qkv + h + 3 * width + h + 2 * m + h + 3 * m + m + h  # activations that go from kernel to kernel
    between = 2 * batch * (model.layers * layer + 4 * h + h + model.vocab)
    assert moved == step.bytes_moved + between


def test_a_row_worked_out_by_hand():
    by_name = {k.name: k for k in decode_kernels(LLAMA_3_8B, batch=4, context=1023)}
    down = by_name["down"]
    assert (down.flops, down.count) == (2 * 4 * 14336 * 4096, 32)
    assert down.bytes_moved == 2 * 14336 * 4096 + 2 * 4 * (14336 + 4096) == 117_587_968
    attention = by_name["attention"]
    assert attention.bytes_moved == 4 * 1024 * 2 * 8 * 128 * 2 + 4 * 2 * 4096 * 2
    assert by_name["add and norm"].count == 65
    assert by_name["head"].count == 1


def test_fewer_layers_change_all_but_the_head():
    whole, half = (decode_kernels(LLAMA_3_8B, 1, 100, layers) for layers in (32, 16))
    assert [k.count for k in half] == [33 if k.name == "add and norm" else 1 if k.name == "head" else 16 for k in whole]
