"""Paged decode equals the float64 oracle, reads each live element once and nothing else, and says what it refuses."""

import pytest
import torch

from course_lib import interpreter
from course_lib.attention.decode import contiguous_decode, paged_decode, plan_for
from course_lib.attention.decode_plan import DecodePlan
from course_lib.attention.decode_tile import DecodeTile
from course_lib.attention.paged_reference import decode_reference

from .paged_cases import assert_close, assert_lse, cache, queries

SMALL = DecodeTile(32, 4, 3, 3)

# lengths, q_heads, kv_heads, head_dim, block_size, dtype
CASES = [
    ([33, 0, 1, 150], 8, 2, 64, 16, torch.float32),
    ([47, 16], 4, 4, 80, 32, torch.bfloat16),
    ([129, 64, 65], 7, 1, 128, 64, torch.float16),
    ([15, 70], 6, 2, 96, 16, torch.float16),
    ([31, 70], 20, 1, 256, 32, torch.bfloat16),
]


@pytest.mark.parametrize("splits", ["auto", "even", "together"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[1]}/{c[2]} hd{c[3]} block {c[4]}")
def test_the_kernel_equals_the_oracle(case, splits):
    lengths, heads, kv_heads, dim, block, dtype = case
    pool, q = cache(lengths, kv_heads, dim, block, dtype), queries(len(lengths), heads, dim, dtype)
    plan = plan_for(q, pool.k, pool.tables, lengths, tile=SMALL, splits=splits, programs=5)
    assert len(plan.list.merges) or splits != "even"
    out, lse = paged_decode(q, pool.k, pool.v, pool.tables, lengths, plan=plan, return_lse=True, impl="triton")
    wanted, wanted_lse = decode_reference(q, pool.k, pool.v, pool.tables, lengths)
    assert_close(out, wanted, dtype)
    assert_lse(lse, wanted_lse)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[1]}/{c[2]} hd{c[3]} block {c[4]}")
def test_the_dense_path_equals_the_oracle(case):
    lengths, heads, kv_heads, dim, block, dtype = case
    pool, q = cache(lengths, kv_heads, dim, block, dtype), queries(len(lengths), heads, dim, dtype)
    on_device = torch.tensor(lengths, dtype=torch.int32)
    out, lse = paged_decode(q, pool.k, pool.v, pool.tables, on_device, return_lse=True, impl="dense")
    wanted, wanted_lse = decode_reference(q, pool.k, pool.v, pool.tables, lengths)
    assert_close(out, wanted, dtype)
    assert_lse(lse, wanted_lse)


def test_on_a_cpu_auto_is_the_dense_path():
    pool, q = cache([20], 1, 64, 16), queries(1, 2, 64)
    with interpreter.ledger() as book:
        paged_decode(q, pool.k, pool.v, pool.tables, [20])
    assert not book.launches


@pytest.mark.parametrize("splits", ["whole", "even", "together"])
def test_each_live_element_is_read_once_and_no_dead_one(splits):
    """The interpreter counts bytes asked for and bytes at different addresses; both are those of the live tokens."""
    pool, q = cache([75, 0, 130, 16], 2, 64, 16, torch.bfloat16), queries(4, 8, 64, torch.bfloat16)
    plan = plan_for(q, pool.k, pool.tables, pool.lengths, splits=splits, programs=5, tile=SMALL)
    with interpreter.ledger() as book:
        plan.run(q, pool.k, pool.v, pool.tables)
    decode, *merge = book.launches
    for name in ("k_ptr", "v_ptr"):
        read = decode.arguments[name]
        assert read.loaded_bytes == read.distinct_loaded_bytes == pool.live_bytes
    assert len(merge) == (splits != "whole")
    parts = decode.arguments["part_ptr"].stored_bytes if "part_ptr" in decode.arguments else 0
    assert parts == plan.list.slots * 4 * 64 * 4  # 4 heads of 64 floats: what is not cut is written at once
    assert decode.arguments["out_ptr"].stored_bytes + sum(m.arguments["out_ptr"].stored_bytes for m in merge) == 4 * 8 * 64 * 2


