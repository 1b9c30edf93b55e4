"""A step that dies between two layers leaves slots without keys and values: nobody may find them, fork them or count them."""

import pytest
import torch

from course_lib.model import Parts
from course_lib.model.paged_cache import PagedCache
from course_lib.model.paged_store import PagedStore

from .tiny import decoder, tokens


class Interrupted(PagedCache):
    """The second layer of a step never comes."""

    def append(self, layer, new, span):
        if layer:
            raise KeyboardInterrupt
        return super().append(layer, new, span)


@torch.inference_mode()
def half_a_step():
    """6 tokens of "a" are written in all layers, 5 more in the first one only; blocks of 4."""
    model, ids = decoder(dtype=torch.float64, parts=Parts()), tokens(1, 11)
    store = PagedStore(model.config, num_blocks=16, block_size=4, dtype=torch.float64)
    for tensor in (tensor for layer in store.storage.tensors for tensor in layer):
        tensor.fill_(torch.nan)
    store.begin("a")
    model(ids[:, :6], PagedCache(store, ["a"]))
    with pytest.raises(KeyboardInterrupt):
        model(ids[:, 6:], Interrupted(store, ["a"]))
    assert store.tables.length("a") == 11
    return model, ids, store


def test_slots_of_a_dead_step_are_not_published():
    _, ids, store = half_a_step()
    text = ids[0].tolist()
    assert store.publish("a", text) == 1
    assert store.begin("b", text) == 4
    store.check()


@torch.inference_mode()
def test_who_goes_on_after_a_dead_step_goes_on_from_what_is_written():
    model, ids, store = half_a_step()
    store.fork("a", "b")
    assert [store.written(seq) for seq in "ab"] == [6, 6]
    cache = PagedCache(store, ["a", "b"])
    assert cache.lengths == [6, 6]
    found = model(ids[:, 6:].expand(2, -1), cache)
    torch.testing.assert_close(found, model(ids)[:, 6:].expand(2, -1, -1), rtol=0, atol=1e-10)
    assert [store.written(seq) for seq in "ab"] == [11, 11]
    assert store.publish("a", ids[0].tolist()) == 2
    store.check()


def test_a_sequence_that_cannot_begin_holds_nothing():
    _, ids, store = half_a_step()
    store.publish("a", ids[0].tolist())
    with pytest.raises(TypeError, match="unhashable"):
        store.begin(["b"], ids[0].tolist())
    store.free("a")
    store.check()
    assert store.pool.num_held == 0


def test_a_second_dead_step_and_a_reused_name_are_counted_from_what_is_written():
    _, _, store = half_a_step()
    store.begin_step({"a": 2})
    assert (store.tables.length("a"), store.written("a")) == (13, 6)
    store.free("a")
    store.begin("a")
    store.extend({"a": 9})
    assert store.written("a") == 9
