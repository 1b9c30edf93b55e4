"""The decoder: cached equals uncached, a batch equals its rows, and no row hears its neighbours."""

import math
import re
import warnings

import pytest
import torch

from course_lib.model import Decoder, preset

from .tiny import KINDS, config, decoder, tokens

EXACT = 1e-10  # of float64 models: thousands of operations with 1e-16 of rounding
SINGLE = 1e-4  # of float32 models, whose logits are some 10 in size: what issue and course promise


def padded(rows):
    """(tokens, positions) of rows of different lengths, padded on the right with a token that would be seen."""
    longest = max(map(len, rows))
    ids = torch.stack([torch.cat((row, torch.full((longest - len(row),), 96))) for row in rows])
    places = [[*range(len(row)), *[-1] * (longest - len(row))] for row in rows]
    return ids, torch.tensor(places)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_cached_logits_equal_uncached_ones_at_every_position(kind, dtype):
    model, ids = decoder(kind, dtype=dtype), tokens(2, 13)
    whole = model(ids)
    assert whole.dtype == dtype
    for cuts in ((1,), (12,), (5, 6), range(1, 13)):
        cache = model.new_cache(2, 13)
        pieces = [model(piece, cache) for piece in ids.tensor_split(list(cuts), dim=1)]
        difference = (torch.cat(pieces, 1) - whole).abs().max()
        assert difference < (EXACT if dtype == torch.float64 else SINGLE), f"cut at {cuts}"
        assert cache.lengths == [13, 13]


@pytest.mark.parametrize("kind", KINDS)
def test_a_ragged_batch_equals_its_rows_alone(kind):
    """Prompts of 3, 9 and 1 tokens, padded; then two steps together, the middle row skipping the first."""
    model, rows = decoder(kind, dtype=torch.float64), [tokens(1, n, seed=n)[0] for n in (5, 10, 3)]
    prompts = [rows[0][:3], rows[1][:9], rows[2][:1]]
    cache = model.new_cache(3, 12)
    ids, positions = padded(prompts)
    first = model(ids, cache, positions)
    assert cache.lengths == [3, 9, 1]
    ids = torch.stack([rows[0][3:4], torch.tensor([7]), rows[2][1:2]])
    later = model(ids, cache, torch.tensor([[3], [-1], [1]]))
    assert cache.lengths == [4, 9, 2]
    last = model(torch.stack([rows[0][4:5], rows[1][9:10], rows[2][2:3]]), cache)
    assert cache.lengths == [5, 10, 3]
    for row, (ids, prompt) in enumerate(zip(rows, prompts, strict=True)):
        alone = model(ids[None])[0]
        assert (first[row, : len(prompt)] - alone[: len(prompt)]).abs().max() < EXACT
        assert (last[row, 0] - alone[-1]).abs().max() < EXACT
        if row != 1:
            assert (later[row, 0] - alone[len(prompt)]).abs().max() < EXACT


@pytest.mark.parametrize("kind", ["grouped", "window", "mla"])
def test_padding_without_a_cache_changes_nothing(kind):
    model, rows = decoder(kind, dtype=torch.float64), [tokens(1, n, seed=n)[0] for n in (4, 7)]
    right = padded(rows)
    left = torch.stack([torch.cat((torch.full((7 - len(row),), 96), row)) for row in rows])
    left_positions = torch.arange(7) - torch.tensor([[7 - len(row)] for row in rows])
    after, before = model(right[0], positions=right[1]), model(left, positions=left_positions.clamp(min=-1))
    for row, alone in enumerate(rows):
        expected = model(alone[None])[0]
        assert (after[row, : len(alone)] - expected).abs().max() < EXACT
        assert (before[row, 7 - len(alone) :] - expected).abs().max() < EXACT


