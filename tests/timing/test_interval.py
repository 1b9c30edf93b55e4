"""The bootstrap interval covers the truth about as often as it says, and is the same at every run."""

import random
import statistics

import pytest

from course_lib.timing import Timing, bootstrap_interval


def test_the_interval_covers_the_median_about_as_often_as_it_says():
    """Times with a long tail, as times have: 1 + an exponential, whose median is 1 + ln 2."""
    draw, truth, covered = random.Random(3), 1.6931, 0
    for seed in range(60):
        low, high = bootstrap_interval([1 + draw.expovariate(1) for _ in range(21)], seed=seed)
        covered += low <= truth <= high
    assert covered >= 52  # 95% of 60 is 57; fewer than 52 has a chance of 1%


def test_more_samples_and_a_lower_level_make_it_narrower():
    draw = random.Random(5)
    many = [draw.gauss(10, 1) for _ in range(200)]
    few = many[:10]
    width = {name: high - low for name, (low, high) in {
        "few": bootstrap_interval(few), "many": bootstrap_interval(many), "half": bootstrap_interval(few, level=0.5),
    }.items()}  # fmt: skip
    assert width["many"] < width["few"] / 2
    assert width["half"] < width["few"]


def test_its_ends_cut_off_as_much_as_the_level_leaves_out():
    """The mean of 100 normal values moves by 1 / 10: 95% of the draws lie within 1.96 of it to either side, 90% within 1.645."""
    draw = random.Random(7)
    samples = [draw.gauss(0, 1) for _ in range(100)]
    error = statistics.stdev(samples) / 10
    for level, reach in ((0.95, 1.960), (0.90, 1.645), (0.5, 0.674)):
        low, high = bootstrap_interval(samples, level=level, statistic=statistics.fmean)
        assert (high - low) / 2 == pytest.approx(reach * error, rel=0.08)  # an end of 1000 draws is off by some 4%


def test_it_is_deterministic_and_speaks_of_the_statistic_that_is_asked_for():
    samples = (3.0, 1.0, 2.0, 8.0, 2.5)
    assert bootstrap_interval(samples) == bootstrap_interval(samples) == Timing(samples).interval()
    assert Timing(samples).median_seconds == 2.5
    low, high = bootstrap_interval(samples, statistic=statistics.mean)
    assert 1.0 < low < 3.3 < high < 8.0
    assert bootstrap_interval([4.0]) == (4.0, 4.0)


@pytest.mark.parametrize(("samples", "level", "words"), [((), 0.95, "no samples"), ((1.0,), 95, "0.95; got 95"),
                                                           ((1.0, float("nan")), 0.95, "finite")])
def test_nothing_to_say_is_refused(samples, level, words):
    with pytest.raises(ValueError, match=words):
        bootstrap_interval(samples, level)
