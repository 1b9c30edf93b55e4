"""The learning rate's shape, at its corners."""

import pytest

from tools.train.schedule import Schedule


def test_it_warms_up_stays_and_decays_to_nearly_nothing():
    factors = [Schedule(4, 20, 0.4).factor(step) for step in range(20)]
    assert factors[:4] == [0.25, 0.5, 0.75, 1.0]
    assert factors[4:13] == [1.0] * 9  # 8 of 20 steps decay: step 12 is the first of them, still at 8 / 8
    assert factors[12:] == [(20 - step) / 8 for step in range(12, 20)]
    assert min(factors) > 0


def test_before_the_decay_nothing_depends_on_the_end():
    for total in (None, 200, 1000):
        assert [Schedule(10, total, 0.4).factor(step) for step in range(120)] == [
            min(1.0, (step + 1) / 10) for step in range(120)
        ]


def test_a_run_shorter_than_its_warm_up_still_ends_low():
    factors = [Schedule(100, 10, 0.4).factor(step) for step in range(10)]
    assert max(factors) == 0.1
    assert factors[-1] == 0.1  # the smaller of warm-up and decay: the decay is at 1/4 here
    assert Schedule(1, 1).factor(0) == 1.0


@pytest.mark.parametrize(("warmup", "share"), [(0, 0.4), (10, 0.0), (10, 1.1)])
def test_what_is_no_schedule_is_refused(warmup, share):
    with pytest.raises(ValueError, match="decay_share"):
        Schedule(warmup, 100, share)
