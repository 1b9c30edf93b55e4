"""Answers to exercise 1.4. Each holds its kernel, and imports what a cell would import, so that it can be judged alone."""

from ..spoiling import spoiled


def by_blocks(x, out):
    import triton
    import triton.language as tl

    @triton.jit
    def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        live = index < n
        tl.store(out_ptr + index, tl.load(x_ptr + index, mask=live), mask=live)

    if x.shape != out.shape or x.dtype != out.dtype:
        raise ValueError(f"x is {x.dtype} {list(x.shape)}, out is {out.dtype} {list(out.shape)}; both must be alike")
    if not (x.is_contiguous() and out.is_contiguous()):
        raise ValueError(f"strides {x.stride()} and {out.stride()}; pass contiguous tensors")
    n = x.numel()
    copy_kernel[(triton.cdiv(n, 2048),)](x, out, n, BLOCK=2048)
    return out


def by_a_grid_stride_loop(x, out):
    """At most so many programs, however long the tensor is; each takes one block after another."""
    import triton
    import triton.language as tl

    @triton.jit
    def strided_kernel(src, dst, count, BLOCK: tl.constexpr):
        first = tl.program_id(axis=0).to(tl.int64) * BLOCK
        step = tl.num_programs(axis=0).to(tl.int64) * BLOCK
        for start in range(first, count, step):
            offsets = start + tl.arange(0, BLOCK)
            inside = offsets < count
            value = tl.load(src + offsets, mask=inside, other=0)
            tl.store(dst + offsets, value, mask=inside)

    for name, tensor in (("x", x), ("out", out)):
        if not tensor.is_contiguous():
            raise ValueError(f"{name} has strides {tensor.stride()}; call .contiguous() first")
    if x.dtype is not out.dtype or tuple(x.size()) != tuple(out.size()):
        raise ValueError("x and out differ in shape or dtype; make out with torch.empty_like(x)")
    if x.numel():
        strided_kernel[(min(triton.cdiv(x.numel(), 1024), 2112),)](x, out, x.numel(), BLOCK=1024)
    return out


def in_two_dimensions(x, out):
    """Blocks of 16 rows of 128 elements, with hints that what is read or written once need not stay in the cache."""
    import triton
    import triton.language as tl

    @triton.jit
    def tile_kernel(x_ptr, y_ptr, n, ROWS: tl.constexpr, COLS: tl.constexpr):
        tile = tl.program_id(0).to(tl.int64) * (ROWS * COLS)
        at = tile + tl.arange(0, ROWS)[:, None] * COLS + tl.arange(0, COLS)[None, :]
        values = tl.load(x_ptr + at, mask=at < n, eviction_policy="evict_first")
        tl.store(y_ptr + at, values, mask=at < n, eviction_policy="evict_first")

    if x.shape != out.shape:
        raise ValueError(f"x has shape {tuple(x.shape)} and out {tuple(out.shape)}: give them one shape")
    if x.dtype != out.dtype:
        raise ValueError(f"x is {x.dtype} and out {out.dtype}: a copy does not convert")
    if not x.is_contiguous() or not out.is_contiguous():
        raise ValueError("a tensor with gaps cannot be copied as one run of elements: make it contiguous")
    tile_kernel[(-(-x.numel() // 2048), 1, 1)](x, out, x.numel(), ROWS=16, COLS=128, num_warps=4)
    return out


def tuned(x, out):
    """The block is the autotuner's choice, and the grid follows from it."""
    import triton
    import triton.language as tl

    @triton.autotune(
        configs=[triton.Config({"BLOCK": 4096}, num_warps=8), triton.Config({"BLOCK": 1024}, num_warps=4)], key=["n"]
    )
    @triton.jit
    def tuned_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        pid = tl.program_id(0).to(tl.int64)
        lanes = pid * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + lanes, tl.load(x_ptr + lanes, lanes < n, 0), lanes < n)

    alike = x.shape == out.shape and x.dtype == out.dtype
    if not alike or not x.is_contiguous() or not out.is_contiguous():
        raise ValueError("copy takes contiguous tensors of one shape and dtype; see x.contiguous() and torch.empty_like(x)")
    n = x.numel()
    tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    return out


def flattened(x, out):
    """Pointers move first, and the kernel counts down what is left."""
    import triton
    import triton.language as tl

    @triton.jit
    def moved_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        start = tl.program_id(0).to(tl.int64) * BLOCK
        x_ptr += start
        out_ptr += start
        live = tl.arange(0, BLOCK) < n - start
        tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + tl.arange(0, BLOCK), mask=live), mask=live)

    if x.dtype != out.dtype or x.shape != out.shape:
        raise ValueError("shape and dtype of out must be those of x")
    if x.is_contiguous() and out.is_contiguous():
        flat_x, flat_out = x.view(-1), out.view(-1)
        blocks = (x.numel() + 8191) // 8192
        moved_kernel[(blocks,)](flat_x, flat_out, x.numel(), BLOCK=8192, num_warps=8)
        return out
    raise ValueError("x and out must be contiguous; pass x.contiguous()")


