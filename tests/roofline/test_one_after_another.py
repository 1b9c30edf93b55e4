"""What follows one after another takes the longer time each, and the sum is never below the floor of the totals."""

import pytest

from course_lib.roofline import LLAMA_3_8B, chunk_step, kernels_floor_seconds, prefill_floor_seconds
from course_lib.roofline.kernels import KernelCost, decode_kernels

PEAK, H100 = 989.4e12, 3.35e12


def test_two_kernels_by_hand():
    """30 us of arithmetic and 10 of memory, then 5 and 20: 50 us, where the totals say max(35, 30)."""
    kernels = [KernelCost("a", flops=30, bytes_moved=10, count=1), KernelCost("b", flops=5, bytes_moved=20, count=1)]
    assert kernels_floor_seconds(kernels, 1, 1) == 50
    assert kernels_floor_seconds([*kernels, KernelCost("c", 1, 2, count=3)], 1, 1) == 56


@pytest.mark.parametrize("batch", [1, 64, 512, 4096])
def test_the_floor_by_kernels_is_never_below_that_of_the_totals(batch):
    kernels = decode_kernels(LLAMA_3_8B, batch, 2048)
    flops, moved = (sum(k.count * getattr(k, name) for k in kernels) for name in ("flops", "bytes_moved"))
    totals, by_kernel = max(flops / PEAK, moved / H100), kernels_floor_seconds(kernels, PEAK, H100)
    if batch < 295:  # every kernel waits for memory, so nothing is lost
        assert by_kernel == pytest.approx(totals)
    else:  # products wait for arithmetic, attention for memory
        assert by_kernel > 1.05 * totals


def test_a_prompt_in_one_chunk_and_in_many():
    whole = prefill_floor_seconds(LLAMA_3_8B, 8192, 8192, PEAK, H100)
    assert whole == chunk_step(LLAMA_3_8B, 8192, 0).floor_seconds(PEAK, H100)
    assert round(1e3 * whole, 1) == 133.4
    below, above = (prefill_floor_seconds(LLAMA_3_8B, 8192, size, PEAK, H100) for size in (64, 1024))
    weights = 128 * 2 * (LLAMA_3_8B.linear_params + LLAMA_3_8B.head_params)
    cache = sum(done + 64 for done in range(0, 8192, 64)) * LLAMA_3_8B.kv_bytes_per_token()
    residual = 8 * 32 * 4096 * 8192
    assert below == pytest.approx((weights + cache + residual) / H100)  # 64 tokens wait for memory
    assert whole < above < 1.001 * whole  # beyond the threshold only the head is run in vain


@pytest.mark.parametrize(("tokens", "chunk"), [(0, 64), (64, 0), (64, -1)])
def test_a_prompt_and_its_chunks_have_tokens(tokens, chunk):
    with pytest.raises(ValueError, match="both are at least 1"):
        prefill_floor_seconds(LLAMA_3_8B, tokens, chunk, PEAK, H100)
