"""What tile_limits.py says of a tile, held to the compiler: shared bytes exactly, registers as a bound."""

import pytest
import torch

from course_lib.attention.forward import launch_arguments
from course_lib.attention.forward_kernel import flash_forward_kernel
from course_lib.attention.one_loop_kernel import one_loop_kernel, one_loop_launch
from course_lib.attention.reference import attention_reference
from course_lib.attention.tile_limits import Sm, check_tile, programs_per_sm, sm_of, tile_needs
from course_lib.attention.tiles import Tile
from course_lib.hardware import spec
from course_lib.interpreter.compiled import Launch, compile_reports
from course_lib.workloads.tile_gpus import A100, H200, L4

GPUS = {"sm_80": spec("a100-sxm-80gb"), "sm_89": spec("l4"), "sm_90": spec("h200-sxm")}
COMPILED = [  # tile, head_dim, target
    (Tile(128, 64, 8, 2), 128, "sm_80"), (Tile(64, 64, 4, 3), 128, "sm_80"), (Tile(64, 32, 4, 4), 64, "sm_89"),
    (Tile(64, 64, 4, 3), 128, "sm_90"), (Tile(128, 128, 8, 4), 128, "sm_90"), (Tile(128, 128, 4, 3), 128, "sm_90"),
]  # fmt: skip


def launch(tile, head_dim, target):
    q = torch.empty(2, 4096, 8, head_dim, dtype=torch.bfloat16, device="meta")
    _, args, options = one_loop_launch(q, q, q, q, tile)
    return Launch(one_loop_kernel, args, options, (target,))


def described(tile, head_dim):
    q = torch.empty(2, 4096, 8, head_dim, dtype=torch.bfloat16, device="meta")
    args, options = launch_arguments(q, q, q, q, None, None, 4096, 4096, False, 0.1, tile)
    return Launch(flash_forward_kernel, args, options, ("sm_90",))


def held_to(rows):
    """Shared bytes, and spills where they are sure, of these rows as compiled."""
    reports = compile_reports([launch(*row) for row in rows])
    for (tile, head_dim, target), report in zip(rows, reports, strict=True):
        needs, found = tile_needs(tile, head_dim, sm_of(GPUS[target])), report[target]
        assert found.shared_bytes == needs.shared_bytes, (tile, head_dim, target)
        assert found.fits is (needs.shared_bytes <= sm_of(GPUS[target]).shared_block_bytes)
        assert found.spills or found.registers >= needs.least_registers, (tile, head_dim, target)
        assert found.spills or not needs.must_spill, (tile, head_dim, target)


@pytest.mark.compile
def test_the_compiler_allots_the_shared_memory_that_is_computed():
    held_to(COMPILED)


@pytest.mark.compile
@pytest.mark.soak
def test_so_it_does_for_every_tile_of_a_grid():
    held_to([
        (Tile(rows, keys, warps, stages), head_dim, target)
        for head_dim in (64, 128) for rows in (64, 128) for keys in (32, 64, 128) for warps in (4, 8) for stages in (2, 3, 4)
        for target in ("sm_80", "sm_90")
    ])  # fmt: skip


@pytest.mark.compile
@pytest.mark.soak
def test_a_product_whose_result_fills_the_registers_of_a_hopper_thread_does_not_compile():
    tile = Tile(256, 256, 16, 2)
    (report,) = compile_reports([launch(tile, 64, "sm_90")])
    assert tile_needs(tile, 64, sm_of(GPUS["sm_90"])).must_spill
    assert not report["sm_90"].compiles
    assert "Insufficient registers (128)" in report["sm_90"].why_not


@pytest.mark.compile
def test_the_forward_kernel_needs_eight_bytes_a_stage_more():
    tile = Tile(64, 64, 4, 3, descriptors=True)
    (report,) = compile_reports([described(tile, 80)])
    assert report["sm_90"].shared_bytes == tile_needs(tile, 80, sm_of(GPUS["sm_90"])).shared_bytes + 8 * tile.stages


def test_numbers_by_hand():
    hopper, ampere = sm_of(GPUS["sm_90"]), sm_of(GPUS["sm_80"])
    tile = Tile(64, 64, 4, 3)
    assert tile_needs(tile, 128, hopper).shared_bytes == (16 + 3 * 32) * 1024
    assert tile_needs(tile, 128, ampere).shared_bytes == (16 + 2 * 32 + 8) * 1024
    assert tile_needs(tile, 80, hopper) == tile_needs(tile, 128, hopper)
    assert tile_needs(Tile(128, 176, 8, 2), 128, hopper).shared_bytes == 208 * 1024  # FlashAttention-3's
    assert tile_needs(tile, 128, hopper).least_registers == 96
    assert [tile_needs(Tile(64, 64, warps, 2), 64, hopper).register_limit for warps in (4, 8, 16, 32)] == [255, 255, 128, 64]


@pytest.mark.parametrize(("rows", "keys", "head_dim", "warps", "spills"), [(128, 128, 128, 4, True), (256, 128, 128, 16, False)])
def test_256_registers_of_255_must_spill_and_128_of_128_need_not(rows, keys, head_dim, warps, spills):
    assert tile_needs(Tile(rows, keys, warps, 2), head_dim, sm_of(GPUS["sm_90"])).must_spill is spills


