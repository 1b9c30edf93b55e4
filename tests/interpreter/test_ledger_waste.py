"""A wasteful kernel is told by how much and on which line, as numbers, beside a kernel that gives the same answer for less."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from course_lib.interpreter import ledger

from .kernels.flash import flash
from .kernels.waste import attention_by_row, fused, sum_rows, unfused
from .ledger_helpers import QUICK, line


@QUICK
@given(n=st.integers(1, 20), k=st.integers(1, 300))
def test_dequantisation_in_a_pass_of_its_own_costs_five_bytes_a_weight_and_not_one(n, k):
    torch.manual_seed(n * 1000 + k)
    w, scale = torch.randint(-127, 128, (n, k), dtype=torch.int8), torch.rand(n)
    x = torch.randn(k).half()
    with ledger() as slow:
        expected = unfused(w, scale, x)
    with ledger() as quick:
        found = fused(w, scale, x)
    assert torch.equal(found, expected)
    first, second = slow.launches
    (only,) = quick.launches
    weights, rest = n * k, 4 * n + 2 * n * k + 4 * n  # scales, x for each row, results
    assert only.total.bytes == weights + rest
    assert slow.total.bytes == 5 * weights + rest
    assert line(first, "tl.store(").stored_bytes == line(second, "w = tl.load(").loaded_bytes == 2 * weights
    assert first.arguments["out_ptr"].distinct_stored_bytes == second.arguments["w_ptr"].distinct_loaded_bytes == 2 * weights


def test_attention_by_row_reads_keys_and_values_once_for_each_query():
    q, k, v = (torch.randn(rows, 32) for rows in (40, 50, 50))
    with ledger() as slow:
        out = attention_by_row(q, k, v)
    with ledger() as tiled:
        better = flash(*(t[None, :, None, :] for t in (q, k, v)), bm=16, bn=16)[0, :, 0]
    # float32 with sums of at most 50 terms in another order: some 10 roundings of 2**-24
    torch.testing.assert_close(out, better, rtol=1e-5, atol=1e-6)
    (slow,), (tiled,) = slow.launches, tiled.launches
    for text, name in (("k = tl.load(", "k_ptr"), ("v = tl.load(", "v_ptr")):
        wasted, needed = line(slow, text), line(tiled, text)
        assert wasted == slow.arguments[name]
        assert (wasted.rereads, needed.rereads) == (40.0, 3.0)
        assert wasted.loaded_bytes == 40 * 50 * 32 * 4
        assert wasted.distinct_loaded_bytes == needed.distinct_loaded_bytes == 50 * 32 * 4
    assert line(slow, "q = tl.load(").rereads == 1.0
    assert max(slow.lines, key=lambda place: slow.lines[place].bytes).text.startswith(("k = tl.load(", "v = tl.load("))


def test_loads_a_row_apart_use_one_element_of_each_sector():
    x = torch.randn(64, 128)
    with ledger() as strided:
        out = sum_rows(x, along=False)
    with ledger() as along:
        better = sum_rows(x, along=True)
    torch.testing.assert_close(out, better, rtol=1e-5, atol=1e-5)  # 128 terms of size 1 in another order
    bad, good = line(strided.launches[0], "total += tl.load("), line(along.launches[0], "tile = tl.load(")
    assert bad.loaded_bytes == good.loaded_bytes == bad.distinct_loaded_bytes == 64 * 128 * 4
    assert (bad.coalescing, good.coalescing) == (4 / 32, 1.0)
    assert bad.sectors_loaded == 8 * good.sectors_loaded == 64 * 128
    assert strided.total.distinct_bytes == along.total.distinct_bytes
    assert strided.launches[0].flops == along.launches[0].flops == 64 * 128
