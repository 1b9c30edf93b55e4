"""The benchmarks of attention name their sources, bars belong to cases, and the defaults are among the variants."""

from pathlib import Path

import pytest

from benchmarks import _flash_setup, _flash_variants, flash_forward, paged_decode, paged_prefill
from course_lib.attention.paged_prefill import PrefillTile, prefill_tile
from course_lib.attention.tiles import HOPPER, HOPPER_FEW_KEYS, HOPPER_POINTERS, shared_bytes

ROOT = Path(__file__).parents[2]


def test_sources_and_cases():
    assert all((ROOT / name).is_file() for name in flash_forward.SOURCES)
    cases = flash_forward.cases()
    assert len(cases) == 36
    assert all(case.batch * case.sequence == 16384 and case.heads * case.head_dim == 2048 for case in cases)
    assert {(case.head_dim, case.causal) for case in cases} >= {(dim, causal) for dim, causal, _ in flash_forward.BARS}


def test_a_rate_counts_half_of_the_product_when_causal():
    """1 x 16384, 16 heads of 128: 4 * 16384^2 * 2048 = 2.199e12 FLOPs."""
    full, causal = (_flash_setup.Case(128, 16384, causal) for causal in (False, True))
    assert full.flops == 2 * causal.flops == 4 * 16384**2 * 2048
    assert _flash_setup.tflops(full, [2.0, 1.0, 4.0]) == pytest.approx((1.0995, 0.5498, 2.1990), rel=1e-4)


@pytest.mark.parametrize("head_dim", _flash_variants.HEAD_DIMS)
def test_variants_start_with_the_default_and_fit_an_h200(head_dim):
    variants = _flash_variants.tiles(head_dim)
    assert variants[0] == HOPPER[head_dim]
    assert {HOPPER_FEW_KEYS[head_dim], HOPPER_POINTERS[head_dim]} <= set(variants)
    assert len(variants) == len(set(variants))
    assert all(shared_bytes(tile, head_dim) <= 232_448 for tile in variants)


def test_paged_benchmarks_name_their_sources_and_prefill_tries_its_default():
    assert all((ROOT / name).is_file() for name in (*paged_decode.SOURCES, *paged_prefill.SOURCES))
    variants = [PrefillTile(*four) for four in paged_prefill.VARIANTS]
    assert prefill_tile(paged_prefill.CHUNK, 4, 128) in variants
    assert len(variants) == len(set(variants))
