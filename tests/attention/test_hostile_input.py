"""What would be wrong without a word is refused: lost gradients, shared memory, scales, dtypes, plans of others, captures."""

import re

import numpy
import pytest
import torch

from course_lib.attention import (
    DecodePlan,
    cascade_decode,
    contiguous_decode,
    decode_reference,
    flash_attention,
    flash_attention_packed,
    gather_blocks,
    paged_decode,
    split_work,
)
from course_lib.attention.paged_prefill import paged_prefill
from course_lib.attention.paged_write import paged_write

BOTH = pytest.mark.parametrize("impl", ["triton", "dense"])


def int32(*values):
    return torch.tensor(values, dtype=torch.int32)


class Dense:
    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.q, self.k, self.v = (torch.randn(1, rows, 2, 64) for rows in (3, 5, 5))

    def __call__(self, **options):
        return flash_attention(self.q, self.k, self.v, **options)


class Packed(Dense):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v = self.q[0], self.k[0], self.v[0]

    def __call__(self, **options):
        return flash_attention_packed(self.q, self.k, self.v, int32(0, 3), int32(0, 5), max_q=3, max_k=5, **options)


class Paged:
    """Rows of 20, 0 and 32 tokens."""

    lengths = (20, 0, 32)

    def __init__(self, seed=0):
        torch.manual_seed(seed)
        self.q, self.k, self.v = torch.randn(3, 4, 64), torch.randn(6, 16, 2, 64), torch.randn(6, 16, 2, 64)
        self.tables = int32(*[[0, 1], [2, -1], [3, 4]])

    def __call__(self, *, tables=None, **options):
        tables = self.tables if tables is None else tables
        lengths = options.pop("kv_lengths", None if "plan" in options else self.lengths)
        return paged_decode(self.q, self.k, self.v, tables, lengths, **options)

    def plan(self, *, lengths=lengths, **more):
        shape = {"q_heads": 4, "kv_heads": 2, "head_dim": 64, "block_size": 16, "max_len": 32, "dtype": torch.float32} | more
        return DecodePlan.plan(lengths, device="cpu", **shape)


class Prefill(Paged):
    def __call__(self, **options):
        return paged_prefill(self.q, int32(0, 1, 1, 3), self.k, self.v, self.tables, int32(*self.lengths), **options)


class Cascade(Paged):
    def __call__(self, *, shared_tokens=0, **options):
        return cascade_decode(self.q, self.k, self.v, self.tables, self.lengths, shared_tokens=shared_tokens, **options)


EVERY = pytest.mark.parametrize("kind", [Dense, Packed, Paged, Prefill, Cascade])


@EVERY
@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_gradient_is_right_or_refused(kind, name):
    """The kernels write what autograd does not see: a loss with another path to the weights would miss this one silently."""
    case = kind()
    setattr(case, name, getattr(case, name).requires_grad_())
    with pytest.raises(RuntimeError, match=r"no backward pass.*torch\.no_grad\(\), or impl='dense'"):
        case(impl="triton")
    with torch.no_grad():
        case(impl="triton")
    assert case(impl="auto").requires_grad


