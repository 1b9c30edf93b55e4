"""Operations that move elements: against torch, element by element, for blocks of any rank."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from course_lib.interpreter import KernelMistake

from .numbers_helpers import interpreted

__all__ = ["interpreted"]


@triton.jit
def moved_kernel(x, out, FN: tl.constexpr, A: tl.constexpr, B: tl.constexpr, C: tl.constexpr, TOTAL: tl.constexpr):
    """x: contiguous [A, B, C]; out: what FN makes of it, contiguous, TOTAL elements."""
    at = tl.arange(0, A)[:, None, None] * (B * C) + tl.arange(0, B)[None, :, None] * C + tl.arange(0, C)[None, None, :]
    result = FN(tl.load(x + at))
    tl.store(out + tl.arange(0, TOTAL), tl.reshape(result, [TOTAL]))


@triton.jit
def permuted(x):
    return tl.permute(x, (2, 0, 1))


@triton.jit
def permuted_member(x):
    return x.permute(1, 2, 0)


@triton.jit
def transposed(x):
    return tl.trans(x, 0, 2, 1)


@triton.jit
def matrix_transposed(x):
    return tl.reshape(x, [8, 16]).T


@triton.jit
def swapped_by_default(x):
    return tl.trans(tl.reshape(x, [8, 16]))


@triton.jit
def reshaped(x):
    return tl.reshape(x, (4, 32))


@triton.jit
def viewed(x):
    return x.reshape(32, 4)


@triton.jit
def flat(x):
    return tl.ravel(x)


@triton.jit
def widened(x):
    return tl.broadcast_to(x[:, :, None, :], (4, 2, 2, 16))


@triton.jit
def joined(x):
    return tl.join(x, x + 1)


@triton.jit
def interleaved(x):
    return tl.interleave(x, -x)


@triton.jit
def split_and_put_back_swapped(x):
    low, high = tl.split(tl.reshape(x, [4, 2, 8, 2]))
    return tl.join(high, low)


@triton.jit
def concatenated(x):
    y = tl.ravel(x)
    return tl.cat(y, y * 2, can_reorder=True)


@triton.jit
def expanded(x):
    return tl.expand_dims(x, 1)


@triton.jit
def doubled_broadcast(x):
    a, b = tl.broadcast(x, tl.full((1, 1, 16), 3, x.dtype))
    return a * b


@triton.jit
def squeezed(x):
    return tl.squeeze(tl.unsqueeze(x, 1), 1)


@triton.jit
def zeros_like_it(x):
    return x + tl.zeros_like(x)


@triton.jit
def merged(x):
    return tl.bitonic_merge(tl.sort(x.reshape(8, 16), descending=True))  # a bitonic sequence, sorted by merging


MOVES = {
    zeros_like_it: lambda x: x,
    merged: lambda x: x.reshape(8, 16).sort(1).values,
    permuted: lambda x: x.permute(2, 0, 1),
    permuted_member: lambda x: x.permute(1, 2, 0),
    transposed: lambda x: x.transpose(1, 2),
    matrix_transposed: lambda x: x.reshape(8, 16).T,
    swapped_by_default: lambda x: x.reshape(8, 16).T,
    reshaped: lambda x: x,
    viewed: lambda x: x,
    flat: lambda x: x,
    widened: lambda x: x[:, :, None, :].expand(4, 2, 2, 16),
    joined: lambda x: torch.stack([x, x + 1], -1),
    interleaved: lambda x: torch.stack([x, -x], -1),
    split_and_put_back_swapped: lambda x: x.reshape(-1, 2).flip(1),
    concatenated: lambda x: torch.cat([x.ravel(), 2 * x.ravel()]),
    expanded: lambda x: x,
    doubled_broadcast: lambda x: x * 3,
}
if hasattr(tl, "squeeze"):  # not in Triton 3.6
    MOVES[squeezed] = lambda x: x


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64])
@pytest.mark.parametrize("fn", MOVES, ids=lambda fn: fn.__name__)
def test_elements_go_where_torch_puts_them(fn, dtype):
    x = (torch.randperm(4 * 2 * 16) - 60).to(dtype).reshape(4, 2, 16)  # all different, exact in bf16
    expected = MOVES[fn](x).reshape(-1)
    out = torch.empty(expected.numel(), dtype=dtype)
    moved_kernel[(1,)](x, out, fn, 4, 2, 16, expected.numel())
    assert torch.equal(out, expected)


@triton.jit
def gather_kernel(x, index, out, AXIS: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    at = tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
    tl.store(out + at, tl.gather(tl.load(x + at), tl.load(index + at), AXIS))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather_is_that_of_torch(axis):
    x, index = torch.randn(8, 16), torch.randint(0, 8, (8, 16), dtype=torch.int32)
    out = torch.empty(8, 16)
    gather_kernel[(1,)](x, index, out, axis, 8, 16)
    assert torch.equal(out, x.gather(axis, index.long()))


@pytest.mark.parametrize("bad", [-1, 8])
def test_gather_refuses_an_index_outside_the_block(bad):
    x, index = torch.randn(8, 16), torch.zeros(8, 16, dtype=torch.int32)
    index[3, 5] = bad
    with pytest.raises(KernelMistake, match=rf"tl\.gather.* {bad}.*0\.\.7"):
        gather_kernel[(1,)](x, index, torch.empty(8, 16), 0, 8, 16)


@triton.jit
def full_kernel(out, VALUE: tl.constexpr, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), tl.full((N,), VALUE, out.dtype.element_ty))


@pytest.mark.parametrize(
    ("dtype", "value"),
    [(torch.bfloat16, 1.1), (torch.float16, -0.1), (torch.float8_e4m3fn, 1.1), (torch.float8_e5m2, 3.3), (torch.float64, 0.1),
     (torch.int8, -5), (torch.uint64, 2**64 - 1), (torch.bool, True), (torch.float32, float("inf"))],
)  # fmt: skip
def test_full_makes_the_value_that_torch_makes(dtype, value):
    if dtype.itemsize == 1 and dtype.is_floating_point and triton.__version__.startswith("3.6"):
        pytest.skip("Triton 3.6 compiles no tl.full of fp8")
    out = torch.empty(4, dtype=dtype)
    full_kernel[(1,)](out, value, 4)
    assert torch.equal(out.view(torch.uint8), torch.full((4,), value, dtype=torch.float64).to(dtype).view(torch.uint8)) or (
        not dtype.is_floating_point and out.tolist() == [value] * 4
    )


@triton.jit
def scalars_kernel(x, out):
    a = tl.load(x)
    block = tl.full((4,), 1.0, tl.float32) * a
    both = tl.join(a, a + 1)
    low, high = tl.split(both)
    tl.store(out + tl.arange(0, 4), block + low - high)


def test_scalars_broadcast_join_and_split():
    out = torch.empty(4)
    scalars_kernel[(1,)](torch.tensor([5.0]), out)
    assert out.tolist() == [4.0] * 4


@triton.jit
def swizzle_kernel(out_i, out_j, I: tl.constexpr, J: tl.constexpr, G: tl.constexpr):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), I, J, G)
    tl.store(out_i + tl.program_id(0) * J + tl.program_id(1), i)
    tl.store(out_j + tl.program_id(0) * J + tl.program_id(1), j)


def test_swizzle2d_walks_each_group_column_by_column():
    out_i, out_j = torch.empty(4, 4, dtype=torch.int32), torch.empty(4, 4, dtype=torch.int32)
    swizzle_kernel[(4, 4)](out_i, out_j, 4, 4, 2)
    new = np.empty((4, 4), int)
    for old in range(16):
        new[out_i.reshape(-1)[old], out_j.reshape(-1)[old]] = old
    assert new.tolist() == [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]]
