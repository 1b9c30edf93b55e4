"""A decoder on the meta device: what torch's counter and its tensors say equals the formulas, and on a CPU it decodes."""

import pytest
import torch

from course_lib.exercises import exercise
from course_lib.roofline import FALCON_7B, LLAMA_2_7B, LLAMA_3_8B, chunk_step, count_step, decode_step, prefill_step
from course_lib.workloads.meta_decoder import MetaDecoder, count_flops

SMALL = {"layers": 2, "hidden": 96, "mlp_hidden": 112, "heads": 6, "kv_heads": 2, "head_dim": 24, "vocab": 50}
WEIGHT_DTYPES = {2: None, 1: torch.float8_e4m3fn, 0.515625: "int4"}


def pairs_hidden(new_tokens):
    """Pairs that the mask hides and the counter counts."""
    return new_tokens * (new_tokens - 1) // 2


def counted(shape, new_tokens, context, batch, weight_bytes=2, kv_bytes=2):
    """What torch says of the step, with the pairs behind the mask taken off."""
    kv_dtype = torch.float8_e4m3fn if kv_bytes == 1 else None
    decoder = MetaDecoder(shape, weight_dtype=WEIGHT_DTYPES[weight_bytes], kv_dtype=kv_dtype)
    flops = count_flops(decoder, new_tokens, context, batch)
    each = 4 * shape["layers"] * shape["heads"] * shape["head_dim"] * batch
    attention = flops["attention"] - each * pairs_hidden(new_tokens)
    return {"linear_flops": flops["linear"], "attention_flops": attention, "bytes": sum(decoder.traffic.values())}


CASES = [case for criterion in exercise("1.2").criteria for case in criterion.cases(5)]
STEPS = {str(sorted((k, str(v)) for k, v in case.items())): case for case in CASES}  # three criteria look at the same ones


@pytest.mark.parametrize("case", STEPS.values(), ids=lambda case: case["name"])
def test_what_exercise_1_2_expects_is_what_torch_counts_and_its_tensors_hold(case):
    numbers = [case[name] for name in ("shape", "new_tokens", "context", "batch", "weight_bytes", "kv_bytes")]
    assert counted(*numbers) == count_step(*numbers)


@pytest.mark.parametrize(("new_tokens", "context", "batch"), [(512, 0, 1), (1, 2048, 32), (256, 1000, 2)])
def test_steps_of_llama_3_8b_equal_what_torch_counts(new_tokens, context, batch):
    says, formula = counted(LLAMA_3_8B.numbers(), new_tokens, context, batch), chunk_step(LLAMA_3_8B, new_tokens, context, batch)
    assert says["linear_flops"] + says["attention_flops"] == formula.flops
    assert says["bytes"] == formula.bytes_moved


def test_the_rounded_forms_are_right_to_one_token():
    flops = counted(LLAMA_3_8B.numbers(), 1, 2048, 32)["attention_flops"]
    rounded = decode_step(LLAMA_3_8B, 32, 2048).flops - 32 * 2 * (LLAMA_3_8B.linear_params + LLAMA_3_8B.head_params)
    assert flops / rounded == pytest.approx(2049 / 2048, rel=1e-12)
    flops = counted(LLAMA_3_8B.numbers(), 512, 0, 1)["attention_flops"]
    rounded = prefill_step(LLAMA_3_8B, 512).flops - 2 * LLAMA_3_8B.linear_params * 512 - 2 * LLAMA_3_8B.head_params
    assert flops / rounded == pytest.approx(513 / 512, rel=1e-12)


def test_the_counter_sees_the_masked_half():
    decoder = MetaDecoder(SMALL)
    each = 4 * SMALL["layers"] * SMALL["heads"] * SMALL["head_dim"]
    assert count_flops(decoder, 10, 0, 1)["attention"] == each * 10 * 10
    assert count_flops(decoder, 1, 9, 1)["attention"] == each * 10


def test_traffic_is_that_of_the_last_step_alone():
    decoder = MetaDecoder(SMALL)
    count_flops(decoder, 3, 4, 2)
    first = dict(decoder.traffic)
    count_flops(decoder, 3, 4, 2)
    assert decoder.traffic == first
    weights = 2 * (96 * 144 * 2 + 96 * 48 * 2 + 3 * 96 * 112) + 96 * 50  # by hand, two layers and the head
    assert first == {"weights": 2 * weights, "kv": 2 * 2 * 2 * 2 * 7 * 24 * 2, "residual": 2 * 4 * 2 * 3 * 96 * 2}


@pytest.mark.parametrize("model", [LLAMA_2_7B, FALCON_7B], ids=lambda model: model.name)
def test_the_weights_it_holds_are_those_of_the_shape(model):
    shape = model.numbers() | {"layers": 2}
    decoder = MetaDecoder(shape)
    held = sum(weight.nbytes for layer in decoder.layers for weight in layer.values())
    gated = 0 if model.mlp_matrices == 3 else 2 * shape["hidden"] * shape["mlp_hidden"]  # the decoder's MLP has a gate
    assert held == 2 * (2 * model.linear_params // model.layers + gated)


def small_decoder(**options):
    torch.manual_seed(3)
    return MetaDecoder(SMALL, dtype=torch.float32, device="cpu", **options)


@pytest.mark.parametrize("sizes", [(7,), (1,) * 7, (3, 4), (5, 1, 1)])
def test_a_prompt_in_pieces_gives_the_logits_of_the_whole(sizes):
    decoder, prompt = small_decoder(), torch.arange(14).view(2, 7)
    whole, _ = decoder.step(prompt, decoder.empty_cache(2))
    cache, done = decoder.empty_cache(2), 0
    for size in sizes:
        logits, cache = decoder.step(prompt[:, done : done + size], cache)
        done += size
    torch.testing.assert_close(logits, whole, rtol=1e-4, atol=1e-4)  # float32 sums of about 100 terms


def test_attention_is_torchs_own_with_heads_that_share_keys_and_values():
    """Not the softmax of scores plus values: the values are weighted by it."""
    decoder = small_decoder()
    layer, x = decoder.layers[0], torch.randn(2, 5, 96)
    keys, values = (torch.randn(2, 2, 4, 24) for _ in range(2))
    got, keys, values = decoder._attention(layer, x, keys, values)
    q = (x @ layer["q"].values(x.dtype).T).view(2, 5, 6, 24).transpose(1, 2)
    mask = torch.ones(5, 9, dtype=torch.bool).tril(4)
    k, v = (part.repeat_interleave(3, dim=1) for part in (keys, values))
    mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    expected = mixed.transpose(1, 2).flatten(2) @ layer["out"].values(x.dtype).T
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)


def test_weights_of_four_bits_are_unpacked():
    shape = SMALL | {"hidden": 128, "heads": 2, "kv_heads": 1, "head_dim": 64, "mlp_hidden": 128}
    torch.manual_seed(1)
    weight = MetaDecoder(shape, dtype=torch.float32, weight_dtype="int4", device="cpu").layers[0]["q"]
    packed, scales = weight.stored
    values = weight.values(torch.float32)
    assert values.shape == (128, 128)
    assert weight.nbytes == 128 * 128 * 0.515625
    assert values[5, 6] == (float(packed[5, 3] & 15) - 8) * float(scales[5, 0])
    assert values[5, 7] == (float(packed[5, 3] >> 4) - 8) * float(scales[5, 0])
