"""Tensor descriptors, block pointers and strided loads: the elements that the device would touch, with its padding."""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from course_lib.interpreter import KernelMistake

from .numbers_helpers import TORCH, interpreted

__all__ = ["interpreted"]


@pytest.fixture(autouse=True)
def allocator():
    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))


@triton.jit
def device_kernel(x, out, rows, cols, row, col, NAN: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    if NAN:
        source = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [M, N], padding_option="nan")
    else:
        source = tl.make_tensor_descriptor(x, [rows, cols], [cols, 1], [M, N])
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + at, source.load([row, col]))


def padded(x, row, col, m, n, fill):
    out = torch.full((m, n), fill, dtype=x.dtype)
    for i in range(m):
        for j in range(n):
            if 0 <= row + i < x.shape[0] and 0 <= col + j < x.shape[1]:
                out[i, j] = x[row + i, col + j]
    return out


@pytest.mark.parametrize("nan", [False, True])
@pytest.mark.parametrize(("row", "col"), [(0, 0), (3, 8), (-2, 16), (6, 16), (1, -8), (100, 0)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_descriptor_pads_what_lies_outside_its_shape(dtype, row, col, nan):
    x, out = torch.randn(7, 24).to(dtype), torch.empty(4, 16, dtype=dtype)
    device_kernel[(1,)](x, out, 7, 24, row, col, nan, 4, 16)
    expected = padded(x, row, col, 4, 16, float("nan") if nan else 0.0)
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(("dtype", "col", "step"), [(torch.float32, 18, 4), (torch.bfloat16, 20, 8), (torch.float32, -2, 4)])
def test_a_block_that_starts_between_16_bytes_is_refused(dtype, col, step):
    x, out = torch.randn(7, 24).to(dtype), torch.empty(4, 16, dtype=dtype)
    with pytest.raises(KernelMistake, match=rf"whole 16 bytes in its row, got element {col} x .* use a multiple of {step}"):
        device_kernel[(1,)](x, out, 7, 24, 0, col, False, 4, 16)


@triton.jit
def host_kernel(source, target, row, col):
    block = source.load([row, col])
    target.store([row, col], block * 2)


@pytest.mark.parametrize(("row", "col"), [(0, 0), (4, 16), (6, 24)])
def test_a_descriptor_of_the_host_stores_only_inside(row, col):
    x, out = torch.randn(9, 28), torch.zeros(9, 28)
    blocks = [TensorDescriptor.from_tensor(t, [4, 16]) for t in (x, out)]
    host_kernel[(1,)](*blocks, row, col)
    expected = torch.zeros(9, 28)
    expected[row : row + 4, col : col + 16] = 2 * x[row : row + 4, col : col + 16]
    assert torch.equal(out, expected)


@triton.jit
def add_kernel(target, row, col, M: tl.constexpr, N: tl.constexpr):
    target.atomic_add([row, col], tl.full((M, N), 1.0, tl.float32))


def test_atomic_add_through_a_descriptor_adds_only_inside():
    out = torch.zeros(9, 24)
    block = TensorDescriptor.from_tensor(out, [8, 16])
    for _ in range(2):
        add_kernel[(1,)](block, 4, 16, 8, 16)
    expected = torch.zeros(9, 24)
    expected[4:9, 16:24] = 2
    assert torch.equal(out, expected)


@triton.jit
def rows_kernel(source, target, index, out, col, N: tl.constexpr):
    rows = tl.load(index + tl.arange(0, 8))
    block = source.gather(rows, col)
    tl.store(out + tl.arange(0, 8)[:, None] * N + tl.arange(0, N)[None, :], block)
    target.scatter(block, rows, col)


@pytest.mark.parametrize(("row", "col"), [(-1, 0), (0, -4), (-6, -12)])
def test_a_block_that_is_written_before_the_tensor_is_refused_and_a_load_there_is_not(row, col):
    out, x = torch.zeros(9, 28), torch.randn(9, 28)
    before = rf"stored through a tensor descriptor starts at no negative element, got \[{row}, {col}\]"
    with pytest.raises(KernelMistake, match=before):
        add_kernel[(1,)](TensorDescriptor.from_tensor(out, [8, 16]), row, col, 8, 16)
    with pytest.raises(KernelMistake, match=before) as mistake:
        host_kernel[(1,)](*(TensorDescriptor.from_tensor(t, [8, 16]) for t in (x, out)), row, col)
    assert "target.store" in str(mistake.value)  # the load on the line above went through
    assert not out.any()


def test_scatter_to_a_row_before_the_tensor_is_refused():
    x, out, target = torch.randn(12, 32), torch.empty(8, 16), torch.zeros(12, 32)
    index = torch.tensor([3, 0, 11, -1, 7, 2, 9, 5], dtype=torch.int32)  # a gather of it gives zeros
    blocks = [TensorDescriptor.from_tensor(tensor, [1, 16]) for tensor in (x, target)]
    with pytest.raises(KernelMistake, match=r"no negative element, got \[-1, 16\]"):
        rows_kernel[(1,)](*blocks, index, out, 16, 16)
    assert not out[3].any()


def test_gather_and_scatter_take_rows_by_their_numbers():
    x, out, target = torch.randn(12, 32), torch.empty(8, 16), torch.zeros(12, 32)
    index = torch.tensor([3, 0, 11, 5, 7, 2, 9, 12], dtype=torch.int32)  # 12 lies outside: zeros, and nothing is stored
    rows_kernel[(1,)](TensorDescriptor.from_tensor(x, [1, 16]), TensorDescriptor.from_tensor(target, [1, 16]), index, out, 16, 16)
    assert torch.equal(out[:7], x[index[:7].long(), 16:32])
    assert not out[7].any()
    expected = torch.zeros(12, 32)
    expected[index[:7].long(), 16:32] = x[index[:7].long(), 16:32]
    assert torch.equal(target, expected)


def test_a_descriptor_that_rounds_to_tf32_is_refused():
    block = TensorDescriptor.from_tensor(torch.zeros(9, 24), [8, 16])
    block.round_f32_to_tf32 = True  # a field of Triton 3.7
    with pytest.raises(KernelMistake, match="target asks for round_f32_to_tf32, which only a GPU does"):
        add_kernel[(1,)](block, 0, 0, 8, 16)


@triton.jit
def narrow_kernel(x):
    tl.make_tensor_descriptor(x, [8, 8], [8, 1], [4, 2])


def test_a_descriptor_with_rows_below_16_bytes_is_refused():
    with pytest.raises(KernelMistake, match="16 bytes"):
        narrow_kernel[(1,)](torch.zeros(8, 8))


@triton.jit
def odd_stride_kernel(x, cols):
    tl.make_tensor_descriptor(x, [4, cols], [cols, 1], [4, 4])


def test_a_descriptor_with_an_odd_stride_is_refused():
    with pytest.raises(KernelMistake, match=r"strides of whole 16 bytes"):
        odd_stride_kernel[(1,)](torch.zeros(4, 7), 7)


# -- block pointers ----------------------------------------------------------------------------------------------------


@triton.jit
def block_pointer_kernel(x, out, rows, cols, M: tl.constexpr, N: tl.constexpr):
    """Sums the blocks of one row of blocks, walking by tl.advance, ragged at the end."""
    pointer = tl.make_block_ptr(x, (rows, cols), (cols, 1), (tl.program_id(0) * M, 0), (M, N), (1, 0))
    total = tl.zeros((M, N), tl.float32)
    for _ in range(0, cols, N):
        total += tl.load(pointer, boundary_check=(0, 1), padding_option="zero")
        pointer = tl.advance(pointer, (0, N))
    target = tl.make_block_ptr(out, (rows,), (1,), (tl.program_id(0) * M,), (M,), (0,))
    tl.store(target, tl.sum(total, 1), boundary_check=(0,))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (7, 13), (8, 16), (9, 33)])