@pytest.mark.parametrize("kind", ["grouped", "mla"])
def test_only_the_neighbours_content_changed_is_bit_equal(kind):
    """E31's first oracle: equal shapes, other neighbours, the very same numbers."""
    model = decoder(kind)
    for prompt in ([4, 4, 4], [4, 9, 2]):
        found = []
        for seed in (5, 6):
            rows = [tokens(1, prompt[0], seed=9)[0], *[tokens(1, n, seed=seed)[0] for n in prompt[1:]]]
            ids, positions = padded(rows)
            cache = model.new_cache(3, 12)
            first = model(ids, cache, positions)
            others = tokens(2, 1, seed=seed)
            found.append((first[0], model(torch.cat((tokens(1, 1, seed=9), others)), cache)[0]))
        assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("kind", ["grouped", "mla"])
def test_alone_or_in_a_batch_within_tolerance_and_argmax_equal(kind):
    """E31's second oracle: other shapes may round differently, and the likeliest token stays unless two are as near."""
    model, ids = decoder(kind), tokens(5, 11)
    batch, alone = model(ids), torch.cat([model(row[None]) for row in ids])
    assert (batch - alone).abs().max() < SINGLE
    best = alone.topk(2, -1)
    apart = best.values[..., 0] - best.values[..., 1] > 2 * SINGLE
    assert apart.float().mean() > 0.9
    assert torch.equal(batch.argmax(-1)[apart], best.indices[..., 0][apart])


def test_a_token_changes_no_logits_before_it():
    for kind in KINDS:
        model, ids = decoder(kind, dtype=torch.float64), tokens(1, 9)
        changed = ids.clone()
        changed[0, 5] = (changed[0, 5] + 1) % 97
        difference = (model(ids) - model(changed)).abs().amax(-1)[0]
        assert (difference[:5] == 0).all()
        assert (difference[5:] > 1e-6).all()


def test_a_window_forgets_what_lies_before_it():
    """One layer, window 5: position 8 sees 4..8. Two layers reach twice as far."""
    model, ids = decoder("window", layers=1, dtype=torch.float64), tokens(1, 9)
    for place, seen in ((3, False), (4, True)):
        changed = ids.clone()
        changed[0, place] = (changed[0, place] + 1) % 97
        assert ((model(ids) - model(changed))[0, 8].abs().max() > 1e-9) == seen


def test_last_gives_each_rows_last_token_only():
    model, rows = decoder(), [tokens(1, n, seed=n)[0] for n in (2, 6, 4)]
    ids, positions = padded(rows)
    whole, last = model(ids, positions=positions), model(ids, positions=positions, last=True)
    assert last.shape == (3, 1, 97)
    for row, length in enumerate((2, 6, 4)):
        torch.testing.assert_close(last[row, 0], whole[row, length - 1])
    torch.testing.assert_close(model(ids, last=True)[:, 0], model(ids)[:, -1])


def test_a_text_beyond_the_capacity_is_refused_and_nothing_is_written():
    model = decoder()
    cache = model.new_cache(2, 8)
    model(tokens(2, 6), cache)
    before = [buffer.clone() for layer in cache.buffers for buffer in layer]
    with pytest.raises(
        ValueError, match=r"need 9 slots \(6 held, 3 new\) and the cache has room for 8; use new_cache\(batch, capac"
    ):
        model(tokens(2, 3), cache)
    with pytest.raises(ValueError, match="row 1 needs 9 slots"):
        model(tokens(2, 3), cache, torch.tensor([[5, 6, 7], [6, 7, 8]]))
    assert cache.lengths == [6, 6]
    assert all(torch.equal(a, b) for a, b in zip(before, [b for layer in cache.buffers for b in layer], strict=True))
    model(tokens(2, 2), cache)  # exactly full
    assert cache.lengths == [8, 8]


@pytest.mark.parametrize(("positions", "words"), [
    ([[4, 5], [3, 4]], "row 0 holds 3 tokens, its next positions begin at 4; begin at 3 or before"),
    ([[3, 5], [3, 4]], "row 0 has positions [3, 5]...; use numbers that go up by one, and -1 for padding"),
    ([[3, 4], [-2, -1]], "row 1 has positions [-2]"),
    ([[3], [3]], "positions (2, 1) for tokens (2, 2)"),
])  # fmt: skip
def test_positions_that_leave_holes_are_refused(positions, words):
    model = decoder()
    cache = model.new_cache(2, 8)
    model(tokens(2, 3), cache)
    with pytest.raises(ValueError, match=re.escape(words)):
        model(tokens(2, 2), cache, torch.tensor(positions))


