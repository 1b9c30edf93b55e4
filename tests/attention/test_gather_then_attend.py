"""K and V of a row in one piece: gathered there, which is the oracle and three times the bytes, or kept there from the start."""

import torch
import triton
import triton.language as tl

from course_lib import interpreter
from course_lib.attention.decode import contiguous_decode, paged_decode
from course_lib.attention.paged_reference import decode_reference, gather_blocks
from course_lib.attention.reference import attention_reference

from .paged_cases import assert_close, cache, queries

LENGTHS, BLOCK, HEADS, DIM = [32, 96, 64], 16, 2, 64


@triton.jit
def gather_kernel(blocks_ptr, table_ptr, out_ptr, table_stride, out_stride, length, BLOCK: tl.constexpr, WIDTH: tl.constexpr):
    """Program (i, row) copies block i of a row's table to its place in the row."""
    i, row = tl.program_id(0), tl.program_id(1)
    if i * BLOCK < tl.load(length + row):
        block = tl.load(table_ptr + row * table_stride + i).to(tl.int64)
        cells = tl.arange(0, BLOCK * WIDTH)
        tl.store(out_ptr + row * out_stride + i * BLOCK * WIDTH + cells, tl.load(blocks_ptr + block * BLOCK * WIDTH + cells))


def gather(blocks, tables, lengths):
    out = torch.zeros(len(lengths), max(lengths), HEADS, DIM, dtype=blocks.dtype)
    sizes = torch.tensor(lengths, dtype=torch.int32)
    grid = (max(lengths) // BLOCK, len(lengths))
    gather_kernel[grid](blocks, tables, out, tables.stride(0), out.stride(0), sizes, BLOCK=BLOCK, WIDTH=HEADS * DIM)
    return out


def moved(book):
    """Bytes of K and V that were loaded and stored, by launch."""
    names = ("k_ptr", "v_ptr", "blocks_ptr", "out_ptr")
    found = []
    for launch in book.launches:
        read = [launch.arguments[name] for name in names if name in launch.arguments]
        found.append((sum(one.loaded_bytes for one in read), sum(one.stored_bytes for one in read)))
    return found


def test_gathered_blocks_are_the_row_and_what_attends_over_them_is_the_oracle():
    pool, q = cache(LENGTHS, HEADS, DIM, BLOCK), queries(3, 4, DIM)
    gathered = [gather(blocks, pool.tables, LENGTHS) for blocks in (pool.k, pool.v)]
    oracle = decode_reference(q, pool.k, pool.v, pool.tables, LENGTHS)[0]
    for row, length in enumerate(LENGTHS):
        k, v = (whole[row, :length] for whole in gathered)
        assert torch.equal(k, gather_blocks(pool.k, pool.tables[row], length))
        assert torch.equal(v, gather_blocks(pool.v, pool.tables[row], length))
        one, _ = attention_reference(q[row][None, None], k[None], v[None])
        torch.testing.assert_close(one[0, 0], oracle[row], rtol=0, atol=0)
        mixed, _ = attention_reference(q[row][None, None], k.flip(0)[None], v[None])
        assert (mixed[0, 0] - oracle[row]).abs().max() > 1e-2  # an order that is not the table's is another result


def test_the_slow_way_moves_three_times_the_bytes_of_reading_through_the_table():
    pool, q = cache(LENGTHS, HEADS, DIM, BLOCK), queries(3, 4, DIM)
    with interpreter.ledger() as book:
        through = paged_decode(q, pool.k, pool.v, pool.tables, LENGTHS, impl="triton")
    live = 2 * pool.live_bytes
    assert moved(book)[0][0] == live
    with interpreter.ledger() as book:
        k, v = (gather(blocks, pool.tables, LENGTHS) for blocks in (pool.k, pool.v))
        after = contiguous_decode(q, k, v, LENGTHS)
    gathers, attend = moved(book)[:2], moved(book)[2]
    assert sum(loaded + stored for loaded, stored in gathers) + attend[0] == 3 * live
    assert_close(after, through.double(), torch.float32)


def test_rows_of_one_length_kept_in_one_piece_need_no_table_and_little_else_is_saved():
    """The same memory both ways, 3 rows of 64 tokens. A table costs int32 entries, beside blocks of 4 KiB a head."""
    draw = torch.Generator().manual_seed(0)
    k, v = (torch.randn(3, 64, HEADS, DIM, generator=draw) for _ in range(2))
    q, tables = queries(3, 4, DIM), torch.arange(12, dtype=torch.int32).view(3, 4)
    with interpreter.ledger() as book:
        whole = contiguous_decode(q, k, v)
        blocks = (one.view(12, BLOCK, HEADS, DIM) for one in (k, v))
        paged = paged_decode(q, *blocks, tables, [64] * 3, impl="triton")
    assert torch.equal(whole, paged)
    in_one_piece, through_a_table = (launch.arguments for launch in book.launches)
    assert "tables_ptr" not in in_one_piece
    for name in ("k_ptr", "v_ptr", "items_ptr"):
        assert in_one_piece[name].loaded_bytes == through_a_table[name].loaded_bytes
    table_bytes = through_a_table["tables_ptr"].loaded_bytes
    assert 0 < table_bytes < 0.01 * 2 * through_a_table["k_ptr"].loaded_bytes  # read by each of a tile's tokens, and by each head
