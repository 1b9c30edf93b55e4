"""Every operation of the language as a function of a doubtful block x and a clean block y, both [16, 16] of float32.

In the probe two lanes of x are masked off without other=, and the result is stored. `integer` makes small whole numbers.
"""

import triton
import triton.language as tl


@triton.jit
def probe_kernel(x_ptr, y_ptr, out_ptr, OP: tl.constexpr, SIZE: tl.constexpr, HOLES: tl.constexpr):
    """SIZE: elements of the result, 0 for a scalar. HOLES: False loads every lane, to see what each value there would do."""
    place = tl.arange(0, 16)[:, None] * 16 + tl.arange(0, 16)[None, :]
    y = tl.load(y_ptr + place)
    x = tl.load(x_ptr + place, mask=(place != 37) & (place != 170)) if HOLES else tl.load(x_ptr + place)
    result = OP(x, y)
    if SIZE == 0:
        tl.store(out_ptr, result)
    else:
        tl.store(out_ptr + tl.arange(0, SIZE), tl.reshape(result, [SIZE]))


@triton.jit
def integer(x):
    """0..15 from any number."""
    return tl.minimum(tl.maximum(x, 0.0), 15.0).to(tl.int32)


# fmt: off
@triton.jit
def negative(x, y): return -x
@triton.jit
def absolute(x, y): return tl.abs(x)
@triton.jit
def exp(x, y): return tl.exp(x)
@triton.jit
def exp2(x, y): return tl.exp2(x)
@triton.jit
def log(x, y): return tl.log(x)
@triton.jit
def log2(x, y): return tl.log2(x)
@triton.jit
def sin(x, y): return tl.sin(x)
@triton.jit
def cos(x, y): return tl.cos(x)
@triton.jit
def sqrt(x, y): return tl.sqrt(x)
@triton.jit
def sqrt_rn(x, y): return tl.sqrt_rn(x)
@triton.jit
def rsqrt(x, y): return tl.rsqrt(x)
@triton.jit
def erf(x, y): return tl.erf(x)
@triton.jit
def floor(x, y): return tl.floor(x)
@triton.jit
def ceil(x, y): return tl.ceil(x)
@triton.jit
def sigmoid(x, y): return tl.sigmoid(x)
@triton.jit
def softmax(x, y): return tl.softmax(x, dim=1)
@triton.jit
def invert(x, y): return ~integer(x)
@triton.jit
def logical_not(x, y): return not (x > y)
@triton.jit
def to_int8(x, y): return integer(x).to(tl.int8)
@triton.jit
def to_int64(x, y): return integer(x).to(tl.int64)
@triton.jit
def to_uint32(x, y): return integer(x).to(tl.uint32)
@triton.jit
def to_bool(x, y): return x.to(tl.int1)
@triton.jit
def to_float16(x, y): return x.to(tl.float16)
@triton.jit
def to_bfloat16(x, y): return x.to(tl.bfloat16)
@triton.jit
def to_float64(x, y): return x.to(tl.float64)
@triton.jit
def to_float8(x, y): return x.to(tl.float8e5)
@triton.jit
def bitcast(x, y): return x.to(tl.int32, bitcast=True)
@triton.jit
def int_to_float(x, y): return integer(x).to(tl.float32)

@triton.jit
def add(x, y): return y + x
@triton.jit
def subtract(x, y): return y - x
@triton.jit
def multiply(x, y): return y * x
@triton.jit
def divide(x, y): return x / y
@triton.jit
def divide_by(x, y): return y / x
@triton.jit
def div_rn(x, y): return tl.div_rn(x, y)
@triton.jit
def remainder(x, y): return x % y
@triton.jit
def maximum(x, y): return tl.maximum(x, y)
@triton.jit
def minimum(x, y): return tl.minimum(y, x)
@triton.jit
def clamp(x, y): return tl.clamp(x, -1.0, 1.0)
@triton.jit
def maximum_with_nan(x, y): return tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)
@triton.jit
def minimum_with_nan(x, y): return tl.minimum(x, y, propagate_nan=tl.PropagateNan.ALL)
@triton.jit
def int_maximum(x, y): return tl.maximum(integer(y), integer(x))
@triton.jit
def int_minimum(x, y): return tl.minimum(integer(y) + 3, integer(x))
@triton.jit
def unsigned_extremes(x, y): return tl.maximum(tl.minimum(integer(x).to(tl.uint32), 9), 2)
@triton.jit
def unsigned_divide(x, y): return integer(x).to(tl.uint32) // 3 + integer(x).to(tl.uint32) % 3 * 100
@triton.jit
def unsigned_to_float(x, y): return integer(x).to(tl.uint32).to(tl.float32)
@triton.jit
def float_to_unsigned(x, y): return tl.maximum(x, 0.0).to(tl.uint32)
@triton.jit
def int_absolute(x, y): return tl.abs(integer(x) - 7)
@triton.jit
def shift_right_signed(x, y): return (integer(x) - 7) >> 1
@triton.jit
def compare_all(x, y):
    return (x > y).to(tl.int32) + (x >= y).to(tl.int32) * 2 + (x <= y).to(tl.int32) * 4 + (x == y) * 8 + (x != y) * 16
