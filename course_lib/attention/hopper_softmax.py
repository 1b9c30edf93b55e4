"""The softmax of one tile of scores on Hopper, in registers that a wgmma has filled: mask, running maximum, weights, sum.

In the accumulator of a wgmma a row of scores lies in 4 neighbouring threads (lanes 4r to 4r + 3). The maximum must be known to
all 4 of them at once, which takes two shuffles. The sum need not: each thread adds up its own part, all parts are rescaled
alike, and they are added together once, at the end of the tile.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from .hopper_order import pinned


@gluon.jit
def mask_scores(scores, row, key, q_len, kv_len, CAUSAL: gl.constexpr):
    """-inf where a query may not look. row, key: of the first score. Causal: the diagonal ends where the keys do."""
    keys = key + gl.arange(0, scores.shape[1], gl.SliceLayout(0, scores.type.layout))
    if CAUSAL:
        rows = row + gl.arange(0, scores.shape[0], gl.SliceLayout(1, scores.type.layout))
        seen = keys[None, :] <= rows[:, None] + (kv_len - q_len)
    else:
        seen = keys[None, :] < kv_len
    return gl.where(seen, scores, float("-inf"))


@gluon.jit
def softmax_step(scores, best, scale_log2, MASKED: gl.constexpr, PINNED: gl.constexpr, TIMES_LOG2: gl.constexpr = 0):
    """-> weights * 2 ** TIMES_LOG2, rescale (what was summed before counts that many times), best with this tile in it, parts of
    the rows' sums of these weights.

    best is a raw score; the scale, times log2(e), is folded into the exponent: 2 ** (score * scale - best * scale), one FMA.
    rescale is computed first: its users can then fill the gaps between the exponentials, which the slowest unit computes.
    """
    new_best = gl.maximum(best, gl.max(scores, 1))
    shift = new_best * scale_log2
    if MASKED:  # a row that has seen no key yet: -inf - -inf would be NaN
        shift = gl.where(new_best == float("-inf"), 0.0, shift)
    rescale = gl.exp2(best * scale_log2 - shift)
    if PINNED:
        rescale = pinned(rescale)
    if TIMES_LOG2 != 0:
        shift -= TIMES_LOG2
    weights = gl.exp2(scores * scale_log2 - shift[:, None])
    return weights, rescale, new_best, parts_of_sum(weights)


@gluon.jit
def parts_of_sum(weights):
    """[rows, 4]: what each of a row's 4 threads holds of its sum. Column 8 j + 2 t + e of the row is in thread t."""
    by_thread = weights.reshape([weights.shape[0], weights.shape[1] // 8, 4, 2])
    return gl.sum(gl.sum(by_thread, 3), 1)


@gluon.jit
def rescaled(parts, rescale):
    """The parts of the rows' sums, times rescale [rows]."""
    return parts * gl.convert_layout(rescale, gl.SliceLayout(1, parts.type.layout))[:, None]


@gluon.jit
def no_scores_yet(ROWS: gl.constexpr, layout: gl.constexpr):
    """-> the maximum of no scores, as softmax_step takes it. layout: of the scores."""
    return gl.full([ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, layout))


@gluon.jit
def no_sums_yet(ROWS: gl.constexpr, KEYS: gl.constexpr, layout: gl.constexpr):
    """-> the parts of the sums of no weights. layout: of the scores, [ROWS, KEYS]."""
    return parts_of_sum(gl.zeros([ROWS, KEYS], gl.float32, layout))


@gluon.jit
def finished(acc, parts, best, scale_log2, TIMES_LOG2: gl.constexpr = 0):
    """-> acc divided by the rows' sums, and the natural log-sum-exp of the rows, in the layout of best. No key: 0 and -inf."""
    total = gl.convert_layout(gl.sum(parts, 1), best.type.layout)
    empty = total == 0.0
    total = gl.where(empty, 1.0, total)
    ln2: gl.constexpr = 0.6931471805599453
    log2 = best * scale_log2 + gl.log2(total)
    if TIMES_LOG2 != 0:
        log2 -= TIMES_LOG2
    lse = gl.where(empty, float("-inf"), log2 * ln2)
    return acc * gl.convert_layout(1.0 / total, gl.SliceLayout(1, acc.type.layout))[:, None], lse
