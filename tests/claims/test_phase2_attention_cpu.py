"""What phase 2 claims of attention and a CPU can examine. tested.toml names each test here; its name is what it shows.

A launch that is refused, and times, are a GPU's: tests/gpu/test_tile_limits_on_device.py, benchmarks/results.
"""

import numpy as np
import pytest
import torch

from course_lib.attention.one_loop_kernel import one_loop_kernel, one_loop_launch
from course_lib.attention.tile_limits import check_tile, sm_of, tile_needs
from course_lib.attention.tiles import Tile
from course_lib.hardware import spec
from course_lib.interpreter.compiled import Launch, compile_reports
from tests.model.tiny import decoder, tokens

H200 = spec("h200-sxm")


def test_c012_a_view_of_all_heads_as_tiles_of_one_raises():
    q, tiles = torch.empty(128, 32, 128), torch.empty(2, 64, 128)
    with pytest.raises(RuntimeError, match="invalid for input of size 524288"):
        q.view_as(tiles)
    assert q.numel() == 32 * tiles.numel()  # the heads have nowhere to go
    assert torch.empty(128, 1, 128).view_as(tiles).shape == (2, 64, 128)  # one head
    with pytest.raises(RuntimeError, match="invalid for input"):
        torch.empty(127, 1, 128).view(-1, 64, 128)  # one head, and no multiple of the tile


def test_c082_v_is_multiplied_inside_the_loop_and_the_accumulator_rescaled():
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, rows, 16, generator=draw, dtype=torch.float64) for rows in (5, 70, 70))
    k[:, :, 40:48] *= 4  # so that the largest score of a row is not in its first tile
    exact = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    tiles = [slice(start, start + 16) for start in range(0, 70, 16)]

    def attend(rescaled):
        m, l, acc = torch.full((2, 3, 5, 1), -torch.inf, dtype=torch.float64), 0, 0
        for tile in tiles:
            scores = q @ k[:, :, tile].mT / 16**0.5
            new = torch.maximum(m, scores.amax(-1, keepdim=True))
            weights, scale = torch.exp(scores - new), torch.exp(m - new) if rescaled else 1
            l, acc, m = l * scale + weights.sum(-1, keepdim=True), acc * scale + weights @ v[:, :, tile], new
        return acc / l

    def v_in_one_final_pass():
        """As claimed: the loop leaves each tile's scores reduced by its own maximum and sum, and V comes once, at the end."""
        reduced = [torch.softmax(q @ k[:, :, tile].mT / 16**0.5, -1) for tile in tiles]
        return torch.cat(reduced, -1) @ v / len(tiles)

    assert (attend(rescaled=True) - exact).abs().max() < 1e-6
    assert (attend(rescaled=False) - exact).abs().max() > 0.1
    assert (v_in_one_final_pass() - exact).abs().max() > 0.1
    row_bytes = 128 * 8192 * 4  # kept whole, for a final pass that is right: the scores of 128 queries and 8192 keys
    assert row_bytes > 18 * H200.smem_per_block_kb * 1024


@pytest.fixture(scope="module")
def compiled():
    """A tile of 256 x 256, and a read through a block table, compiled for a Hopper GPU by the same few processes."""
    import triton
    import triton.language as tl

    @triton.jit
    def read_block_kernel(blocks_ptr, table_ptr, out_ptr, entry, D: tl.constexpr):
        place = tl.arange(0, 16)[:, None] * D + tl.arange(0, D)[None, :]
        block = tl.load(table_ptr + entry).to(tl.int64)
        tl.store(out_ptr + place, tl.load(blocks_ptr + block * 16 * D + place))

    def read(table_begins=0, blocks_begin=0):
        table = torch.empty(64, dtype=torch.int32)[table_begins:]
        blocks = torch.empty(8 * 16 * 64 + blocks_begin, dtype=torch.bfloat16)[blocks_begin:]
        return Launch(read_block_kernel, (blocks, table, torch.empty(16, 64, dtype=torch.bfloat16), 3), {"D": 64}, ("sm_90",))

    q = torch.empty(1, 4096, 2, 128, dtype=torch.bfloat16, device="meta")
    _, args, options = one_loop_launch(q, q, q, q, Tile(256, 256, 8, 2))
    launches = {
        "tile": Launch(one_loop_kernel, args, options, ("sm_90",)), "aligned": read(), "table at 4 bytes": read(table_begins=1),
        "blocks at 2 bytes": read(blocks_begin=1), "blocks at 16 bytes": read(blocks_begin=8),
    }  # fmt: skip
    return dict(zip(launches, (report["sm_90"] for report in compile_reports(list(launches.values()))), strict=True))


