"""What section 2 says of the recorded product with 1 to 2048 tokens, cold and warm."""

from course_lib.recorded import recorded

TIMES = {tuple(row["case"].split(" tokens, ")): (row["ours"], row["peer"]) for row in recorded("token_sweep")["rows"]}


def test_the_points_are_level_up_to_64_tokens():
    cold = [us for (tokens, kind), (us, _) in TIMES.items() if kind == "cold" and int(tokens) <= 64]
    assert len(cold) >= 5
    assert max(cold) < 1.25 * TIMES["1", "cold"][0]


def test_a_warm_product_stays_above_the_floor_and_takes_a_tenth_to_a_quarter_less():
    for tokens in ("1", "16", "64"):
        warm, floor = TIMES[tokens, "warm"]
        assert warm > floor
        assert 0.75 < warm / TIMES[tokens, "cold"][0] < 0.9


def test_the_hump_ends_at_256_tokens():
    assert TIMES["224", "cold"][0] > TIMES["256", "cold"][0]
