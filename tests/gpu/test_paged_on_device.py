"""Paged attention on a CUDA device: shapes against float64, graphs that replay with new lengths, poisoned pools, same bits.

The whole file takes under a minute on an H200, most of it compiling.
"""

import random

import pytest
import torch

from course_lib.attention.cascade import cascade_decode, cascade_plan_for
from course_lib.attention.decode import contiguous_decode, paged_decode, plan_for
from course_lib.attention.paged_prefill import paged_prefill
from course_lib.attention.paged_reference import decode_reference, paged_reference
from course_lib.attention.paged_write import paged_write, turned
from tests.attention.paged_cases import assert_close, assert_lse, cache, queries

pytestmark = pytest.mark.gpu

BF16, FP16 = torch.bfloat16, torch.float16
# q_heads, kv_heads, head_dim, block_size, dtype
KINDS = [
    (32, 8, 128, 16, BF16), (32, 8, 128, 64, FP16), (14, 2, 64, 32, BF16), (8, 8, 80, 16, FP16), (40, 2, 96, 16, BF16),
    (16, 4, 256, 16, BF16), (71, 1, 64, 16, BF16),
]  # fmt: skip


def ids(kind):
    return f"{kind[0]}/{kind[1]} hd{kind[2]} block {kind[3]} {str(kind[4])[6:]}"


def made(lengths, kind):
    heads, kv_heads, dim, block, dtype = kind
    return cache(lengths, kv_heads, dim, block, dtype, device="cuda"), queries(len(lengths), heads, dim, dtype, device="cuda")


@pytest.mark.parametrize("kind", KINDS, ids=ids)
def test_decode_equals_the_oracle_for_random_lengths(kind):
    """Each kind with a few rows and a long one (cut into parts), then with many short rows (not cut); NaN around each token."""
    dice = random.Random(kind[2])
    for lengths in ([0, 1, kind[3], kind[3] + 1, 5003], [dice.randrange(1, 300) for _ in range(40)]):
        pool, q = made(lengths, kind)
        wanted, wanted_lse = decode_reference(q, pool.k, pool.v, pool.tables, lengths)
        for splits in ("auto", "even", "together"):
            plan = plan_for(q, pool.k, pool.tables, lengths, splits=splits)
            out, lse = paged_decode(q, pool.k, pool.v, pool.tables, plan=plan, return_lse=True)
            assert_close(out, wanted, kind[4])
            assert_lse(lse, wanted_lse)


def test_without_a_plan_lengths_and_tables_on_the_device_are_looked_at():
    pool, q = made([40, 7], KINDS[0])
    lengths = torch.tensor(pool.lengths, dtype=torch.int32, device="cuda")
    wanted, _ = decode_reference(q, pool.k, pool.v, pool.tables, pool.lengths)
    assert_close(paged_decode(q, pool.k, pool.v, pool.tables, lengths), wanted, BF16)
    assert_close(paged_decode(q, pool.k, pool.v, pool.tables, lengths, impl="dense"), wanted, BF16)
    with pytest.raises(ValueError, match="and the pool has blocks"):
        paged_decode(q, pool.k, pool.v, torch.full_like(pool.tables, 10_000), lengths)


def test_a_captured_graph_replays_with_changed_lengths():
    """One capture; plan.update and new queries between replays: no cut, many cuts, empty rows, full tables."""
    longest = [4000, 900, 16, 3000, 1, 2047, 33, 128]
    pool, q = made(longest, KINDS[0])
    plan = plan_for(q, pool.k, pool.tables, [1] * 8)
    paged_decode(q, pool.k, pool.v, pool.tables, plan=plan)
    plan.update(longest)  # compile the merge before the capture
    paged_decode(q, pool.k, pool.v, pool.tables, plan=plan)
    plan.update([1] * 8)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out, lse = paged_decode(q, pool.k, pool.v, pool.tables, plan=plan, return_lse=True)
    cut = 0
    for lengths in ([1] * 8, longest, [0] * 8, [4000] + [0] * 7, [17, 900, 1, 2999, 0, 64, 33, 5], longest):
        plan.update(lengths)
        q.normal_()
        graph.replay()
        wanted, wanted_lse = decode_reference(q, pool.k, pool.v, pool.tables, lengths)
        assert_close(out, wanted, BF16)
        assert_lse(lse, wanted_lse)
        cut += bool(len(plan.list.merges))
    assert 0 < cut < 6


