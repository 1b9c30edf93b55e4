"""What changes in the Hopper kernel where queries, keys and values are FP8 (e4m3): an operand's order, and where sums are kept.

Order    A wgmma of 8-bit operands takes four neighbouring keys of a row from a thread; scores come with two in a thread, and two
         from eight columns further on. Keys may come in any order, if weights and values agree on it. So the weights stay where
         they are, called by other names: place 16 h + 4 t + 2 b + e is key 16 h + 8 b + 2 t + e. The values are laid out in that
         order when they are transposed (hopper_fp8.py), which they must be anyway: 8-bit operands lie along the keys.
Sums     The tensor cores add FP8 products with about 14 bits. A tile of keys is summed there, tiles are summed in float32: the
         product of each tile begins at 0, and is added to the accumulator with the rescale factor, one FMA each.
Range    e4m3 has its smallest steps below 2**-6. Weights are at most 1, so they are multiplied by 2**8; the rows' sums are, too.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, warpgroup_mma, warpgroup_mma_wait

from .hopper_order import give_turn, wait_for_turn
from .hopper_softmax import mask_scores, rescaled, softmax_step

WEIGHTS_LOG2 = gl.constexpr(8)


@gluon.jit
def carry_eight(weights):
    """float32 [rows, keys] -> int32 [rows, keys / 4], four e4m3 in each, in the operand's order."""
    x = weights.reshape([weights.shape[0], weights.shape[1] // 16, 2, 4, 2])  # h, b, t, e
    x = x.permute([0, 1, 3, 2, 4]).reshape([weights.shape[0], weights.shape[1] // 4, 2, 2])
    even, odd = gl.split(x)
    first, third = gl.split(even)
    second, fourth = gl.split(odd)
    return gl.inline_asm_elementwise(
        "{ .reg .b16 low, high; cvt.rn.satfinite.e4m3x2.f32 low, $2, $1; cvt.rn.satfinite.e4m3x2.f32 high, $4, $3; "
        "mov.b32 $0, {low, high}; }",
        "=r,f,f,f,f", [first, second, third, fourth], gl.int32, is_pure=False, pack=1,
    )  # fmt: skip


@gluon.jit
def operand_eight(carried, layout: gl.constexpr):
    """The same as e4m3 [rows, keys] for a product; no instruction is left of it."""
    first, second = carried.to(gl.int8), (carried >> 8).to(gl.int8)
    third, fourth = (carried >> 16).to(gl.int8), (carried >> 24).to(gl.int8)
    x = gl.join(gl.join(first, third), gl.join(second, fourth)).reshape([carried.shape[0], carried.shape[1] * 4])
    return gl.convert_layout(x.to(gl.float8e4nv, bitcast=True), layout, assert_trivial=True)


@gluon.jit
def values_of(v_ring, stage, KEYS: gl.constexpr, DIMS: gl.constexpr, EIGHT: gl.constexpr):
    """[KEYS, DIMS] of a stage; EIGHT: it lies there transposed."""
    values = v_ring.index(stage)
    return values.reshape([DIMS, KEYS]).permute([1, 0]) if EIGHT else values.reshape([KEYS, DIMS])


@gluon.jit
def scales_of(scales, sequence, head, sizes, scale_log2):
    """-> scale of this head's scores, and of its values. scales: of q [batch, q_heads], of k and of v [batch, kv_heads]."""
    q_scale_ptr, k_scale_ptr, v_scale_ptr = scales
    q_heads, group, _q_len, _kv_len, _q_tiles, _tiles, _rounds, _heads_at_a_time = sizes
    kv = sequence * (q_heads // group) + head // group
    scale_log2 = scale_log2 * gl.load(q_scale_ptr + sequence * q_heads + head) * gl.load(k_scale_ptr + kv)
    return scale_log2, gl.load(v_scale_ptr + kv)


@gluon.jit
def add_values(acc, weights, rescale, values, layout: gl.constexpr):
    """The accumulator, brought up to date, and the product of the last tile."""
    acc_layout: gl.constexpr = acc.type.layout
    nothing = gl.zeros(acc.shape, gl.float32, acc_layout)
    part = warpgroup_mma(operand_eight(weights, layout), values, nothing, use_acc=False, is_async=True)
    part = warpgroup_mma_wait(0, deps=(part,))
    return acc * gl.convert_layout(rescale, gl.SliceLayout(1, acc_layout))[:, None] + part


@gluon.jit
def step_eight(
    queries, k_ring, v_ring, full, empty, used, acc, weights, rescale, best, parts, scale_log2, row, key, q_len, kv_len,
    MASKED: gl.constexpr, CAUSAL: gl.constexpr, WARPGROUP: gl.constexpr, SHAPE: gl.constexpr, STEPS: gl.constexpr,
):  # fmt: skip
    """`step` of hopper_consumer.py. `rescale` is that of the tile before: it belongs to what was summed before its values."""
    WARPGROUPS: gl.constexpr = SHAPE[0]
    ROWS: gl.constexpr = SHAPE[1]
    KEYS: gl.constexpr = SHAPE[2]
    DIMS: gl.constexpr = SHAPE[3]
    STAGES: gl.constexpr = SHAPE[4]
    OVERLAP: gl.constexpr = STEPS[0]
    PINNED: gl.constexpr = STEPS[1]
    PING_PONG: gl.constexpr = STEPS[2]
    acc_layout: gl.constexpr = acc.type.layout
    weights_layout: gl.constexpr = gl.DotOperandLayout(0, acc_layout, 4)
    scores_layout: gl.constexpr = best.type.layout.parent
    stage = used % STAGES
    keys = k_ring.index(stage).reshape([KEYS, DIMS]).permute([1, 0])
    values = values_of(v_ring, stage, KEYS, DIMS, True)
    nothing = gl.zeros([ROWS, KEYS], gl.float32, scores_layout)
    no_values = gl.zeros([ROWS, DIMS], gl.float32, acc_layout)
    mbarrier.wait(full.index(stage), used // STAGES & 1)
    if PING_PONG:
        wait_for_turn(WARPGROUP)
    scores = warpgroup_mma(queries, keys, nothing, use_acc=False, is_async=True)
    part = warpgroup_mma(operand_eight(weights, weights_layout), values, no_values, use_acc=False, is_async=True)
    if PING_PONG:
        give_turn(WARPGROUP, WARPGROUPS)
    if OVERLAP:
        scores = warpgroup_mma_wait(1, deps=(scores,))
    else:
        scores, part = warpgroup_mma_wait(0, deps=(scores, part))
        mbarrier.arrive(empty.index(stage), count=1)
    if MASKED:
        scores = mask_scores(scores, row, key, q_len, kv_len, CAUSAL)
    new_weights, new_rescale, best, new_parts = softmax_step(scores, best, scale_log2, MASKED, PINNED, WEIGHTS_LOG2)
    parts = rescaled(parts, new_rescale) + new_parts
    if OVERLAP:
        part = warpgroup_mma_wait(0, deps=(part,))  # not the weights: Triton 3.6 waits for no 8-bit values
        mbarrier.arrive(empty.index(stage), count=1)
    acc = acc * gl.convert_layout(rescale, gl.SliceLayout(1, acc_layout))[:, None] + part
    return acc, carry_eight(new_weights), new_rescale, best, parts