def test_a_query_head_reads_its_own_group():
    """28 heads over 4: head h reads KV head h // 7. Each KV head holds its own number."""
    k = torch.zeros(2, 16, 4, 64)
    v = torch.arange(4.0)[None, None, :, None].expand(2, 16, 4, 64).contiguous()
    tables = torch.tensor([[1]], dtype=torch.int32)
    out = paged_decode(queries(1, 28, 64), k, v, tables, [9], impl="triton")
    assert out[0, :, 0].tolist() == [float(h // 7) for h in range(28)]


def test_a_very_negative_score_still_wins_alone():
    k, v = torch.full((1, 16, 1, 64), -20000.0 / 64), queries(16, 1, 64)[None]
    out = paged_decode(torch.full((1, 1, 64), 8.0), k, v, torch.zeros(1, 1, dtype=torch.int32), [1], impl="triton")
    torch.testing.assert_close(out[0], v[0, 0])


def test_an_updated_plan_writes_the_same_buffers():
    pool, q = cache([50, 90, 10], 2, 64, 16), queries(3, 4, 64)
    plan = plan_for(q, pool.k, pool.tables, [0, 0, 0], tile=SMALL, splits="even")
    address = plan.work.data_ptr(), plan.parts.data_ptr(), plan.programs
    for lengths in ([50, 90, 10], [1, 17, 10], [50, 0, 0], [0, 0, 0]):
        plan.update(lengths)
        out, lse = paged_decode(q, pool.k, pool.v, pool.tables, plan=plan, return_lse=True, impl="triton")
        wanted, wanted_lse = decode_reference(q, pool.k, pool.v, pool.tables, lengths)
        assert_close(out, wanted, torch.float32)
        assert_lse(lse, wanted_lse)
    assert address == (plan.work.data_ptr(), plan.parts.data_ptr(), plan.programs)


def test_more_programs_than_tiles_and_one_program():
    pool, q = cache([40], 1, 64, 16), queries(1, 2, 64)
    wanted, _ = decode_reference(q, pool.k, pool.v, pool.tables, [40])
    for programs in (1, 2, 50):
        plan = plan_for(q, pool.k, pool.tables, [40], tile=DecodeTile(16, 4, 3, 3), splits="even", programs=programs)
        assert_close(plan.run(q, pool.k, pool.v, pool.tables)[0], wanted, torch.float32)


def test_more_parts_than_are_merged_at_a_time_and_the_largest_score_in_the_last():
    """20 parts in steps of 16: what was merged first has to shrink when the last tokens outweigh it."""
    pool, q = cache([320], 1, 64, 16), queries(1, 2, 64)
    last = int(pool.tables[0, 19])
    pool.k[last] = 2 * q[0, :1]
    plan = plan_for(q, pool.k, pool.tables, [320], tile=DecodeTile(16, 4, 3, 3), splits="even", programs=20)
    assert plan.list.merges[0, 4] == 20
    out, lse = plan.run(q, pool.k, pool.v, pool.tables)
    wanted, wanted_lse = decode_reference(q, pool.k, pool.v, pool.tables, [320])
    assert_close(out, wanted, torch.float32)
    assert_lse(lse, wanted_lse)


def test_contiguous_and_paged_give_the_same_bits():
    k, v, q = (torch.randn(2, 64, n, 64, generator=torch.Generator().manual_seed(n)) for n in (2, 3, 5))
    v, q = torch.randn_like(k), q[:, 0, :4]
    tables = torch.arange(8, dtype=torch.int32).view(2, 4)
    flat, lse = contiguous_decode(q, k, v, [64, 33], return_lse=True)
    paged, paged_lse = paged_decode(
        q, k.view(8, 16, 2, 64), v.view(8, 16, 2, 64), tables, [64, 33], return_lse=True, impl="triton"
    )
    assert torch.equal(flat, paged)
    assert torch.equal(lse, paged_lse)


def test_out_is_written_and_lse_has_the_shape_of_q():
    pool, q = cache([20, 5], 1, 64, 16), queries(2, 2, 64)[:, None]
    for impl in ("triton", "dense"):
        out = torch.empty_like(q)
        result, lse = paged_decode(q, pool.k, pool.v, pool.tables, [20, 5], out=out, return_lse=True, impl=impl)
        assert result is out
        assert lse.shape == (2, 2, 1)
        assert_close(out[:, 0], decode_reference(q[:, 0], pool.k, pool.v, pool.tables, [20, 5])[0], torch.float32)


@pytest.mark.parametrize("impl", ["triton", "dense"])
def test_an_empty_batch_is_an_empty_result(impl):
    pool = cache([5], 1, 64, 16)
    out, lse = paged_decode(queries(0, 2, 64), pool.k, pool.v, pool.tables[:0], [], return_lse=True, impl=impl)
    assert (out.shape, lse.shape) == ((0, 2, 64), (0, 2))


def refused(error, words, *, q=None, impl="triton", **changes):
    pool, lengths = cache([20, 5], 2, 64, 16), changes.pop("lengths", [20, 5])
    tensors = {"k": pool.k, "v": pool.v, "tables": pool.tables} | {k: v for k, v in changes.items() if k in ("k", "v", "tables")}
    rest = {k: v for k, v in changes.items() if k not in tensors}
    with pytest.raises(error, match=words):
        paged_decode(queries(2, 4, 64) if q is None else q, *tensors.values(), lengths, impl=impl, **rest)


@pytest.mark.parametrize("impl", ["triton", "dense"])
def test_bad_values_are_refused_with_the_numbers(impl):
    tables = cache([20, 5], 2, 64, 16).tables
    outside = tables.clone()
    outside[0, 1] = 99
    refused(ValueError, r"row 0, entry 1 is 99, and the pool has blocks 0\.\.5", tables=outside, impl=impl)
    missing = tables.clone()
    missing[1, 0] = -1
    refused(ValueError, "row 1, entry 0 is -1", tables=missing, impl=impl)
    refused(ValueError, r"row 1 has 49 tokens, and its table holds 48 \(3 blocks of 16\)", lengths=[20, 49], impl=impl)
    refused(ValueError, "row 0 has -1 tokens", lengths=[-1, 5], impl=impl)
    refused(ValueError, "3 kv_lengths for 2 rows", lengths=[1, 2, 3], impl=impl)
    refused(ValueError, "kv_lengths says how many", lengths=None, impl=impl)
    refused(ValueError, "impl is", impl="fast")


def test_bad_shapes_dtypes_and_strides_are_refused_with_the_numbers():
    pool, q = cache([20, 5], 2, 64, 16), queries(2, 4, 64)
    refused(ValueError, "5 query heads do not divide over 2 KV heads", q=queries(2, 5, 64))
    refused(TypeError, "one dtype, got torch.float16, torch.float32", q=q.half())
    refused(ValueError, "head_dim of q is 128, that of K and V 64", q=queries(2, 4, 128))
    refused(ValueError, "takes q", q=queries(2, 4, 64)[:, :, None])
    refused(ValueError, r"head_dim stride of 1 and the same strides", k=pool.k.mT.contiguous().mT)
    refused(ValueError, "int32", tables=pool.tables.long())
    refused(ValueError, "q has 3 rows, the block tables have 2", q=queries(3, 4, 64))
    refused(ValueError, "out must be", out=torch.empty(2, 4, 65))
    refused(ValueError, "at most 128 with head_dim 64 query heads for each KV head, got 129", q=queries(2, 258, 64))
    odd = cache([20, 5], 2, 64, 8)
    refused(ValueError, "block_size 8 is not supported", k=odd.k, v=odd.v, tables=odd.tables)
    odd = cache([20, 5], 2, 40, 16)
    refused(ValueError, "head_dim 40 is not supported", q=queries(2, 4, 40), k=odd.k, v=odd.v, tables=odd.tables)


def test_a_plan_refuses_other_shapes_and_bad_lengths_change_nothing():
    pool, q = cache([20, 5], 2, 64, 16), queries(2, 4, 64)
    plan = plan_for(q, pool.k, pool.tables, [20, 5])
    before = plan.work.clone()
    for bad in ([20, 49], [20, -1], [20], [1.5, 2.0]):
        with pytest.raises(ValueError, match=r"row 1|2 rows|whole numbers"):
            plan.update(bad)
    assert torch.equal(plan.work, before)
    assert list(plan.lengths) == [20, 5]
    with pytest.raises(ValueError, match="planned for"):
        plan.run(queries(2, 8, 64), pool.k, pool.v, pool.tables)
    with pytest.raises(ValueError, match="one for contiguous K and V none"):
        plan.run(q, pool.k, pool.v)
    with pytest.raises(ValueError, match=r"block tables are \(2, 2\)"):
        plan.run(q, pool.k, pool.v, pool.tables[:, :2].contiguous())
    with pytest.raises(ValueError, match="are not those of the plan"):
        paged_decode(q, pool.k, pool.v, pool.tables, [19, 5], plan=plan, impl="triton")
    plan.check_tables(pool.tables, len(pool.k))
    with pytest.raises(ValueError, match="and the pool has blocks"):
        plan.check_tables(pool.tables, 1)
    with pytest.raises(TypeError, match="bfloat16 and float16"):
        DecodePlan.plan([3], q_heads=2, kv_heads=1, head_dim=64, block_size=16, max_len=32, dtype=torch.float64, device="cpu")
