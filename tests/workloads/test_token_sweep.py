"""The sweep over tokens multiplies what it says, and takes another weight each time."""

from types import SimpleNamespace

import torch

from course_lib.workloads import token_sweep as sweep


def small(monkeypatch, weights=3):
    monkeypatch.setattr(sweep, "SIZE", 8)
    torch.manual_seed(0)
    return sweep.pool(weights, device="cpu", dtype=torch.float32)


def test_each_call_takes_the_next_weight_and_begins_again(monkeypatch):
    weights = small(monkeypatch)
    products = sweep.Products(5, weights)
    for i in (0, 1, 2, 0):
        torch.testing.assert_close(products().clone(), products.x @ weights[i])


def test_a_row_for_each_number_of_tokens_with_its_spread(monkeypatch):
    def fake_time(call, *, calls_per_graph):
        assert calls_per_graph >= sweep.POOL_WEIGHTS
        tokens = call().shape[0]
        return SimpleNamespace(median_seconds=2.0 * tokens, seconds=(3.0 * tokens, 2.0 * tokens, 1.0 * tokens))

    rows = sweep.token_sweep(fake_time, small(monkeypatch), tokens=(1, 4))
    assert rows == [(1, 2.0, 1.0, 3.0), (4, 8.0, 4.0, 12.0)]


def test_the_pool_is_larger_than_any_l2():
    assert sweep.POOL_WEIGHTS * sweep.SIZE**2 * 2 > 4 * 126e6  # a B200 reports 126 MB
