"""Closed forms against the interpreter's ledger and against numbers worked out by hand."""

import torch

from course_lib import interpreter
from course_lib.attention import paged_cost as cost
from course_lib.attention.decode import plan_for
from course_lib.attention.decode_tile import DecodeTile
from course_lib.attention.paged_prefill import PrefillTile, paged_prefill
from course_lib.attention.paged_write import paged_write

from .paged_cases import cache, queries


def test_decode_bytes_are_the_least_plus_its_parts_and_its_work_list():
    lengths = [75, 0, 130, 16]
    pool, q = cache(lengths, 2, 64, 16, torch.bfloat16), queries(4, 8, 64, torch.bfloat16)
    plan = plan_for(q, pool.k, pool.tables, lengths, splits="even", programs=5, tile=DecodeTile(32, 4, 3, 3))
    with interpreter.ledger() as book:
        plan.run(q, pool.k, pool.v, pool.tables)
    decode, merge = book.launches
    vectors = ("k_ptr", "v_ptr", "out_ptr", "lse_ptr", "part_ptr", "part_lse_ptr")
    found = sum(launch.arguments[name].bytes for launch in (decode, merge) for name in vectors if name in launch.arguments)
    found += sum(decode.arguments[name].distinct_loaded_bytes for name in ("q_ptr", "tables_ptr"))
    assert found == cost.decode_least_bytes(lengths, 8, 2, 64, block_size=16) + cost.part_bytes(plan.list, 4, 64)


def test_prefill_bytes_are_those_of_its_tiles():
    pool, q = cache([40, 9], 2, 64, 16), queries(20, 4, 64)
    cu = torch.tensor([0, 17, 20], dtype=torch.int32)
    lengths = torch.tensor([40, 9], dtype=torch.int32)
    tile = PrefillTile(16, 64, 4, 3)
    for causal in (True, False):
        with interpreter.ledger() as book:
            paged_prefill(q, cu, pool.k, pool.v, pool.tables, lengths, causal=causal, impl="triton", tile=tile)
        found = sum(book.launches[0].arguments[name].loaded_bytes for name in ("k_ptr", "v_ptr"))
        assert found == cost.prefill_tile_bytes([17, 3], [40, 9], 2, 64, 8, causal=causal, element_bytes=4)


def test_the_write_moves_the_least():
    q, k, v, cos, sin = queries(3, 4, 64), queries(3, 2, 64), queries(3, 2, 64), torch.rand(3, 32), torch.rand(3, 32)
    pool = torch.zeros(2, 16, 2, 64)
    with interpreter.ledger() as book:
        paged_write(k, v, pool, pool.clone(), torch.tensor([1, 2, 3]), cos=cos, sin=sin, q=q, impl="triton")
    found = book.launches[0]
    names = ("q_ptr", "q_out_ptr", "k_ptr", "v_ptr", "k_blocks_ptr", "v_blocks_ptr", "slots_ptr")
    moved = sum(found.arguments[name].bytes for name in names)
    moved += sum(found.arguments[name].distinct_loaded_bytes for name in ("cos_ptr", "sin_ptr"))  # once for q and once for k
    assert moved == cost.write_least_bytes(3, 4, 2, 64, element_bytes=4)


def test_numbers_by_hand():
    assert cost.kv_bytes([1], 8, 128) == 4096
    assert cost.kv_bytes([8192] * 64, 8, 128) == 2_147_483_648
    assert cost.decode_flops([8192] * 64, 32, 128) == 4 * 32 * 128 * 64 * 8192
    flat, cascade = cost.cascade_kv_bytes(64, 16384, 256, 32, 8, 128)
    assert (round(flat / 1e9, 2), round(cascade / 1e9, 2)) == (4.36, 0.2)
    _, cascade = cost.cascade_kv_bytes(64, 16384, 256, 32, 8, 256)  # a tile has 64 rows there, 16 queries of 4 heads
    assert cascade == (4 * 16384 + 64 * 256) * 2 * 8 * 256 * 2
    assert cost.prefill_flops([512], [1536], 1, 128) == 4 * 128 * (512 * 1024 + 512 * 513 // 2)