@EVERY
@BOTH
@pytest.mark.parametrize("scale", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_a_scale_that_is_none_is_refused_everywhere(kind, impl, scale):
    with pytest.raises(ValueError, match="scale must be a finite number above 0"):
        kind()(scale=scale, impl=impl)


def test_a_scale_of_numpy_is_a_scale():
    torch.testing.assert_close(Dense()(scale=numpy.float32(0.125)), Dense()())


@EVERY
@pytest.mark.parametrize("dtype", [torch.float64, torch.float8_e4m3fn, torch.int32])
def test_dtypes_that_would_be_computed_in_float32_are_refused(kind, dtype):
    """float64 would come back with float32's digits, float8 without its scales."""
    case = kind()
    case.q, case.k, case.v = (x.to(dtype) for x in (case.q, case.k, case.v))
    with pytest.raises(TypeError, match=f"attention takes .*, got {dtype}"):
        case(impl="dense")


@EVERY
@BOTH
def test_out_may_be_q_and_not_share_memory_otherwise(kind, impl):
    expected, case = kind()(impl=impl), kind()
    assert torch.equal(case(out=case.q, impl=impl), expected)

    case = kind()
    shape, size = case.q.shape, case.q.numel()
    for name in "kv":
        with pytest.raises(ValueError, match=f"out and {name} share memory"):
            case(out=getattr(case, name).flatten()[:size].view(shape), impl=impl)
    both = torch.zeros(2 * size)
    case.q = both[:size].view(shape)
    with pytest.raises(ValueError, match="out and q share memory"):
        case(out=both[64:][:size].view(shape), impl=impl)
    with pytest.raises(ValueError, match="several of its rows are one place in memory"):
        case(out=case.q.new_zeros(64).expand(case.q.shape), impl=impl)


@BOTH
def test_a_plan_is_for_one_shape_and_its_tables(impl):
    case = Paged()
    assert torch.equal(case(plan=case.plan(), impl=impl), case(impl=impl))
    with pytest.raises(ValueError, match=r"3 rows of up to 32 tokens, the block tables are \(3, 1\)"):
        case(plan=case.plan(), tables=case.tables[:, :1], impl=impl)
    with pytest.raises(ValueError, match="plan again"):
        case(plan=case.plan(q_heads=2), impl=impl)
    with pytest.raises(ValueError, match="plan again"):
        case(plan=case.plan(lengths=(20, 0), max_len=32), impl=impl)
    with pytest.raises(ValueError, match=r"row 0, entry 0 is 99, and the pool has blocks 0\.\.5"):
        case(plan=case.plan(), tables=torch.full_like(case.tables, 99), impl=impl)


def test_what_a_plan_writes_to_has_room():
    case, plan = Paged(), Paged().plan()
    with pytest.raises(ValueError, match="out must be"):
        plan.run(case.q, case.k, case.v, case.tables, out=torch.zeros(1, 4, 64))
    with pytest.raises(ValueError, match="out must be"):
        plan.run(case.q, case.k, case.v, case.tables, out=torch.zeros(3, 4, 64, dtype=torch.int32))
    for lse in (torch.zeros(1, 4), torch.zeros(3, 4).double(), torch.zeros(4, 3).T):
        with pytest.raises(ValueError, match="lse must be"):
            plan.run(case.q, case.k, case.v, case.tables, lse=lse)


@BOTH
def test_tables_whose_rows_lie_apart_are_refused(impl):
    made = Paged()
    with pytest.raises(ValueError, match="column stride of 1"):
        made(tables=made.tables.T.contiguous().T, impl=impl)


def test_a_plan_is_not_updated_inside_a_graph(monkeypatch):
    """The copy of its work list would be captured, and replayed over every later update."""
    plan = Paged().plan()
    plan.device = torch.device("cuda")
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="update before capture and replays"):
        plan.update([1, 1, 1])
    assert list(plan.lengths) == [20, 0, 32]


@BOTH
@pytest.mark.parametrize("shared", [8, -16, 48])
def test_what_is_no_shared_prefix_is_refused_by_both_ways(impl, shared):
    with pytest.raises(ValueError, match="shared_tokens is a multiple of the block size 16, at most 32"):
        Cascade()(shared_tokens=shared, impl=impl)
    with pytest.raises(ValueError, match="the first 1 blocks must be the same"):
        Cascade()(shared_tokens=16, impl=impl)


@BOTH
def test_rows_that_a_prefill_would_leave_out_are_refused(impl):
    with pytest.raises(ValueError, match="max_q is 1, and a row has 2 new tokens"):
        Prefill()(max_q=1, impl=impl)


