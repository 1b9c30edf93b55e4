"""No false alarms: kernels without a mistake run with all checks on, over awkward shapes and new, poisoned or shared memory."""

import pytest
import torch
import triton

from .faults import sound as s
from .faults import sound_matrices as m
from .faults.told import checked  # noqa: F401
from .kernels.copy import copy
from .kernels.flash import flash
from .kernels.matmul import matmul

RAGGED = [1, 7, 64, 65]


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def close(ours, expected):
    # sums of at most some hundred float32 terms of size 1
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def inside(x, fill=None):
    """The same values as a view into a larger tensor, whose rest is NaN or (fill None) was never written."""
    whole = torch.empty([size + 3 for size in x.shape], dtype=x.dtype)
    if fill is not None:
        whole.fill_(fill)
    view = whole[tuple(slice(2, 2 + size) for size in x.shape)]
    view.copy_(x)
    return view


# -- this project's kernels --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fill", [None, float("nan")])
@pytest.mark.parametrize("n", [0, *RAGGED])
def test_copy(n, fill):
    for x in (randn(n), randn(2 * n)[::2], inside(randn(n), fill)):
        assert torch.equal(copy(x, block=16), x)
        assert torch.equal(copy(x, torch.empty(3 * n)[::3][:n], block=16), x)


@pytest.mark.parametrize("fill", [None, float("nan")])
@pytest.mark.parametrize(("rows", "cols", "depth"), [(1, 1, 1), (33, 17, 65), (16, 48, 0), (70, 5, 32)])
def test_matmul(rows, cols, depth, fill):
    views = inside(randn(rows, depth), fill), inside(randn(depth, cols), fill)
    for a, b in (views, (randn(depth, rows).T, randn(cols, depth).T)):
        close(matmul(a, b, bm=16, bn=16, bk=16), a @ b)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("q_len", "kv_len"), [(1, 1), (5, 33), (33, 5), (17, 17)])
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 2), (3, 1)])
def test_flash(q_len, kv_len, heads, kv_heads, dtype):
    q = randn(2, q_len, heads, 12).to(dtype)
    k, v = (randn(2, kv_len, kv_heads, 12, seed=seed).to(dtype) for seed in (1, 2))
    for causal in (False, True):
        for fill in (None, float("nan")):
            inputs = [inside(x, fill) for x in (q, k, v)]
            out, lse = flash(*inputs, causal=causal, with_lse=True, bm=16, bn=16)
            assert out.isfinite().all()
            assert not lse.isnan().any()


# -- rows and vectors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", RAGGED)
def test_softmax(n):
    x, out, block = randn(3, n), torch.empty(3, n), triton.next_power_of_2(n)
    s.softmax_kernel[(3,)](x, out, n, n, BLOCK=block)
    close(out, x.softmax(-1))
    padded, out = torch.empty(3, block), torch.empty(3, n)
    padded[:, :n] = x
    s.softmax_whole_row_kernel[(3,)](padded, out, n, BLOCK=block)
    close(out, x.softmax(-1))


@pytest.mark.parametrize("n", RAGGED)
def test_layer_norm_and_its_locked_sum(n):
    x, w, b, out, mean, rstd = randn(5, n), randn(n), randn(n, seed=1), *(torch.empty(size) for size in ((5, n), 5, 5))
    block = triton.next_power_of_2(n)
    s.layer_norm_kernel[(5,)](x, w, b, out, mean, rstd, n, 1e-5, BLOCK=block)
    close(out, torch.nn.functional.layer_norm(x, (n,), w, b))
    dy, dw, flags = randn(5, n, seed=2), torch.empty(n), torch.zeros(2, dtype=torch.int32)
    s.layer_norm_weight_kernel[(5,)](x, dy, mean, rstd, dw, flags[:1], flags[1:], n, BLOCK=block)
    close(dw, (dy * (x - mean[:, None]) * rstd[:, None]).sum(0))


@pytest.mark.parametrize("n", RAGGED)
def test_dropout(n):
    x, out = torch.ones(n), torch.empty(n)
    s.dropout_kernel[(triton.cdiv(n, 32),)](x, out, 1234, 0.25, n, BLOCK=32)
    assert set(out.tolist()) <= {0.0, x[0].item() / 0.75} or (out[out > 0] - 4 / 3).abs().max() < 1e-6