def test_wrong_batches_and_shapes_are_refused():
    model = decoder()
    with pytest.raises(ValueError, match=r"3 rows of tokens and a cache of 2; make it with new_cache\(3, capacity\)"):
        model(tokens(3, 2), model.new_cache(2, 8))
    with pytest.raises(ValueError, match=r"tokens have shape \(4,\); use \[batch, length\]"):
        model(tokens(1, 4)[0])
    with pytest.raises(ValueError, match="at least one token"):
        model(tokens(1, 0))
    with pytest.raises(ValueError, match="a cache of 0 rows"):
        model.new_cache(0, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_have_the_documented_names(kind):
    names = {name for name in Decoder(config(kind)).state_dict() if not name.startswith("layers.1")}
    layer = {"attention_norm.weight", "mlp_norm.weight", "gate.weight", "up.weight", "down.weight", "o.weight"}
    layer |= {"kv_down.weight", "kv_norm.weight", "kv_up.weight"} if "mla" in kind else {"k.weight", "v.weight"}
    layer |= {"q_down.weight", "q_norm.weight", "q_up.weight"} if "compressed" in kind else {"q.weight"}
    layer |= {"q_norm.weight", "k_norm.weight"} if kind == "qwen3" else set()
    layer |= {"q.bias", "k.bias", "v.bias"} if kind == "qwen2.5" else set()
    head = {"head.weight"} if "head apart" in kind else set()
    assert names == {f"layers.0.{name}" for name in layer} | {"embed.weight", "final_norm.weight"} | head


@pytest.mark.parametrize("kind", ["grouped", "mla"])
def test_it_can_be_trained(kind):
    model = Decoder(config(kind))
    ids = tokens(4, 16)
    loss = lambda: torch.nn.functional.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())  # noqa: E731
    optimizer, before = torch.optim.AdamW(model.parameters(), lr=1e-2), loss().item()
    for _ in range(8):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert all(weight.grad is not None for weight in model.parameters())
    assert loss().item() < before - 1


def test_autocast_norms_take_the_fused_kernel():
    """torch warns once a process where weight and input differ in dtype, and takes a slower way."""
    was = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings(), torch.autocast("cpu", dtype=torch.bfloat16):
            warnings.simplefilter("error")
            for kind in ("qwen3", "mla"):  # norms of what a product gave, in bfloat16
                assert decoder(kind)(tokens(1, 5)).isfinite().all()
    finally:
        torch.set_warn_always(was)


def test_fresh_weights_add_less_to_the_residual_stream_the_more_layers_there_are():
    model = Decoder(preset("course-target"))
    # 65,536 normal numbers and more: their spread is known to 1%
    for name in ("q", "gate"):
        assert getattr(model.layers[1], name).weight.std().item() == pytest.approx(0.02, rel=0.02)
    for name in ("o", "down"):
        assert getattr(model.layers[1], name).weight.std().item() == pytest.approx(0.02 / math.sqrt(2 * 6), rel=0.02)


def test_half_precision_gives_float32_logits():
    model = decoder().bfloat16()
    logits = model(tokens(1, 5))
    assert logits.dtype == torch.float32
    assert (logits - decoder()(tokens(1, 5))).abs().mean() < 0.2


def test_weight_bytes_of_a_step_leave_out_the_rows_of_an_untied_embedding():
    for name in ("course-target", "llama-3-8b"):
        shape = preset(name)
        from course_lib.model.load import empty

        expected = 4 * (shape.params - (0 if shape.tied else shape.vocab * shape.hidden))
        assert empty(shape).weight_bytes_per_step == expected
