"""What an H200 recorded of tables in two levels, and of prefixes that come back from host memory."""

import pytest

from course_lib.recorded import recorded

ROWS = {row["case"]: row for row in recorded("kv_tiers")["rows"]}


def test_two_levels_take_a_30th_of_the_memory_and_cost_time_only_where_one_program_waits_for_each_entry():
    """256 rows of up to 131072 tokens, of which 1700 are there. `ratio` to a flat table."""
    short, full = (ROWS[f"tables for 256 rows up to 131072 tokens, {tokens} in each"] for tokens in (1700, 131072))
    assert short["ratio"] < 1 / 25
    assert 1 < full["ratio"] < 1.01  # filled to the last entry, the directory comes on top
    for case in ("walk, 64 x 8192 tokens, leaves of 256", "walk, 1 x 131072 tokens, leaves of 256"):
        assert ROWS[case]["paired_ratio"] == pytest.approx(1, abs=0.03)  # of the rate: other programs hide the second look-up
    assert 1.02 < ROWS["one program alone, 8192 blocks one after the other"]["paired_ratio"] < 1.2  # of the time


@pytest.mark.parametrize("tokens", [1024, 4096, 16384])
def test_a_prefix_from_the_host_comes_back_faster_than_it_is_computed_only_in_large_copies(tokens):
    ways = ("in one piece, pinned", "block by block, pinned", "block by block")
    whole, pinned, pageable = (ROWS[f"{tokens} tokens back from the host, {way}"] for way in ways)
    assert whole["ratio"] < 0.2
    assert 1 < pinned["ratio"] < pageable["ratio"]


@pytest.mark.parametrize("tokens", [256, 1024, 4096, 16384])
def test_the_library_brings_a_prefix_back_and_saves_it_in_a_small_part_of_its_prefill(tokens):
    back, out = (f"{tokens} tokens {way} the host, all blocks at once by HostCopies" for way in ("back from", "out to"))
    if back not in ROWS:
        pytest.skip("not measured yet: python -m benchmarks.kv_tiers, on an H200")
    assert ROWS[back]["paired_ratio"] < 0.25
    assert ROWS[out]["paired_ratio"] < 0.25