def test_block_pointers_walk_a_ragged_matrix(rows, cols):
    x, out = torch.randint(-9, 9, (rows, cols)).float(), torch.zeros(rows)
    block_pointer_kernel[(triton.cdiv(rows, 4),)](x, out, rows, cols, 4, 8)
    assert torch.equal(out, x.sum(1))


@triton.jit
def order_kernel(x, out, M: tl.constexpr, N: tl.constexpr):
    columns = tl.make_block_ptr(x, (N, M), (1, N), (0, 0), (N, M), (0, 1))
    rows = tl.make_block_ptr(out, (M, N), (N, 1), (0, 0), (M, N), (1, 0))
    tl.store(rows, tl.trans(tl.load(columns)))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
def test_a_block_pointer_reads_a_transposed_matrix():
    x, out = torch.randn(4, 8), torch.empty(4, 8)
    order_kernel[(1,)](x, out, 4, 8)
    assert torch.equal(out, x)


# -- plain pointers ----------------------------------------------------------------------------------------------------


@triton.jit
def strided_kernel(x, out, row_stride, col_stride, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    live = (at[:, None] < n) & (at[None, :] < n)
    value = tl.load(x + at[:, None] * row_stride + at[None, :] * col_stride, mask=live, other=-1)
    tl.store(out + at[:, None] * BLOCK + at[None, :], value)


@pytest.mark.parametrize("name", ["bf16", "fp8e4nv", "int8", "int64", "fp64", "int1"])
def test_masked_lanes_get_other_and_strides_may_be_negative(name):
    if name in ("fp8e4nv", "int1"):
        base = (torch.arange(64) % 2).to(TORCH[name]).reshape(8, 8)
    else:
        base = torch.arange(64).to(TORCH[name]).reshape(8, 8)
    if name == "fp8e4nv":
        with pytest.raises(KernelMistake, match="cannot cast"):  # an integer is no fp8, in the compiler neither
            strided_kernel[(1,)](base, base.clone(), 8, 1, 5, 8)
        return
    out = torch.empty(8, 8, dtype=TORCH[name])
    strided_kernel[(1,)](base[1:, 1:], out, base.stride(0), base.stride(1), 5, 8)
    expected = torch.full((8, 8), -1).to(TORCH[name])
    expected[:5, :5] = base[1:6, 1:6]
    assert torch.equal(out, expected)


@triton.jit
def pointer_block_kernel(x, out, n, BLOCK: tl.constexpr):
    pointers = x + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), tl.float32)
    for _ in range(n):
        total += tl.load(pointers)
        pointers += BLOCK
    tl.store(out + tl.arange(0, BLOCK), total)


def test_pointers_move_along_in_a_loop():
    x, out = torch.arange(32.0), torch.empty(8)
    pointer_block_kernel[(1,)](x, out, 4, 8)
    assert torch.equal(out, x.reshape(4, 8).sum(0))


@triton.jit
def pointer_cast_kernel(x, out):
    halves = x.to(tl.pointer_type(tl.int16))
    tl.store(out, tl.load(halves).to(tl.int32))
    tl.store(out + 1, tl.load(halves + 1).to(tl.int32))
    address = x.to(tl.int64, bitcast=True)
    again = address.to(tl.pointer_type(tl.int32), bitcast=True)
    tl.store(out + 2, tl.load(again))


def test_pointers_may_be_cast_and_go_through_an_integer():
    x, out = torch.tensor([0x00050003], dtype=torch.int32), torch.empty(3, dtype=torch.int32)
    pointer_cast_kernel[(1,)](x, out)
    assert out.tolist() == [3, 5, 0x00050003]