@triton.jit
def int_compare_all(x, y):
    a, b = integer(x), integer(y)
    return (a > b).to(tl.int32) + (a >= b).to(tl.int32) * 2 + (a <= b).to(tl.int32) * 4 + (a < b).to(tl.int32) * 8 + (a != b) * 16
@triton.jit
def unsigned_compare_all(x, y):
    a, b = integer(x).to(tl.uint32), integer(y).to(tl.uint32)
    return (a > b).to(tl.int32) + (a >= b).to(tl.int32) * 2 + (a <= b).to(tl.int32) * 4 + (a < b).to(tl.int32) * 8
@triton.jit
def clamp_bound(x, y): return tl.clamp(y, -1.0, x)
@triton.jit
def fma(x, y): return tl.fma(y, y, x)
@triton.jit
def less(x, y): return x < y
@triton.jit
def equal(x, y): return integer(x) == integer(y)
@triton.jit
def int_add(x, y): return integer(y) + integer(x)
@triton.jit
def int_subtract(x, y): return integer(y) - integer(x)
@triton.jit
def int_multiply(x, y): return (integer(y) + 1) * integer(x)
@triton.jit
def int_divide(x, y): return integer(x) // (integer(y) % 3 + 1)
@triton.jit
def int_remainder(x, y): return integer(x) % (integer(y) + 2)
@triton.jit
def cdiv(x, y): return tl.cdiv(integer(x), 3)
@triton.jit
def bit_and(x, y): return integer(x) & (integer(y) | 1)
@triton.jit
def bit_or(x, y): return integer(x) | (integer(y) & 7)
@triton.jit
def bit_xor(x, y): return integer(x) ^ integer(y)
@triton.jit
def shift_left(x, y): return integer(y) + 1 << integer(x)
@triton.jit
def shift_right(x, y): return integer(x) >> 1
@triton.jit
def shift_right_unsigned(x, y): return integer(x).to(tl.uint32) >> 1
@triton.jit
def umulhi(x, y): return tl.umulhi(integer(x).to(tl.uint32) << 28, (integer(y) + 17).to(tl.uint32))
@triton.jit
def both(x, y): return (x > 0.0) and (y > -100.0)
@triton.jit
def either(x, y): return (x > 0.0) or (y > 100.0)
@triton.jit
def random(x, y): return tl.rand(5, integer(x))

@triton.jit
def where_condition(x, y): return tl.where(x > 0.0, y, -y)
@triton.jit
def where_taken(x, y): return tl.where(tl.arange(0, 16)[None, :] < 9, x, y)
@triton.jit
def where_not_taken(x, y): return tl.where(tl.arange(0, 16)[None, :] < 9, y, x)
@triton.jit
def where_replaced(x, y): return tl.where((tl.arange(0, 16)[:, None] == 2) | (tl.arange(0, 16)[:, None] == 10), y, x)
@triton.jit
def false_and(x, y): return (x > 0.0) & (y > 100.0)
@triton.jit
def true_or(x, y): return (x > 0.0) | (y > -100.0)
@triton.jit
def zero_and(x, y): return integer(x) & (integer(y) * 0)
@triton.jit
def ones_or(x, y): return integer(x) | (integer(y) * 0 - 1)
@triton.jit
def zero_times(x, y): return integer(x) * (integer(y) * 0)
@triton.jit
def not_used(x, y): return y + 1.0

@triton.jit
def reshape(x, y): return tl.reshape(x, [4, 64])
@triton.jit
def ravel(x, y): return tl.ravel(x)
@triton.jit
def transpose(x, y): return x.T
@triton.jit
def permute(x, y): return tl.permute(tl.reshape(x, [4, 4, 16]), [2, 0, 1])
@triton.jit
def expand(x, y): return x[:, None, :] + tl.reshape(y, [16, 1, 16])
@triton.jit
def broadcast(x, y): return tl.broadcast_to(tl.reshape(x, [16, 16, 1]), [16, 16, 4])
@triton.jit
def flip(x, y): return tl.flip(x, 1)
@triton.jit
def join(x, y): return tl.join(x, y)
@triton.jit
def interleave(x, y): return tl.interleave(y, x)
@triton.jit
def cat(x, y): return tl.cat(tl.ravel(y), tl.ravel(x), can_reorder=True)
@triton.jit
def split_left(x, y):
    left, _ = tl.split(tl.reshape(x, [16, 8, 2]))
    return left
