"""FlashAttention forward: one pass over K and V with a running maximum and sum; no matrix of scores is ever in memory.

Layout   q, out: [batch, q_len, q_heads, head_dim]; k, v: [batch, kv_len, kv_heads, head_dim]; head h reads KV head h // group.
         PACKED: no batch axis, sequence i holds the rows cu_q[i] to cu_q[i + 1] of q and cu_k[i] to cu_k[i + 1] of k and v.
         lse: [batch, q_heads, q_len], PACKED [q_heads, rows of q]; natural logarithm of the sum of exp(scale * q k).
Causal   bottom-right: query i sees the keys up to i + kv_len - q_len. A row without a key gives 0, and its lse is -inf.
Loads    DESCRIPTORS: q, k and v are tensor descriptors [batch, heads, rows, head_dim], which Hopper's copy engine (TMA) reads
         without registers or address arithmetic; rows outside the tensor come as 0. Otherwise they are pointers.

The tiles of keys come in two kinds. Those that every query of the program sees need no mask; those on the diagonal and the last
one do. Each kind has its own loop, so that the long one holds nothing but two products and a softmax. The scores of tile j + 1
are asked for before the values of tile j, so the tensor cores have work while the other units are busy with a softmax.
"""

import triton
import triton.language as tl


@triton.jit
def load_rows(
    source, strides, place, row, end, BLOCK: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr,
    DESCRIPTORS: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """[BLOCK, BLOCK_D]: rows `row`, row + 1, ... of the sequence and head at `place`, which is (batch, head, first row).

    Dimensions from HEAD_DIM on are 0. Rows from `end` on are 0 where MASKED, except that a descriptor knows no sequences inside
    a packed tensor and gives the rows of the next one.
    """
    batch, head, first = place
    if DESCRIPTORS:
        block = source.load([batch, head, first + row, 0]).reshape(BLOCK, BLOCK_D)
    else:
        rows, dims = tl.arange(0, BLOCK), tl.arange(0, BLOCK_D)
        start = batch.to(tl.int64) * strides[0] + (first + row).to(tl.int64) * strides[1] + head.to(tl.int64) * strides[2]
        pointers = source + start + rows.to(tl.int64)[:, None] * strides[1] + dims[None, :]
        if MASKED:
            block = tl.load(pointers, mask=(row + rows < end)[:, None] & (dims < HEAD_DIM)[None, :], other=0.0)
        elif HEAD_DIM == BLOCK_D:
            block = tl.load(pointers)
        else:
            block = tl.load(pointers, mask=(dims < HEAD_DIM)[None, :], other=0.0)
    return block


@triton.jit
def mask_scores(scores, rows, start, kv_len, offset, BN: tl.constexpr, CAUSAL: tl.constexpr):
    """-inf where a query may not look. The diagonal ends where the keys do, so one comparison is enough."""
    keys = start + tl.arange(0, BN)
    if CAUSAL:  # noqa: SIM108 - an if of constants; one branch is compiled
        seen = keys[None, :] <= rows[:, None] + offset
    else:
        seen = keys[None, :] < kv_len
    return tl.where(seen, scores, float("-inf"))


@triton.jit
def softmax_step(scores, best, total, scale_log2, MASKED: tl.constexpr):
    """Weights of one tile of scores, and the running maximum and sum with that tile in them.

    best is a raw score; the scale, times log2(e), is folded into the exponent: 2 ** (score * scale - best * scale), one FMA.
    -> weights, rescale (what was summed before counts that many times), best, total
    """
    new_best = tl.maximum(best, tl.max(scores, 1))
    shift = new_best
    if MASKED:  # a row that has seen no key yet: -inf - -inf would be NaN
        shift = tl.where(new_best == float("-inf"), 0.0, new_best)
    rescale = tl.exp2((best - shift) * scale_log2)
    weights = tl.exp2(scores * scale_log2 - (shift * scale_log2)[:, None])
    return weights, rescale, new_best, total * rescale + tl.sum(weights, 1)


@triton.jit
def add_values(acc, weights, rescale, values):
    return tl.dot(weights.to(values.dtype), values, acc * rescale[:, None], input_precision="ieee")


@triton.jit(do_not_specialize=["q_heads", "group", "q_len", "kv_len", "q_tiles", "lse_rows"])  # one compilation for all lengths
def flash_forward_kernel(
    q, k, v, out_ptr, lse_ptr, cu_q_ptr, cu_k_ptr, q_strides, k_strides, v_strides, out_strides,
    q_heads, group, q_len, kv_len, q_tiles, lse_rows, scale_log2,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    CAUSAL: tl.constexpr, PACKED: tl.constexpr, WITH_LSE: tl.constexpr, DESCRIPTORS: tl.constexpr,
):  # fmt: skip
    """One program owns BM queries of one head and walks over their keys, BN at a time.

    q_strides ... out_strides  (batch, row, head) in elements; the last axis has stride 1
    q_tiles   of the longest sequence; the grid is q_tiles * q_heads * batch programs, tiles of one head side by side
    lse_rows  q_len, PACKED the rows of q: lse is contiguous
    """
    program = tl.program_id(0)
    tile = program % q_tiles
    if CAUSAL:
        tile = q_tiles - 1 - tile  # the last queries see the most keys: long programs start first, short ones fill the end
    head = program // q_tiles % q_heads
    sequence = program // q_tiles // q_heads
    batch, q_first, k_first = sequence, 0, 0
    if PACKED:
        batch = sequence * 0
        q_first, k_first = tl.load(cu_q_ptr + sequence), tl.load(cu_k_ptr + sequence)
        q_len, kv_len = tl.load(cu_q_ptr + sequence + 1) - q_first, tl.load(cu_k_ptr + sequence + 1) - k_first
    row = tile * BM
    if PACKED:  # noqa: SIM102 - the outer one is a constant
        if row >= q_len:  # this sequence has fewer tiles than the longest
            return
    offset = kv_len - q_len
    end, plain = kv_len, kv_len  # keys that some query of this program sees, and those that all of them see
    if CAUSAL:
        end = tl.maximum(tl.minimum(kv_len, row + BM + offset), 0)
        plain = tl.maximum(tl.minimum(kv_len, row + 1 + offset), 0)
    last = tl.maximum(tl.cdiv(end, BN) - 1, 0) * BN  # where the last tile starts; it is always masked
    plain = tl.minimum(plain // BN * BN, last)

    rows = row + tl.arange(0, BM)
    best = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, BLOCK_D), tl.float32)
    at_k = (batch, head // group, k_first)
    q_tile = load_rows(q, q_strides, (batch, head, q_first), row, q_len, BM, HEAD_DIM, BLOCK_D, DESCRIPTORS, True)
    scores = tl.zeros((BM, BN), tl.float32)
    if end > 0:
        keys = load_rows(k, k_strides, at_k, 0, kv_len, BN, HEAD_DIM, BLOCK_D, DESCRIPTORS, True)
        scores = tl.dot(q_tile, keys.T, input_precision="ieee")
    for start in range(0, plain, BN):
        keys = load_rows(k, k_strides, at_k, start + BN, kv_len, BN, HEAD_DIM, BLOCK_D, DESCRIPTORS, True)
        values = load_rows(v, v_strides, at_k, start, kv_len, BN, HEAD_DIM, BLOCK_D, DESCRIPTORS, False)
        weights, rescale, best, total = softmax_step(scores, best, total, scale_log2, False)
        scores = tl.dot(q_tile, keys.T, input_precision="ieee")
        acc = add_values(acc, weights, rescale, values)
    if CAUSAL:  # full: all tiles before the last one are plain
        for start in range(plain, last, BN):
            keys = load_rows(k, k_strides, at_k, start + BN, kv_len, BN, HEAD_DIM, BLOCK_D, DESCRIPTORS, True)
            values = load_rows(v, v_strides, at_k, start, kv_len, BN, HEAD_DIM, BLOCK_D, DESCRIPTORS, False)
            scores = mask_scores(scores, rows, start, kv_len, offset, BN, CAUSAL)
            weights, rescale, best, total = softmax_step(scores, best, total, scale_log2, True)
            scores = tl.dot(q_tile, keys.T, input_precision="ieee")
            acc = add_values(acc, weights, rescale, values)
    if end > 0:
        values = load_rows(v, v_strides, at_k, last, kv_len, BN, HEAD_DIM, BLOCK_D, DESCRIPTORS, True)
        if DESCRIPTORS and PACKED:  # behind the sequence may stand a NaN, and 0 * NaN is NaN
            values = tl.where((last + tl.arange(0, BN) < kv_len)[:, None], values, 0.0)
        scores = mask_scores(scores, rows, last, kv_len, offset, BN, CAUSAL)
        weights, rescale, best, total = softmax_step(scores, best, total, scale_log2, True)
        acc = add_values(acc, weights, rescale, values)

    empty = total == 0.0
    out = acc / tl.where(empty, 1.0, total)[:, None]
    dims, live = tl.arange(0, BLOCK_D), rows < q_len
    start = batch.to(tl.int64) * out_strides[0] + head.to(tl.int64) * out_strides[2]
    pointers = out_ptr + start + (q_first + rows).to(tl.int64)[:, None] * out_strides[1] + dims[None, :]
    tl.store(pointers, out.to(out_ptr.dtype.element_ty), mask=live[:, None] & (dims < HEAD_DIM)[None, :])
    if WITH_LSE:
        ln2: tl.constexpr = 0.6931471805599453
        lse = (best * scale_log2 + tl.log2(tl.where(empty, 1.0, total))) * ln2
        start = (batch * q_heads + head).to(tl.int64) * lse_rows
        tl.store(lse_ptr + start + q_first + rows, tl.where(empty, float("-inf"), lse), mask=live)
