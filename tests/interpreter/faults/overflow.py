"""int32 arithmetic that passes 2**31. `stride` is passed as an int below 2**31 and so arrives as int32, as strides do."""

import triton
import triton.language as tl


@triton.jit
def program_kernel(x_ptr, out_ptr, row_stride, n, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    """out[row] = sum of row of x; the lanes of rows that are not there are masked off."""
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + lanes, mask=lanes < n, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x, axis=0))


@triton.jit
def arange_kernel(x_ptr, out_ptr, stride, WIDE: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    if WIDE:
        rows = rows.to(tl.int64)
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + rows * stride))


@triton.jit
def loop_kernel(x_ptr, out_ptr, stride, count, WIDE: tl.constexpr):
    total = 0.0
    for i in range(count):
        step = i.to(tl.int64) if WIDE else i
        total += tl.load(x_ptr + step * stride)
    tl.store(out_ptr, total)


@triton.jit
def shift_kernel(x_ptr, out_ptr, log_stride, WIDE: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) if WIDE else tl.program_id(0)
    tl.store(out_ptr + tl.program_id(0), tl.load(x_ptr + (row << log_stride)))


@triton.jit
def sum_kernel(x_ptr, out_ptr, first, second, WIDE: tl.constexpr):
    """Each part fits, and the sum does not."""
    place = first.to(tl.int64) + second if WIDE else first + second
    tl.store(out_ptr, tl.load(x_ptr + place))


@triton.jit
def negative_kernel(x_ptr, out_ptr, first, second, WIDE: tl.constexpr):
    place = first.to(tl.int64) - second if WIDE else first - second
    tl.store(out_ptr, tl.load(x_ptr + place))


@triton.jit
def too_late_kernel(x_ptr, out_ptr, stride, WIDE: tl.constexpr):
    """int64 after the product is too late, and a pointer moved by it as well."""
    row = tl.program_id(0)
    place = row.to(tl.int64) * stride if WIDE else (row * stride).to(tl.int64)
    x_ptr += place
    tl.store(out_ptr + row, tl.load(x_ptr))


@triton.jit
def store_kernel(out_ptr, stride, WIDE: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    tl.store(out_ptr + row * stride, 1.0)


@triton.jit
def atomic_kernel(out_ptr, stride, WIDE: tl.constexpr):
    row = tl.program_id(0)
    if WIDE:
        row = row.to(tl.int64)
    tl.atomic_add(out_ptr + row * stride, 1.0)


@triton.jit
def descriptor_kernel(x_ptr, out_ptr, rows, step, WIDE: tl.constexpr):
    """A coordinate that wraps is wrong although the whole block is then outside, and padded."""
    x = tl.make_tensor_descriptor(x_ptr, [rows, 16], [16, 1], [4, 16])
    row = tl.minimum(tl.program_id(0).to(tl.int64) * step, rows).to(tl.int32) if WIDE else tl.program_id(0) * step
    block = x.load([row, 0])
    tl.store(out_ptr + tl.program_id(0), tl.sum(tl.sum(block, axis=1), axis=0))


@triton.jit
def masked_kernel(x_ptr, out_ptr, stride, n, BLOCK: tl.constexpr):
    """Lanes whose address wraps around are masked off."""
    rows = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + rows * stride, mask=rows < n, other=0.0)
    tl.store(out_ptr + rows, x, mask=rows < n)


@triton.jit
def random_kernel(x_ptr, out_ptr, seed, BLOCK: tl.constexpr):
    """Arithmetic that wraps on purpose: a generator in int32 and in uint32, and tl.rand. It decides what is dropped."""
    lanes = tl.arange(0, BLOCK)
    state = (lanes + seed) * 1664525 + 1013904223
    state = state * 1664525 + 1013904223
    unsigned = (lanes.to(tl.uint32) + 12345) * 1664525
    keep = (tl.rand(seed, lanes) > 0.5) & (state > 0) & (unsigned > 7) & (tl.randint(seed, lanes) > -5)
    x = tl.load(x_ptr + lanes, mask=keep, other=0.0)
    tl.store(out_ptr + lanes, tl.where(keep, x * state, 0.0))


@triton.jit
def hash_kernel(key_ptr, table_ptr, out_ptr, BLOCK: tl.constexpr, SIZE: tl.constexpr):
    """A hash table's slot is the low bits of a product: those are right however often it wraps around."""
    lanes = tl.arange(0, BLOCK)
    key = tl.load(key_ptr + lanes)
    slot = (key * 73856093 + 19349663) & (SIZE - 1)
    unsigned = (key.to(tl.uint32) * 2654435761) % SIZE
    chosen = tl.where(key * 73856093 > 0, slot, unsigned.to(tl.int32))
    tl.store(out_ptr + lanes, tl.load(table_ptr + slot) + tl.load(table_ptr + unsigned) + tl.load(table_ptr + chosen))
