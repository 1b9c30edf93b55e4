"""A tiled product's ledger equals what follows from the tiling: A is read once for each column of tiles, B for each row."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from .kernels.matmul import matmul
from .kernels.traffic import batched_dot_kernel
from .ledger_helpers import QUICK, at, blocks, counted, line, rows, sectors

KINDS = {
    torch.float16: ("fp16", 2), torch.bfloat16: ("bf16", 2), torch.float32: ("fp32", 4), torch.int8: ("int8", 4),
    torch.float8_e4m3fn: ("fp8e4nv", 4), torch.float8_e5m2: ("fp8e5", 4),
}  # fmt: skip
SIDES = st.sampled_from([16, 32, 64, 128])


@pytest.mark.parametrize("dtype", KINDS, ids=str)
@QUICK
@given(
    m=st.integers(1, 150), n=st.integers(1, 150), k=st.integers(0, 150), bm=SIDES, bn=SIDES, bk=st.sampled_from([32, 64]),
    start=st.integers(0, 9), extra=st.integers(0, 3), turned=st.booleans(),
)  # fmt: skip
def test_a_product_costs_what_its_tiles_say(dtype, m, n, k, bm, bn, bk, start, extra, turned):
    kind, size_c = KINDS[dtype]
    size = dtype.itemsize
    a = at(start, (m, k), dtype, pitch=k + extra or 1)
    b = at(start, (n, k), dtype, pitch=k + extra or 1).T if turned else at(start, (k, n), dtype, pitch=n + extra)
    launch = counted(matmul, a, b, bm=bm, bn=bn, bk=bk)
    row_tiles, col_tiles, steps = blocks(m, bm), blocks(n, bn), blocks(k, bk)
    programs = len(row_tiles) * len(col_tiles)
    assert launch.grid == (len(row_tiles), len(col_tiles), 1)
    none = type(launch.total)()
    read_a, read_b = launch.arguments.get("a_ptr", none), launch.arguments.get("b_ptr", none)
    written = launch.arguments["c_ptr"]
    assert read_a.loads == read_b.loads == programs * len(steps)
    assert (read_a.loaded_bytes, read_a.distinct_loaded_bytes) == (len(col_tiles) * m * k * size, m * k * size)
    assert (read_b.loaded_bytes, read_b.distinct_loaded_bytes) == (len(row_tiles) * k * n * size, k * n * size)
    assert (written.stores, written.stored_bytes, written.distinct_stored_bytes) == (programs, m * n * size_c, m * n * size_c)
    assert launch.total.bytes == read_a.loaded_bytes + read_b.loaded_bytes + m * n * size_c
    sectors_a = sum(sectors(rows(a, r, s.start, s.stop)) for r in row_tiles for s in steps)
    sectors_b = sum(sectors(rows(b, s, c.start, c.stop)) for c in col_tiles for s in steps)
    assert read_a.sectors_loaded == len(col_tiles) * sectors_a
    assert read_b.sectors_loaded == len(row_tiles) * sectors_b
    flops = 2 * bm * bn * bk * programs * len(steps)
    assert launch.dot_flops == ({kind: flops} if k else {})
    assert launch.flops == flops
    assert launch.elementwise_flops == 0
    assert launch.special_calls == {}
    if k:
        assert (read_a.rereads, read_b.rereads) == (len(col_tiles), len(row_tiles))
        assert launch.intensity == flops / ((m * k + k * n) * size + m * n * size_c)
        assert launch.requested_intensity == flops / launch.total.bytes
        assert line(launch, "a = tl.load(") == read_a
        assert line(launch, "b = tl.load(") == read_b
        assert {place.text.split(" = ")[0] for place in launch.dot_lines} == {"acc"}


def test_a_product_of_512_in_tiles_of_64_in_numbers():
    """64 programs, A and B each read 8 times: 8 MiB, 0.5 MiB stored, 268 million FLOPs, every sector used in full."""
    launch = counted(matmul, at(0, (512, 512), torch.float16), at(0, (512, 512), torch.float16), bk=64)
    mib = 2**20
    assert (launch.programs, launch.total.loads, launch.total.stores) == (64, 64 * 8 * 2, 64)
    assert (launch.total.loaded_bytes, launch.total.distinct_loaded_bytes, launch.total.stored_bytes) == (8 * mib, mib, mib // 2)
    assert launch.total.sectors_loaded == 8 * mib // 32
    assert launch.dot_flops == {"fp16": 2 * 512**3}
    assert (launch.total.coalescing, launch.total.rereads) == (1.0, 8.0)
    assert launch.intensity == 2 * 512**3 / (1.5 * mib)


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_float32_products_are_told_apart_by_their_precision(precision):
    launch = counted(matmul, at(0, (16, 16)), at(0, (16, 16)), bm=16, bn=16, bk=32, precision=precision)
    assert launch.dot_flops == {{"ieee": "fp32", "tf32": "tf32"}[precision]: 2 * 16 * 16 * 32}


@pytest.mark.parametrize(("b", "m", "n", "k"), [(1, 16, 16, 16), (4, 16, 32, 64)])
def test_a_batched_product_multiplies_each_matrix_of_the_batch(b, m, n, k):
    x, y, out = at(0, (b, m, k), torch.float16), at(0, (b, k, n), torch.float16), at(0, (b, m, n))
    launch = counted(batched_dot_kernel[(1,)], x, y, out, B=b, M=m, N=n, K=k)
    assert launch.dot_flops == {"fp16": 2 * b * m * n * k}
    assert launch.total.loaded_bytes == 2 * b * (m * k + k * n)
    assert launch.total.sectors_loaded == 2 * b * (m * k + k * n) // 32
    assert (launch.total.stored_bytes, launch.total.sectors_stored) == (4 * b * m * n, 4 * b * m * n // 32)
