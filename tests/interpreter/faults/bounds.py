"""Accesses out of bounds. Every kernel is right or wrong by the arguments it is launched with."""

import triton
import triton.language as tl


@triton.jit
def load_kernel(x_ptr, out_ptr, start, BLOCK: tl.constexpr):
    """out[i] = x[start + i]"""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + start + lanes)
    tl.store(out_ptr + lanes, x)


@triton.jit
def store_kernel(out_ptr, start, BLOCK: tl.constexpr):
    """out[start + i] = 1"""
    tl.store(out_ptr + start + tl.arange(0, BLOCK), tl.full((BLOCK,), 1, tl.float32))


@triton.jit
def scalar_kernel(x_ptr, out_ptr, index):
    """out[0] = x[index]"""
    tl.store(out_ptr, tl.load(x_ptr + index))


@triton.jit
def masked_kernel(x_ptr, out_ptr, far, n, BLOCK: tl.constexpr):
    """Lanes from n on point `far` away, and are masked off."""
    lanes = tl.arange(0, BLOCK).to(tl.int64)
    place = tl.where(lanes < n, lanes, lanes + far)
    x = tl.load(x_ptr + place, mask=lanes < n, other=0.0)
    tl.store(out_ptr + place, x, mask=lanes < n)


@triton.jit
def strided_kernel(x_ptr, out_ptr, rows, cols, stride_row, stride_col, R: tl.constexpr, C: tl.constexpr):
    """out, contiguous [rows, cols] = x with these strides; the block is [R, C]."""
    row, col = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]
    live = (row < rows) & (col < cols)
    x = tl.load(x_ptr + row * stride_row + col * stride_col, mask=live, other=0.0)
    tl.store(out_ptr + row * cols + col, x, mask=live)


@triton.jit
def cast_kernel(x_ptr, out_ptr, start, BLOCK: tl.constexpr):
    """out[i] = the int32 at byte start + 4 i of x."""
    bytes_ptr = x_ptr.to(tl.pointer_type(tl.int8)) + start
    lanes = tl.arange(0, BLOCK)
    words = tl.load(bytes_ptr.to(tl.pointer_type(tl.int32)) + lanes)
    tl.store(out_ptr + lanes, words)


@triton.jit
def descriptor_kernel(x_ptr, out_ptr, rows, cols, row, R: tl.constexpr, C: tl.constexpr):
    """out, a block of [R, C] = x from `row` on, x described as [rows, cols]."""
    x = tl.make_tensor_descriptor(x_ptr, [rows, cols], [cols, 1], [R, C])
    block = x.load([row, 0])
    tl.store(out_ptr + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], block)


@triton.jit
def descriptor_store_kernel(x_ptr, rows, cols, row, R: tl.constexpr, C: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [rows, cols], [cols, 1], [R, C])
    x.store([row, 0], tl.full((R, C), 2.0, tl.float32))


@triton.jit
def block_pointer_kernel(x_ptr, out_ptr, rows, cols, row, CHECK: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    """As descriptor_kernel, by a block pointer, which looks at the shape only where it is told to."""
    x = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), (row, 0), (R, C), (1, 0))
    block = tl.load(x, boundary_check=(0, 1), padding_option="zero") if CHECK else tl.load(x)
    tl.store(out_ptr + tl.arange(0, R)[:, None] * C + tl.arange(0, C)[None, :], block)