def unrolled(x, out):
    """Four blocks for each program, one behind the other; the loop is undone while compiling."""
    import triton
    import triton.language as tl

    @triton.jit
    def unrolled_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, BLOCKS: tl.constexpr):
        first = tl.program_id(0).to(tl.int64) * (BLOCK * BLOCKS)
        for part in tl.static_range(BLOCKS):
            here = first + part * BLOCK + tl.arange(0, BLOCK)
            tl.store(out_ptr + here, tl.load(x_ptr + here, mask=here < n), mask=here < n)

    for tensor in (x, out):
        if tensor.is_contiguous() is False:
            raise ValueError(f"a tensor with strides {tensor.stride()} has gaps; pass one without")
    if (x.shape, x.dtype) != (out.shape, out.dtype):
        raise ValueError(f"{x.dtype} {tuple(x.shape)} does not fit into {out.dtype} {tuple(out.shape)}; use torch.empty_like(x)")
    unrolled_kernel[((x.numel() + 4095) // 4096,)](x, out, x.numel(), BLOCK=1024, BLOCKS=4)
    return out


def zeros(x, out):
    return out.zero_()


def by_torch(x, out):
    if x.shape != out.shape or x.dtype != out.dtype or not (x.is_contiguous() and out.is_contiguous()):
        raise ValueError("contiguous tensors of one shape and dtype, please")
    return out.copy_(x)


LOAD, STORE = "tl.load(x_ptr + index, mask=live)", "tl.store(out_ptr + index, "
GRID, INDEX = "(triton.cdiv(n, 2048),)", "tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)"
LAUNCH, END = "copy_kernel[(triton.cdiv(n, 2048),)](x, out, n, BLOCK=2048)", "return out"
CONTIGUOUS = "if not (x.is_contiguous() and out.is_contiguous())"
AGAIN = "x = x.contiguous()\n    n = x.numel()"
IN_TWO_STEPS = "middle = x.new_empty(x.shape)\n    for x, out in ((x, middle), (middle, out)):\n        "

no_mask = spoiled(by_blocks, "no_mask", (LOAD, "tl.load(x_ptr + index)"), (", mask=live)\n", ")\n"))
store_without_mask = spoiled(by_blocks, "store_without_mask", (", mask=live), mask=live)", ", mask=live, other=0))"))
mask_one_too_far = spoiled(by_blocks, "mask_one_too_far", ("index < n", "index <= n"))
mask_one_too_short = spoiled(by_blocks, "mask_one_too_short", ("index < n", "index < n - 1"))
grid_rounded_down = spoiled(by_blocks, "grid_rounded_down", (GRID, "(n // 2048,)"))
whole_blocks = spoiled(by_blocks, "whole_blocks", (GRID, "(n // 2048 + 1,)"), ("index < n", "index < n + 2048"))
one_place_too_low = spoiled(by_blocks, "one_place_too_low", (INDEX, INDEX + " - 1"), ("index < n", "(index >= 0) & (index < n)"))
programs_share_a_block = spoiled(by_blocks, "programs_share_a_block", (INDEX, "tl.arange(0, BLOCK)"))
reads_twice = spoiled(by_blocks, "reads_twice", (STORE + LOAD, STORE + f"tl.maximum({LOAD}, {LOAD})"))
stores_twice = spoiled(by_blocks, "stores_twice", (LAUNCH, f"{LAUNCH}\n    {LAUNCH}"))
through_a_buffer = spoiled(by_blocks, "through_a_buffer", (LAUNCH, IN_TWO_STEPS + LAUNCH))
into_new_memory = spoiled(by_blocks, "into_new_memory", ("n = x.numel()", "out = out.new_empty(out.shape)\n    n = x.numel()"))
returns_the_input = spoiled(by_blocks, "returns_the_input", (END, "return x"))
returns_nothing = spoiled(by_blocks, "returns_nothing", (END, "return None"))
dummy_kernel = spoiled(by_blocks, "dummy_kernel", ("](x, out, n", "](x, x.new_empty(x.shape), n"), (END, "return out.copy_(x)"))
one_by_one = spoiled(by_blocks, "one_by_one", (GRID, "(n,)"), ("BLOCK=2048", "BLOCK=1"))
small_blocks = spoiled(by_blocks, "small_blocks", (GRID, "(triton.cdiv(n, 256),)"), ("BLOCK=2048", "BLOCK=256"))
strides_ignored = spoiled(by_blocks, "strides_ignored", (CONTIGUOUS, "if False"))
made_contiguous = spoiled(by_blocks, "made_contiguous", (CONTIGUOUS, "if not out.is_contiguous()"), ("n = x.numel()", AGAIN))
converts = spoiled(by_blocks, "converts", (" or x.dtype != out.dtype", ""))
any_length = spoiled(by_blocks, "any_length", ("x.shape != out.shape or ", ""))
grid_is_a_number = spoiled(by_blocks, "grid_is_a_number", (GRID, "triton.cdiv(n, 2048)"))
asserts = spoiled(by_blocks, "asserts", ("raise ValueError(f\"strides", "raise AssertionError(f\"strides"))

ALL = {"values", "neighbours", "traffic", "compiled", "refusals"}
# each of the others costs a process for its launches: tests/exercises/test_copy_answers.py judges them together
WRONG = [(zeros, ALL), (returns_nothing, ALL - {"refusals"}), (mask_one_too_short, ALL - {"refusals"})]
MORE_WRONG = [
    (by_torch, {"values", "neighbours", "traffic", "compiled"}),
    (dummy_kernel, {"values", "neighbours", "traffic", "compiled"}),
    (returns_the_input, {"values", "traffic", "compiled"}),
    (no_mask, {"values", "neighbours", "traffic"}),
    (store_without_mask, {"values", "neighbours", "traffic"}),
    (mask_one_too_far, {"values", "neighbours", "traffic", "compiled"}),
    (whole_blocks, {"values", "neighbours", "traffic", "compiled"}),
    (grid_rounded_down, {"values", "neighbours", "traffic"}),
    (one_place_too_low, {"values", "compiled"}),
    (programs_share_a_block, {"values", "neighbours", "traffic", "compiled"}),
    (reads_twice, {"traffic"}),
    (stores_twice, {"traffic"}),
    (through_a_buffer, {"traffic"}),
    (into_new_memory, {"neighbours"}),
    (grid_is_a_number, ALL - {"refusals"}),
    (small_blocks, {"compiled"}),
    (strides_ignored, {"refusals"}),
    (made_contiguous, {"refusals"}),
    (converts, {"refusals"}),
    (any_length, {"refusals"}),
    (asserts, {"refusals"}),
]
RIGHT = [by_blocks, in_two_dimensions]
MORE_RIGHT = [by_a_grid_stride_loop, tuned, flattened, unrolled]