@BOTH
def test_a_pool_without_blocks_holds_rows_without_tokens(impl):
    case = Paged()
    case.k, case.v = case.k[:0], case.v[:0]
    out, lse = case(kv_lengths=[0, 0, 0], return_lse=True, impl=impl)
    assert not out.any()
    assert (lse == -torch.inf).all()


@BOTH
@pytest.mark.parametrize("size", [0, 1, 512])
def test_head_dims_at_the_edges(impl, size):
    q, k = torch.randn(1, 3, 1, size), torch.randn(1, 2, 1, size)
    if size == 0 or impl == "triton":
        with pytest.raises(ValueError, match="head_dim"):
            flash_attention(q, k, k, impl=impl)
    else:
        assert flash_attention(q, k, k, impl=impl).isfinite().all()


@BOTH
def test_the_cache_takes_values_and_two_memories(impl):
    case, new = Paged(), torch.randn(2, 2, 64)
    paged_write(new.clone().requires_grad_(), new, case.k, case.v, torch.tensor([0, 1]), impl=impl)
    assert not case.k.requires_grad
    assert torch.equal(case.k[0, :2], new)
    with pytest.raises(ValueError, match="one memory"):
        paged_write(new, new, case.k, case.k, torch.tensor([0, 1]), impl=impl)
    wide = case.k[:1].expand(6, 16, 2, 64)
    with pytest.raises(ValueError, match="several of its places are one"):
        paged_write(new, new, wide, wide.clone().copy_(wide)[:1].expand(6, 16, 2, 64), torch.tensor([0, 17]), impl=impl)


def test_operators_take_what_their_fake_versions_describe():
    from course_lib.attention import paged_ops

    case = Paged()
    plan = case.plan()
    with pytest.raises(ValueError, match=r"the operators take q \[rows, q_heads, head_dim\]"):
        torch.ops.course.paged_decode(case.q[:, None], case.k, case.v, case.tables, paged_ops.handle(plan))


def test_contiguous_rows_are_as_many_as_planned():
    with pytest.raises(ValueError, match="planned for 3 rows"):
        contiguous_decode(torch.randn(3, 4, 64), torch.randn(2, 32, 2, 64), torch.randn(2, 32, 2, 64))


def test_an_oracle_does_not_read_what_is_not_there():
    """Torch takes entry -1 for the last block, and a slice past the end for a shorter one: a wrong truth, without a word."""
    pool = torch.randn(2, 4, 1, 8)
    for table, length, message in (([0], 5, "2 blocks of 4, the table has 1"), ([0, -1], 5, "names block -1"), ([2], 1, "0..1")):
        with pytest.raises(ValueError, match=re.escape(message)):
            gather_blocks(pool, int32(*table), length)
        with pytest.raises(ValueError, match=re.escape(message)):
            decode_reference(torch.randn(1, 2, 8), pool, pool, int32(table), [length])
    assert torch.equal(gather_blocks(pool, int32(1, -1), 4), pool[1])


@pytest.mark.parametrize(("lengths", "more"), [
    ([-1], {}), ([2**31], {}), ([5], {"programs": 0}), ([5], {"tile": 0}), ([5], {"kv_heads": 0}), ([5], {"splits": "some"}),
])  # fmt: skip
def test_work_that_cannot_be_cut_is_refused(lengths, more):
    with pytest.raises(ValueError, match=r"use at least 1|in int32|splits is one of"):
        split_work(lengths, **({"kv_heads": 2, "tile": 64, "programs": 4} | more))


def test_no_work_is_a_list_without_items():
    work = split_work([], 2, tile=64, programs=4)
    assert (work.starts.tolist(), len(work.items), work.slots, work.describe()) == ([0] * 5, 0, 0, "no items for 4 programs")


@pytest.mark.parametrize("more", [{"programs": 0}, {"programs": -1}, {"queries_per_row": 0}])
def test_plans_of_nothing_are_refused(more):
    with pytest.raises(ValueError, match="use at least 1 of both"):
        Paged().plan(**more)