def test_programs_share_an_sm_by_what_runs_out_first():
    sm = sm_of(GPUS["sm_90"])
    two = tile_needs(Tile(64, 64, 4, 3), 128, sm)
    assert programs_per_sm(two, sm) == 2  # shared memory
    assert programs_per_sm(two, sm, registers=255) == 2
    assert programs_per_sm(tile_needs(Tile(64, 64, 16, 2), 64, sm), sm) == 4  # threads
    assert programs_per_sm(tile_needs(Tile(64, 64, 4, 3), 64, sm), sm) == 4  # 57 KiB each with what is reserved: exactly
    assert programs_per_sm(tile_needs(Tile(128, 128, 8, 4), 128, sm), sm) == 0
    assert programs_per_sm(tile_needs(Tile(32, 32, 4, 9), 64, sm), sm) == 2  # 76 KiB: three, were nothing reserved
    assert programs_per_sm(tile_needs(Tile(256, 256, 8, 2), 64, sm), sm) == 1  # spills, and no thread has more than 255


@pytest.mark.parametrize(("tile", "head_dim", "gpu", "words"), [
    (Tile(128, 128, 8, 4), 128, "h200-sxm", r"294,912 bytes of shared memory, a block on H200 SXM can have 232,448.* 3 stages"),
    (Tile(256, 256, 16, 2), 128, "h200-sxm", r"327,680 bytes.*use a smaller block, say 128 x 128"),
    (Tile(16, 1024, 4, 2), 128, "h200-sxm", r"use a smaller block, say 16 x 128"),
    (Tile(128, 128, 4, 2), 128, "h200-sxm", r"256 registers of each of 128 threads, which have 255.*use 8 warps"),
    (Tile(256, 256, 8, 2), 64, "h200-sxm", r"320 registers.*more warps do not help, an SM has 65536"),
    (Tile(128, 96, 8, 2), 128, "h200-sxm", r"key_rows 96 is not a power of two.*use 64 or 128"),
    (Tile(0, 64, 8, 2), 128, "h200-sxm", r"query_rows must be a whole number from 1 on, got 0"),
    (Tile(64.0, 64, 8, 2), 128, "h200-sxm", r"query_rows must be a whole number from 1 on, got 64.0"),
    (Tile(64, 64, 0, 2), 128, "h200-sxm", r"warps must be a whole number"),
    (Tile(64, 64, 6, 2), 128, "h200-sxm", r"warps 6 is not a power of two.*use 4 or 8"),
    (Tile(64, 64, 64, 2), 128, "h200-sxm", r"64 warps are 2048 threads, and a block can have 1024; use 32 warps or fewer"),
    (Tile(64, 64, 4, 0), 64, "h200-sxm", r"stages must be a whole number from 1 on, got 0"),
    (Tile(64, 64, 4, 2), 0, "h200-sxm", r"head_dim must be a whole number from 1 on, got 0"),
    (Tile(64, 64, 4, 1), 64, "h200-sxm", r"1 stage: .* from 2 stages on"),
    (Tile(64, 64, 4, 2), 64, "t4", r"no rule for compute capability 7.5 \(T4\)"),
    (Tile(64, 64, 4, 2), 64, "b200-sxm", r"no rule for compute capability 10.0"),
])  # fmt: skip
def test_what_cannot_be_had_is_refused_with_number_limit_and_next_step(tile, head_dim, gpu, words):
    with pytest.raises(ValueError, match=words):
        check_tile(tile, head_dim, spec(gpu))


def test_elements_of_another_size_are_counted_in_the_needs_and_in_the_advice():
    gpu = spec("h200-sxm")
    assert check_tile(Tile(128, 128, 8, 4), 128, gpu, element_bytes=1).shared_bytes == 147_456
    for tile, words in ((Tile(128, 64, 8, 4), "use 2 stages"), (Tile(256, 256, 16, 2), "say 64 x 64 with 2 stages")):
        with pytest.raises(ValueError, match=words):
            check_tile(tile, 128, gpu, element_bytes=4)


def test_a_tile_that_nothing_forbids_comes_with_its_needs():
    assert check_tile(Tile(128, 64, 8, 3), 128, spec("h200-sxm")).shared_bytes == 131072
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="no GPU of hardware"):
            check_tile(Tile(128, 64, 8, 3), 128)


@pytest.mark.parametrize(("gpu", "key"), [(A100, "sm_80"), (L4, "sm_89"), (H200, "sm_90")])
def test_the_exercise_s_gpus_are_those_of_the_data_sheets(gpu, key):
    shared = gpu.shared_block_bytes, gpu.shared_sm_bytes
    assert Sm(gpu.products_read_shared, *shared, gpu.threads_sm) == sm_of(GPUS[key])
    assert gpu.target == key


def test_one_loop_is_attention():
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, rows, heads, 16, generator=draw).half() for rows, heads in ((19, 2), (37, 1), (37, 1)))
    out = torch.empty_like(q)
    grid, args, options = one_loop_launch(q, k, v, out, Tile(16, 16, 4, 2))
    one_loop_kernel[grid](*args, **options)
    exact = attention_reference(q, k, v)[0]
    # weights and result are rounded to 11 bits
    torch.testing.assert_close(out.double(), exact.double(), rtol=2e-3, atol=2e-3)
