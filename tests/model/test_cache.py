"""The dense cache: lengths, leftovers, and forgetting."""

import pytest
import torch

from course_lib.model.cache import DenseCache
from course_lib.model.paged_cache import paged_factory

from .tiny import decoder, tokens


@pytest.mark.parametrize("kind", ["grouped", "mla"])
def test_what_lies_beyond_a_rows_length_is_not_seen(kind):
    model, ids = decoder(kind), tokens(2, 9)
    clean, dirty = model.new_cache(2, 12), model.new_cache(2, 12)
    for buffer in (buffer for layer in dirty.buffers for buffer in layer):
        buffer.fill_(1e4)
    for cache in (clean, dirty):
        model(ids[:, :3], cache, torch.tensor([[0, 1, 2], [0, -1, -1]]))
    assert torch.equal(model(ids[:, 3:4], clean), model(ids[:, 3:4], dirty))


@pytest.mark.parametrize("kind", ["grouped", "mla"])
def test_a_rejected_guess_is_rolled_back(kind):
    """Truncated to different lengths, each row goes on as if the guess had never been."""
    model, ids = decoder(kind, dtype=torch.float64), tokens(2, 9)
    cache = model.new_cache(2, 12)
    model(ids, cache)
    cache.truncate([5, 7])
    assert cache.lengths == [5, 7]
    after = model(torch.tensor([[3, 4], [5, 6]]), cache)
    for row, kept in enumerate((5, 7)):
        alone = torch.cat((ids[row, :kept], torch.tensor([[3, 4], [5, 6]][row])))
        assert (after[row] - model(alone[None])[0, -2:]).abs().max() < 1e-10


def test_positions_before_the_end_overwrite_from_there():
    model, ids = decoder(dtype=torch.float64), tokens(1, 9)
    cache = model.new_cache(1, 12)
    model(ids, cache)
    again = model(torch.tensor([[3, 4]]), cache, torch.tensor([[4, 5]]))
    assert cache.lengths == [6]
    assert (again[0] - model(torch.cat((ids[:, :4], torch.tensor([[3, 4]])), 1))[0, -2:]).abs().max() < 1e-10


def test_a_row_cannot_be_cut_to_more_than_it_holds():
    model = decoder()
    cache = model.new_cache(2, 12)
    model(tokens(2, 4), cache)
    with pytest.raises(ValueError, match="row 1 holds 4 tokens and cannot be cut to 5; use 0 to 4"):
        cache.truncate([4, 5])
    assert cache.lengths == [4, 4]


def test_held_bytes_count_tokens_not_capacity():
    model = decoder("grouped")
    cache = model.new_cache(2, 100)
    assert cache.held_bytes == 0
    model(tokens(2, 3), cache, torch.tensor([[0, 1, 2], [0, -1, -1]]))
    assert cache.held_bytes == 4 * (2 * 2 * 2 * 16 * 4)  # tokens x layers x (k, v) x heads x dim x float32


@pytest.mark.parametrize("factory", [DenseCache, paged_factory(block_size=4)])
def test_two_models_at_once_cannot_share_a_cache(factory):
    """One KV head would be broadcast over the cache's two, and both models would go on without a word."""
    model, cache = decoder(), factory(decoder().config, 1, 12, torch.float32, torch.device("cpu"))
    for other in (decoder("multi-query"), decoder("mla"), decoder(head_dim=32)):
        with pytest.raises(ValueError, match=r"layer 0 writes .* this cache is for grouped, .* a cache of its own"):
            other(tokens(1, 3), cache)
    with pytest.raises(ValueError, match=r"layer 2 writes .* in 2 layers"):
        decoder(layers=3)(tokens(1, 3), cache)
    assert cache.lengths == [0]
    assert torch.equal(model(tokens(1, 3), cache), model(tokens(1, 3), model.new_cache(1, 12)))