def test_updates_in_quick_succession_do_not_overtake_each_other():
    """The host is ahead of the device: each launch still sees the lengths of its own update."""
    pool, q = made([2000] * 4, KINDS[0])
    plan = plan_for(q, pool.k, pool.tables, [1] * 4)
    steps = [[(7 * step + 31 * row) % 2000 + 1 for row in range(4)] for step in range(12)]
    torch.cuda._sleep(20_000_000)
    results = []
    for lengths in steps:
        plan.update(lengths)
        results.append(paged_decode(q, pool.k, pool.v, pool.tables, plan=plan))
    for lengths, out in zip(steps, results, strict=True):
        assert_close(out, decode_reference(q, pool.k, pool.v, pool.tables, lengths)[0], BF16)


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[1]], ids=ids)
def test_repeated_runs_give_the_same_bits(kind):
    pool, q = made([9000, 17, 400], kind)
    plan = plan_for(q, pool.k, pool.tables, pool.lengths, splits="even")
    first = [x.clone() for x in plan.run(q, pool.k, pool.v, pool.tables)]
    for _ in range(20):
        assert all(torch.equal(a, b) for a, b in zip(first, plan.run(q, pool.k, pool.v, pool.tables), strict=True))


def test_contiguous_and_paged_give_the_same_bits():
    k, v = (torch.randn(3, 1024, 8, 128, device="cuda", dtype=BF16) for _ in range(2))
    q = torch.randn(3, 32, 128, device="cuda", dtype=BF16)
    tables = torch.arange(3 * 64, dtype=torch.int32, device="cuda").view(3, 64)
    pools = [x.view(-1, 16, 8, 128) for x in (k, v)]
    lengths = [1024, 1000, 3]
    assert torch.equal(contiguous_decode(q, k, v, lengths), paged_decode(q, *pools, tables, lengths))


def test_blocks_beyond_2_to_the_31_elements_are_found():
    blocks = 2**31 // (16 * 8 * 128) + 64
    if torch.cuda.mem_get_info()[0] < 12e9:
        pytest.skip("needs 12 GB of free memory")
    pools = [torch.empty(blocks, 16, 8, 128, device="cuda", dtype=BF16) for _ in range(2)]
    last = torch.arange(blocks - 8, blocks, device="cuda")
    small = [torch.randn(8, 16, 8, 128, device="cuda", dtype=BF16) for _ in range(2)]
    for pool, part in zip(pools, small, strict=True):
        pool[last] = part
    q = torch.randn(1, 32, 128, device="cuda", dtype=BF16)
    near = torch.arange(8, dtype=torch.int32, device="cuda")[None]
    far = near + (blocks - 8)
    assert torch.equal(paged_decode(q, *pools, far, [120]), paged_decode(q, *small, near, [120]))
    slot = torch.tensor([blocks * 16 - 1], device="cuda")
    paged_write(small[0][:1, 0], small[1][:1, 0], *pools, slot)
    assert torch.equal(pools[0][-1, -1], small[0][0, 0])


@pytest.mark.parametrize(
    ("kind", "causal"), [(KINDS[0], True), (KINDS[0], False), (KINDS[2], True), (KINDS[5], True)], ids=lambda x: str(x)
)  # fmt: skip
def test_prefill_equals_the_oracle(kind, causal):
    new, lengths = [300, 1, 0, 17, 5], [700, 1, 40, 17, 3]
    pool, _ = made(lengths, kind)
    q = queries(sum(new), kind[0], kind[2], kind[4], device="cuda")
    cu = torch.tensor([0, *new], device="cuda").cumsum(0).to(torch.int32)
    on_device = torch.tensor(lengths, dtype=torch.int32, device="cuda")
    out, lse = paged_prefill(q, cu, pool.k, pool.v, pool.tables, on_device, causal=causal, max_q=300, return_lse=True)
    wanted, wanted_lse = paged_reference(q, cu, pool.k, pool.v, pool.tables, lengths, causal=causal)
    assert_close(out, wanted, kind[4])
    assert_lse(lse, wanted_lse)


