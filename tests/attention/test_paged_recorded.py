"""What an H200 recorded of reading through block tables: the size of a block, where blocks begin, and a gather first."""

import pytest

from course_lib.kvcache.block_tables import blocks_for
from course_lib.kvcache.trace import ROADMAP, SHAREGPT
from course_lib.recorded import recorded

ROWS = recorded("paged_gather")["rows"]
SIZES = (8, 16, 32, 64, 128, 256)


@pytest.mark.parametrize("shape", ["64 x 8192", "32 x 4096"])
@pytest.mark.parametrize("workload", [ROADMAP, SHAREGPT], ids=lambda one: one.name)
def test_from_8_to_256_tokens_a_block_time_hardly_moves_and_waste_grows_with_the_block(shape, workload):
    """Ratio of the rate to blocks of 16, against the share of held slots that are empty."""
    rate = {row["block_size"]: row["ratio"] for row in ROWS if row["case"].startswith(f"{shape}, blocks of")}
    assert tuple(rate) == SIZES
    assert all(0.97 < ratio < 1.04 for ratio in rate.values())
    lengths = [request.total_tokens for request in workload.requests(4000, seed=0)]
    waste = {size: 1 - sum(lengths) / sum(blocks_for(tokens, size) * size for tokens in lengths) for size in SIZES}
    assert list(waste.values()) == sorted(waste.values())
    assert waste[16] < 0.02
    assert waste[256] > 10 * waste[16]  # 16 to 1: what is gained is less than 4% of a step, what is lost is memory
    assert waste[256] > 2 * (rate[256] - 1)


def test_blocks_beside_16_bytes_are_read_at_a_fifth_of_the_rate_and_those_beside_a_line_at_four_fifths():
    rate = {row["offset_bytes"]: row["ratio"] for row in ROWS if "bytes later" in row["case"]}
    assert set(rate) == {2, 8, 16, 64}
    assert rate[2] < 0.3  # loads of 2 bytes in place of 16, as the compiler says
    assert rate[8] < 0.3
    assert 0.7 < rate[16] < 0.95  # wide loads, whose pieces lie in two lines of 128 bytes
    assert rate[16] < rate[64] < 0.98


def test_a_gather_before_attention_takes_three_times_as_long_where_bandwidth_is_the_limit():
    times = {row["case"].split(",")[0]: row["ratio"] for row in ROWS if row["peer_name"] == "a gather, then attention"}
    assert 2.8 < times["64 x 8192"] < 3.8
    assert 2.8 < times["32 x 4096"] < 3.8
    assert times["1 x 32768"] > 2
    assert {row["gathered_bytes"] / row["kv_bytes"] for row in ROWS if "gathered_bytes" in row} == {3}