@triton.jit
def split_right(x, y):
    _, right = tl.split(tl.reshape(x, [16, 8, 2]))
    return right
@triton.jit
def gather_source(x, y): return tl.gather(x, integer(y), axis=1)
@triton.jit
def gather_index(x, y): return tl.gather(y, integer(x), axis=1)
@triton.jit
def scalar_to_block(x, y): return y + tl.sum(x)

@triton.jit
def sum_rows(x, y): return tl.sum(x, axis=1)
@triton.jit
def sum_columns(x, y): return tl.sum(x, axis=0)
@triton.jit
def sum_kept(x, y): return tl.sum(x, axis=1, keep_dims=True) + y
@triton.jit
def sum_all(x, y): return tl.sum(x)
@triton.jit
def max_rows(x, y): return tl.max(x, axis=1)
@triton.jit
def min_columns(x, y): return tl.min(x, axis=0)
@triton.jit
def argmax(x, y): return tl.argmax(x, axis=1)
@triton.jit
def argmin(x, y): return tl.argmin(x, axis=0)
@triton.jit
def max_and_index(x, y):
    best, index = tl.max(x, axis=1, return_indices=True)
    return best + index
@triton.jit
def xor_sum(x, y): return tl.xor_sum(integer(x), axis=1)
@triton.jit
def _difference(a, b): return a - b
@triton.jit
def custom_reduce(x, y): return tl.reduce(x, 1, _difference)
@triton.jit
def _left(a, b): return a
@triton.jit
def first_of_row(x, y): return tl.reduce(x, 1, _left)
@triton.jit
def _weighted(a, i, b, j): return a + b, i * b
@triton.jit
def reduce_of_two(x, y):
    total, product = tl.reduce((x, y), 1, _weighted)
    return total + product
@triton.jit
def cumsum(x, y): return tl.cumsum(x, axis=1)
@triton.jit
def cumsum_reverse(x, y): return tl.cumsum(x, axis=0, reverse=True)
@triton.jit
def cumprod(x, y): return tl.cumprod(x, axis=0)
@triton.jit
def _last(a, b): return b
@triton.jit
def custom_scan(x, y): return tl.associative_scan(x, 1, _last)
@triton.jit
def _linear(a, b, c, d): return a * c, c * b + d
@triton.jit
def scan_of_two(x, y):
    _, state = tl.associative_scan((y, x), 1, _linear)
    return state
@triton.jit
def sort(x, y): return tl.sort(x)
@triton.jit
def top(x, y): return tl.topk(x, 4)
@triton.jit
def histogram(x, y): return tl.histogram(tl.ravel(integer(x)), 16)
@triton.jit
def histogram_masked(x, y): return tl.histogram(tl.ravel(integer(x)), 16, mask=tl.arange(0, 256) < 37)
@triton.jit
def dot_left(x, y): return tl.dot(x, y, input_precision="ieee")
@triton.jit
def dot_right(x, y): return tl.dot(y, x, input_precision="ieee")
@triton.jit
def dot_sum(x, y): return tl.dot(y, y, acc=x, input_precision="ieee")
@triton.jit
def dot_half(x, y): return tl.dot(x.to(tl.float16), y.to(tl.float16))
@triton.jit
def loop(x, y):
    total = y
    for _ in range(3):
        total = total * 0.5 + x
    return total
@triton.jit
def static_branch(x, y): return x if x.shape[0] == 16 else y
# fmt: on

# operation: elements of the result (0: a scalar); every jitted function of two blocks above that is not named here has 256
SIZES = {
    broadcast: 1024, join: 512, interleave: 512, cat: 512, split_left: 128, split_right: 128, sum_rows: 16,
    sum_columns: 16, sum_all: 0, max_rows: 16, min_columns: 16, argmax: 16, argmin: 16, max_and_index: 16, xor_sum: 16,
    custom_reduce: 16, first_of_row: 16, reduce_of_two: 16, top: 64, histogram: 16, histogram_masked: 16,
}  # fmt: skip
CLEAN = (where_replaced, false_and, true_or, zero_and, ones_or, zero_times, not_used, histogram_masked, first_of_row)
OPERATIONS = {
    name: (function, SIZES.get(function, 256))
    for name, function in list(globals().items())
    if hasattr(function, "arg_names") and function.arg_names == ["x", "y"]
}