@pytest.mark.parametrize("length", [1, 8, 13])
def test_a_paged_cache_with_unwritten_pages_and_minus_one_in_its_table(length):
    page, dim, pages = 4, 16, 6
    keys, values = (torch.empty(9, page, dim) for _ in range(2))
    table = torch.full((pages,), -1, dtype=torch.int32)
    used = triton.cdiv(length, page)
    table[:used] = torch.tensor([7, 2, 5, 0])[:used]
    k, v, q = randn(length, dim), randn(length, dim, seed=1), randn(dim)
    for i in range(length):
        keys[table[i // page], i % page], values[table[i // page], i % page] = k[i], v[i]
    out = torch.empty(length, dim)
    s.paged_gather_kernel[(pages,)](values, table, out, length, PAGE=page, D=dim)
    assert torch.equal(out, v)
    splits = 3
    parts, lse, out = torch.empty(splits, dim), torch.empty(splits), torch.empty(dim)
    per_split = triton.cdiv(used, splits)
    s.paged_decode_kernel[(splits,)](q, keys, values, table, parts, lse, length, per_split, used, D=dim, PAGE=page)
    s.merge_kernel[(1,)](parts, lse, out, splits, D=dim, S=4)
    close(out, (k @ q).softmax(0) @ v)


@pytest.mark.parametrize("n", RAGGED)
def test_counting_and_scanning(n):
    numbers = torch.randint(0, 8, (n,), dtype=torch.int32, generator=torch.Generator().manual_seed(n))
    counts = torch.zeros(8, dtype=torch.int32)
    s.histogram_kernel[(triton.cdiv(n, 32),)](numbers, counts, n, BINS=8, BLOCK=32)
    assert torch.equal(counts, torch.bincount(numbers, minlength=8).int())
    x, out = randn(n), torch.empty(n)
    s.cumsum_kernel[(1,)](x, out, n, BLOCK=16)
    close(out, x.cumsum(0))
    kept, count = torch.empty(n), torch.zeros(1, dtype=torch.int32)
    s.compact_kernel[(triton.cdiv(n, 16),)](x, kept, count, n, BLOCK=16)
    assert sorted(kept[: count.item()].tolist()) == sorted(x[x > 0].tolist())
    ordered, found = x.sort().values, torch.empty(n, dtype=torch.int32)
    s.search_kernel[(triton.cdiv(n, 16),)](ordered, x, found, n, n, BLOCK=16)
    assert torch.equal(found.long(), torch.searchsorted(ordered, x))


@pytest.mark.parametrize("n", RAGGED)
def test_elements_in_place_and_across(n):
    x = randn(n)
    expected = x * 2
    s.in_place_kernel[(triton.cdiv(n, 32),)](x, n, BLOCK=32)
    close(x, expected)
    matrix, out = randn(n, 19), torch.empty(19, n)
    s.transpose_kernel[(triton.cdiv(n, 16), 2)](matrix, out, n, 19, B=16)
    assert torch.equal(out, matrix.T)


@pytest.mark.parametrize("n", [8, 13, 64])
def test_top_k_and_ranks(n):
    x, values, ranks = randn(3, n), torch.empty(3, 4), torch.empty(3, n, dtype=torch.int32)
    s.top_kernel[(3,)](x, values, ranks, n, K=4, BLOCK=triton.next_power_of_2(n))
    assert torch.equal(values, x.topk(4).values)
    assert torch.equal(ranks.long(), x.argsort(-1, descending=True).argsort(-1))


@pytest.mark.parametrize("n", RAGGED)
def test_narrow_numbers(n):
    numbers = torch.randint(0, 16, (triton.cdiv(n, 8), 8), generator=torch.Generator().manual_seed(n))
    packed = (numbers << torch.arange(8) * 4).sum(1).to(torch.int32)  # the top number reaches the sign
    scale, out = randn(triton.cdiv(n, 32)), torch.empty(n)
    s.int4_kernel[(triton.cdiv(n, 32),)](packed, scale, out, n, GROUP=32, BLOCK=32)
    close(out, (numbers.flatten()[:n] - 8) * scale.repeat_interleave(32)[:n])
    x, out, scale = randn(3, n), torch.empty(3, n, dtype=torch.int8), torch.empty(3)
    s.quantise_kernel[(3,)](x, out, scale, n, BLOCK=triton.next_power_of_2(n))
    assert ((out * scale[:, None] - x).abs() <= scale[:, None] * 0.5001).all()


@pytest.mark.parametrize("dim", [2, 16, 20])
def test_rope(dim):
    x, angle = randn(5, 3, dim), randn(5, dim // 2)
    a, b = x.chunk(2, -1)
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    expected = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    s.rope_kernel[(5, 3)](x, angle.cos(), angle.sin(), 3, dim, HALF=triton.next_power_of_2(dim // 2))
    close(x, expected)


def test_a_label_that_is_ignored_points_nowhere():
    logits, labels, out = randn(4, 11), torch.tensor([3, -100, 10, 0]), torch.empty(4)
    s.loss_kernel[(4,)](logits, labels, out, 11, -100, BLOCK=16)
    close(out, torch.nn.functional.cross_entropy(logits, labels, reduction="none"))


# -- matrix products ---------------------------------------------------------------------------------------------------

SHAPES = [(33, 20, 40), (1, 4, 1), (64, 64, 33)]


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize(("rows", "cols", "depth"), SHAPES)
def test_matrix_products_in_many_ways(rows, cols, depth):
    a, b = randn(rows, depth), randn(depth, cols)
    tiles = triton.cdiv(rows, 16), triton.cdiv(cols, 16)
    sizes = (rows, cols, depth)

    def product(kernel, grid, make=torch.empty, **more):
        c = make(rows, cols)
        kernel[grid](a, b, c, *sizes, BM=16, BN=16, BK=16, **more)
        close(c, a @ b)

    product(m.wrapped_matmul_kernel, (tiles[0] * tiles[1],), GROUP=2)
    product(m.split_k_kernel, (*tiles, 3), make=torch.zeros, SPLITS=3)
    product(m.persistent_kernel, (3,))


def test_edges_without_other_where_only_unstored_rows_see_them():
    a, b, c = randn(5, 16), randn(16, 7), torch.empty(5, 7)
    m.uninitialised_edge_kernel[(1,)](a, b, c, 5, 7, 16, BM=16, BN=16, BK=16)
    close(c, a @ b)


def test_descriptors_made_on_the_host_and_in_the_kernel():
    from triton.tools.tensor_descriptor import TensorDescriptor

    a, b, c = randn(33, 40), randn(40, 20), torch.empty(33, 20)
    described = [TensorDescriptor(x, list(x.shape), list(x.stride()), [16, 16]) for x in (a, b)]
    m.descriptor_kernel[(3, 2)](*described, c, 33, 20, 40, BM=16, BN=16, BK=16)
    close(c, a @ b)


def test_groups_of_matrices_by_their_addresses():
    rows = (5, 17, 1)
    a, b, c = [randn(r, 9) for r in rows], [randn(9, 11, seed=r) for r in rows], [torch.empty(r, 11) for r in rows]
    tables = [torch.tensor([x.data_ptr() for x in group]) for group in (a, b, c)]
    sizes = torch.tensor(rows, dtype=torch.int32)
    m.grouped_kernel[(3, 2)](*tables, sizes, 11, 9, 3, tuple(a + b + c), BM=16, BN=16, BK=16)
    for x, y, z in zip(a, b, c, strict=True):
        close(z, x @ y)


def test_experts_with_padded_blocks_of_tokens():
    tokens, experts = 21, 3
    x, w, out = randn(tokens, 12), randn(experts, 12, 10), torch.empty(tokens, 10)
    choice = torch.arange(tokens) % experts
    blocks, owners = [], []
    for expert in range(experts):
        mine = (choice == expert).nonzero().flatten()
        padded = torch.full((triton.cdiv(len(mine), 16) * 16,), tokens)
        padded[: len(mine)] = mine
        blocks.append(padded)
        owners += [expert] * (len(padded) // 16)
    token, owner = torch.cat(blocks).int(), torch.tensor(owners, dtype=torch.int32)
    m.expert_kernel[(len(owners),)](x, w, token, owner, out, tokens, 10, 12, BM=16, BN=16, BK=16)
    close(out, torch.einsum("td,tdn->tn", x, w[choice]))


def test_two_programs_of_one_tile():
    a, b, c, part = randn(16, 50), randn(50, 16), torch.empty(16, 16), torch.empty(16, 16)
    flag = torch.zeros(1, dtype=torch.int32)
    m.stream_k_kernel[(2,)](a, b, c, part, flag, 16, 50, 32, B=16, BK=16)
    close(c, a @ b)
