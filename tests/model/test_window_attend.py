"""A window with sinks over a whole text sees what a ring cache holds, at the distances that its ranks say."""

import pytest
import torch

from course_lib.kvcache import BlockPool, RingCache
from course_lib.model import window_attend
from course_lib.model.attend import attend_reference
from course_lib.model.rope import inverse_frequencies, rotate, turns
from course_lib.model.span import Span
from course_lib.model.window_attend import WindowAttend

from .tiny import config, decoder, tokens

LENGTH = 23


def drawn(length=LENGTH):
    made = torch.Generator().manual_seed(4)
    shapes = ((2, length, 4, 16), (2, length, 2, 16), (2, length, 2, 16))
    return [torch.randn(shape, generator=made, dtype=torch.float64) for shape in shapes]


def turned(x, positions):
    return rotate(x, *turns(torch.tensor([positions]), inverse_frequencies(config()), x.dtype))


def by_hand(q, k, v, window, sinks, positions):
    """Each query alone, over what a RingCache with so many tokens holds, everything rotated by position or by rank."""
    out = []
    ring = RingCache(BlockPool(16, 4), window, sinks)
    for p in range(q.shape[1]):
        ring.append(1)
        live = ring.live()
        places = [one.position if positions == "text" else one.rank for one in live]
        kept = [one.position for one in live]
        mine = Span(torch.tensor([[len(kept) - 1]]), len(kept), start=len(kept) - 1)
        at = p if positions == "text" else places[-1]
        out.append(attend_reference(turned(q[:, p : p + 1], [at]), turned(k[:, kept], places), v[:, kept], mine, 0.25))
    return torch.cat(out, dim=1)


@pytest.mark.parametrize("positions", ["text", "rank"])
@pytest.mark.parametrize(("window", "sinks"), [(1, 0), (5, 0), (5, 1), (5, 4), (4, 7), (40, 3), (5, 30)])
def test_it_sees_what_a_ring_cache_holds(window, sinks, positions, monkeypatch):
    q, k, v = drawn()
    text = list(range(LENGTH))
    span = Span(torch.arange(LENGTH)[None], LENGTH, start=0)
    expected = by_hand(q, k, v, window, sinks, positions)
    for chunk in (3, 8, 64):
        monkeypatch.setattr(window_attend, "CHUNK", chunk)
        got = WindowAttend(config(), window, sinks, positions)(turned(q, text), turned(k, text), v, span, 0.25)
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)  # angles are float32


def test_a_window_of_the_whole_text_is_the_model_as_it_was():
    model = decoder("grouped")
    ids = tokens(2, LENGTH)
    plain = model(ids)
    for window, sinks in ((None, 0), (LENGTH, 0), (LENGTH, 4)):
        windowed = decoder("grouped", parts=None)
        windowed.parts = type(windowed.parts)(attend=WindowAttend(windowed.config, window, sinks))
        torch.testing.assert_close(windowed(ids), plain, rtol=1e-4, atol=1e-4)
    windowed.parts = type(windowed.parts)(attend=WindowAttend(windowed.config, LENGTH - 1))
    changed = (windowed(ids) - plain).abs().amax((0, 2))
    assert changed[:-1].max() < 1e-4  # only the last token's window leaves a key out
    assert changed[-1] > 1e-2


def test_a_model_with_a_window_of_its_own_agrees():
    model, same = decoder("window"), decoder("window")  # sliding_window 5
    same.parts = type(same.parts)(attend=WindowAttend(same.config, 5))
    ids = tokens(1, LENGTH)
    torch.testing.assert_close(same(ids), model(ids), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bad", [{"window": 0}, {"window": 4, "sinks": -1}, {"window": 4, "positions": "slot"}])
def test_strange_windows_are_refused(bad):
    with pytest.raises(ValueError, match="use at least 1"):
        WindowAttend(config(), **bad)


def test_a_step_that_goes_on_from_a_cache_is_refused():
    model = decoder()
    model.parts = type(model.parts)(attend=WindowAttend(model.config, 4))
    cache = model.new_cache(1, 8)
    model(tokens(1, 3), cache)
    with pytest.raises(ValueError, match="without a cache"):
        model(tokens(1, 1), cache)