@triton.jit
def block_pointer_store_kernel(x_ptr, rows, cols, row, CHECK: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    x = tl.make_block_ptr(x_ptr, (rows, cols), (cols, 1), (0, 0), (R, C), (1, 0))
    x = tl.advance(x, (row, 0))
    ones = tl.full((R, C), 1.0, tl.float32)
    if CHECK:
        tl.store(x, ones, boundary_check=(0,))
    else:
        tl.store(x, ones)


@triton.jit
def pointer_table_kernel(table_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """out[p, i] = element i of the tensor whose address is table[p]; one program for each p."""
    address = tl.load(table_ptr + tl.program_id(0))
    x_ptr = address.to(tl.pointer_type(tl.float32))
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * n + lanes, x, mask=lanes < n)


@triton.jit
def pointer_table_keeping_kernel(table_ptr, out_ptr, n, a_ptr, b_ptr, BLOCK: tl.constexpr):
    """As pointer_table_kernel; a and b are passed so that it is known what the table may lead to."""
    address = tl.load(table_ptr + tl.program_id(0))
    x_ptr = address.to(tl.pointer_type(tl.float32))
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0) * n + lanes, x, mask=lanes < n)


@triton.jit
def chosen_pointer_kernel(a_ptr, b_ptr, out_ptr, n_a, n, BLOCK: tl.constexpr):
    """out = a then b, lane by lane from the one or the other (a concatenation)."""
    lanes = tl.arange(0, BLOCK)
    source = tl.where(lanes < n_a, a_ptr + lanes, b_ptr + lanes - n_a)
    tl.store(out_ptr + lanes, tl.load(source, mask=lanes < n, other=0.0), mask=lanes < n)


@triton.jit
def scattered_kernel(a_ptr, b_ptr, n_a, n, BLOCK: tl.constexpr):
    """a then b = 0, 1, 2, ... by stores and then atomics through pointers that were chosen lane by lane."""
    lanes = tl.arange(0, BLOCK)
    target = tl.where(lanes < n_a, a_ptr + lanes, b_ptr + lanes - n_a)
    tl.store(target, lanes, mask=lanes < n)
    before = tl.atomic_add(target, lanes, mask=lanes < n)
    tl.device_assert(before == lanes, "an atomic returns what it found", mask=lanes < n)


@triton.jit
def both_views_kernel(a_ptr, b_ptr, distance, BLOCK: tl.constexpr):
    """b[i] = a[i + distance] where b is another view of a's storage."""
    lanes = tl.arange(0, BLOCK)
    tl.store(b_ptr + lanes, tl.load(a_ptr + distance + lanes))


@triton.jit
def _read_one(x_ptr, place):
    return tl.load(x_ptr + place)


@triton.jit
def helper_kernel(x_ptr, out_ptr, n):
    """The access is in a helper; the third loop turn is the first one that can be wrong."""
    total = 0.0
    for i in range(n):
        total += _read_one(x_ptr, i)
    tl.store(out_ptr, total)


@triton.jit
def atomic_kernel(out_ptr, n, BLOCK: tl.constexpr):
    tl.atomic_add(out_ptr + tl.arange(0, BLOCK), 1.0, mask=tl.arange(0, BLOCK) < n)


@triton.jit
def grid_kernel(out_ptr, n, BLOCK: tl.constexpr):
    """Only the last program, of a grid that is no multiple, forgets its mask."""
    lanes = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + tl.program_id(0) * n + lanes, lanes)


@triton.jit
def two_of_one_kernel(first_ptr, second_ptr, out_ptr, BLOCK: tl.constexpr):
    """One tensor passed twice."""
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(first_ptr + lanes) + tl.load(second_ptr + lanes))


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, known, described):
    """out[i] = row index[i] of x, for the first `known` of 8 indices; x is described as [described, 16]."""
    x = tl.make_tensor_descriptor(x_ptr, [described, 16], [16, 1], [1, 16])
    lanes = tl.arange(0, 8)
    block = x.gather(tl.load(index_ptr + lanes, mask=lanes < known), 0)
    tl.store(out_ptr + lanes[:, None] * 16 + tl.arange(0, 16)[None, :], block)


@triton.jit
def scatter_kernel(x_ptr, index_ptr, described):
    x = tl.make_tensor_descriptor(x_ptr, [described, 16], [16, 1], [1, 16])
    lanes = tl.arange(0, 8)
    x.scatter(tl.zeros((8, 16), tl.float32) + lanes[:, None], tl.load(index_ptr + lanes), 0)
