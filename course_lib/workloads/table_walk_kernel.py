"""A walk through block tables of one level or of two, which reads each block's words and adds them up.

It does what a decode kernel waits for and nothing else: find a block's number, read the block.
"""

import triton
import triton.language as tl


@triton.jit
def table_walk_kernel(
    words_ptr, tables_ptr, leaves_ptr, sums_ptr, num_blocks, table_stride,
    TWO_LEVELS: tl.constexpr, LEAF: tl.constexpr, PARTS: tl.constexpr, WORDS: tl.constexpr,
):  # fmt: skip
    """Program (row, part) reads WORDS int32 of every PARTS-th block of its row -> sums [rows, PARTS, WORDS].

    tables  [rows, table_stride]: block numbers, or with TWO_LEVELS numbers of leaves [leaves, LEAF] that hold block numbers
    """
    row, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    word = tl.arange(0, WORDS)
    total = tl.zeros((WORDS,), tl.int32)
    for index in range(part, num_blocks, PARTS):
        if TWO_LEVELS:
            leaf = tl.load(tables_ptr + row * table_stride + index // LEAF).to(tl.int64)
            block = tl.load(leaves_ptr + leaf * LEAF + index % LEAF).to(tl.int64)
        else:
            block = tl.load(tables_ptr + row * table_stride + index).to(tl.int64)
        total += tl.load(words_ptr + block * WORDS + word)
    tl.store(sums_ptr + (row * PARTS + part) * WORDS + word, total)
