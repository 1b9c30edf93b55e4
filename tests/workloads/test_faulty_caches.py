"""Every call of a cache of exercise 2.11 counts, so that a test that goes on and on is ended."""

import pytest
import torch

from course_lib.workloads import faulty_caches
from course_lib.workloads.faulty_caches import HEAD_DIM, HEADS, TooManyCalls, cache_maker

TOKEN = torch.zeros(HEADS, HEAD_DIM)


def test_each_method_of_each_cache_counts():
    calls = [0]
    make = cache_maker(form=1, turn=2, seed=3, calls=calls)
    for cache in (make(4, 2), make(4, 2)):
        before = calls[0]
        for method, arguments in (("append", ("a", TOKEN, TOKEN)), ("gather", ("a", 0, 1)), ("pages", ("a",)), ("free", ("a",))):
            getattr(cache, method)(*arguments)
            before += 1
            assert calls[0] == before, method


def test_one_call_too_many_ends_a_test(monkeypatch):
    monkeypatch.setattr(faulty_caches, "MOST_CALLS", 2)
    cache = cache_maker(form=1, turn=2, seed=3)(4, 2)
    cache.append("a", TOKEN, TOKEN)
    cache.pages("a")
    with pytest.raises(TooManyCalls):
        cache.pages("a")