def test_a_prefill_that_does_not_look_is_told_how_many_tokens_a_row_has():
    pool, lengths = made([20], KINDS[0])[0], torch.tensor([20], dtype=torch.int32, device="cuda")
    q, cu = queries(2, KINDS[0][0], KINDS[0][2], BF16, device="cuda"), torch.tensor([0, 2], dtype=torch.int32, device="cuda")
    with pytest.raises(ValueError, match="max_q is 0 for 2 rows of q"):
        paged_prefill(q, cu, pool.k, pool.v, pool.tables, lengths, max_q=0)


def test_a_prompt_in_chunks_equals_the_prompt_at_once():
    pool, _ = made([200], KINDS[0])
    q = queries(200, 32, 128, BF16, device="cuda")
    wanted, _ = paged_reference(q, [0, 200], pool.k, pool.v, pool.tables, [200])
    for chunk in (3, 16, 17, 64):
        for start in range(0, 200, chunk):
            stop = min(start + chunk, 200)
            cu, seen = (torch.tensor(x, dtype=torch.int32, device="cuda") for x in ([0, stop - start], [stop]))
            out = paged_prefill(q[start:stop], cu, pool.k, pool.v, pool.tables, seen, max_q=stop - start)
            assert_close(out, wanted[start:stop], BF16)


@pytest.mark.parametrize("kind", [KINDS[0], KINDS[5]], ids=ids)
def test_cascade_equals_flat_decode(kind):
    block = kind[3]
    pool, q = made([64 * block + n for n in (1, 200, 0, 33)] + [64 * block + 5] * 30, kind)
    pool.tables[:, :64] = pool.tables[:1, :64]
    plan = cascade_plan_for(q, pool.k, pool.tables, pool.lengths, 64 * block)
    out, lse = cascade_decode(q, pool.k, pool.v, pool.tables, plan=plan, return_lse=True)
    wanted, wanted_lse = decode_reference(q, pool.k, pool.v, pool.tables, pool.lengths)
    assert_close(out, wanted, kind[4])
    assert_lse(lse, wanted_lse)


@pytest.mark.parametrize("dtype", [BF16, FP16])
@pytest.mark.parametrize(("q_heads", "kv_heads", "dim"), [(32, 8, 128), (14, 2, 64), (5, 1, 80)])
def test_the_write_turns_and_places_as_torch_does(q_heads, kv_heads, dim, dtype):
    tokens = 300
    q, k, v = (torch.randn(tokens, n, dim, device="cuda").to(dtype) for n in (q_heads, kv_heads, kv_heads))
    pools = [torch.full((64, 16, kv_heads, dim), float("nan"), device="cuda", dtype=dtype) for _ in range(2)]
    slots = torch.randperm(1024, device="cuda")[:tokens]
    slots[::7] = -1
    frequency = 10000.0 ** (-torch.arange(0, dim, 2, device="cuda") / dim)
    angle = torch.randint(1000, 100_000, (tokens, 1), device="cuda") * frequency
    cos, sin = angle.cos(), angle.sin()
    found = paged_write(k, v, *pools, slots, cos=cos, sin=sin, q=q)
    live = slots >= 0
    close = {"rtol": 2 * torch.finfo(dtype).eps, "atol": 1e-5}
    torch.testing.assert_close(found, turned(q, cos, sin), **close)
    torch.testing.assert_close(pools[0].flatten(0, 1)[slots[live]], turned(k, cos, sin)[live], **close)
    assert torch.equal(pools[1].flatten(0, 1)[slots[live]], v[live])
    assert int(pools[1].flatten(0, 1)[:, 0, 0].isnan().sum()) == 1024 - int(live.sum())


def test_nothing_in_a_planned_step_waits_for_the_device():
    pool, q = made([400, 30], KINDS[0])
    plan = plan_for(q, pool.k, pool.tables, pool.lengths)
    plan.run(q, pool.k, pool.v, pool.tables)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        plan.run(q, pool.k, pool.v, pool.tables)
        paged_decode(q, pool.k, pool.v, pool.tables, plan=plan)
    finally:
        torch.cuda.set_sync_debug_mode("default")