@pytest.mark.compile
def test_c086_shared_memory_of_a_tile_of_256_is_refused_and_only_registers_spill(compiled):
    needs, tile = tile_needs(Tile(256, 256, 8, 2), 128, sm_of(H200)), compiled["tile"]
    assert tile.shared_bytes == needs.shared_bytes == 320 * 1024  # all of it: none went to L1, as the claim has it
    assert not tile.fits
    assert tile.shared_limit_bytes == 227 * 1024
    assert tile.spills > 0  # registers do spill, to local memory
    assert needs.must_spill
    with pytest.raises(ValueError, match="it does not spill, the launch is refused"):
        check_tile(Tile(256, 256, 8, 2), 128, H200)
    assert check_tile(Tile(128, 128, 8, 3), 128, H200).shared_bytes == 224 * 1024


@pytest.mark.compile
def test_c111_a_table_at_any_4_bytes_costs_no_width_and_blocks_beside_16_bytes_do(compiled):
    widest = {name: compiled[name].widest_load_bits for name in compiled if name != "tile"}
    assert widest["aligned"] == widest["blocks at 16 bytes"] == 128
    assert widest["table at 4 bytes"] == 128
    assert widest["blocks at 2 bytes"] < 128


def test_c119_a_sum_in_fp16_loses_what_fp32_keeps_and_ends_at_65504():
    draw = np.random.default_rng(0)
    for terms, least in ((1024, 0.02), (16384, 0.08)):
        a, b = (draw.standard_normal((256, terms)).astype(np.float16) for _ in range(2))
        exact, products = (a.astype(np.float64) * b).sum(1), a.astype(np.float32) * b
        half, single = np.zeros(256, np.float16), np.zeros(256, np.float32)
        for term in range(terms):
            half, single = (half + products[:, term]).astype(np.float16), single + products[:, term]
        typical = terms**0.5  # a sum of so many products of standard normal numbers
        assert np.abs(single - exact).max() / typical < 1e-4
        assert np.abs(half - exact).max() / typical > least
    with np.errstate(over="ignore"):
        assert np.isinf(np.cumsum(np.full(8192, 8.5, np.float16), dtype=np.float16)).sum() == 0  # stands still at 16384
        assert np.cumsum(np.full(8192, 8.5, np.float16), dtype=np.float16)[-1] < 0.5 * 8.5 * 8192
        assert np.isinf(np.cumsum(np.full(8192, 64.0, np.float16), dtype=np.float16)[-1])


def test_c101_keys_of_another_model_of_the_same_shape_are_other_keys():
    """Same tokenizer, same heads, same tokens: all that the claim asks for. What the target says next is another distribution."""
    target, other = decoder(seed=0, dtype=torch.float64), decoder(seed=1, dtype=torch.float64)
    assert target.config == other.config
    text, last = tokens(1, 12), torch.tensor([[17]])

    def next_token(writer):
        """The target's distribution after keys and values that `writer` left."""
        cache = writer.new_cache(1, 16)
        writer(text, cache)
        return torch.log_softmax(target(last, cache)[0, -1], -1)

    own = next_token(target)

    def divergence(aliased):
        return (own.exp() * (own - aliased)).sum().item()

    assert divergence(next_token(target)) == 0
    assert divergence(next_token(other)) > 0.5
