"""Each metric has a unit, a definition, and, where it is computed, a formula with a value worked out by hand."""

import pytest

from course_lib.telemetry import METRICS, formulas, metric

BY_HAND = {
    "joules_per_token": ((30.0, 60), 0.5),
    "nvlink_gb_per_s": ((10**9, 4 * 10**9, 2.0), 1.5),
    "allreduce_seconds": (([9e-6, 5e-6, 6e-6],), 6e-6),
    "arithmetic_intensity": ((2 * 256 * 4096**2, 2 * (4096**2 + 2 * 256 * 4096)), pytest.approx(227.6, abs=0.05)),
    "ttft_seconds": ((10.0, [10.25, 10.29]), 0.25),
    "itl_seconds": (([1.0, 1.5, 1.75],), [0.5, 0.25]),
    "tpot_seconds": (([1.0, 1.5, 1.75],), 0.375),
    "mean_latency_seconds": (([1.0, 2.0, 6.0],), 3.0),
    "p99_latency_seconds": (([*range(100, 0, -1)],), 99),
    "tokens_per_second": ((60, 1.5), 40.0),
    "kv_fragmentation": (([17], 16), 15 / 32),
    "kv_cache_utilization": ((30, 40), 0.75),
    "page_hit_rate": ((0, 0), None),
    "kv_hit_rate": ((512, 2048), 0.25),
    "prefix_hit_rate": ((3, 4), 0.75),
    "acceptance_rate": ((7, 10), 0.7),
    "draft_length": (([4, 4, 1],), 3.0),
    "slo_breach_share": (([40.0, 40.01, 12.0, 50.0], 40.0), 0.5),
}


@pytest.mark.parametrize("known", METRICS, ids=lambda m: m.name)
def test_a_metric_is_defined_and_a_computed_one_equals_a_value_worked_out_by_hand(known):
    assert known.unit
    assert known.definition
    assert known.where
    assert bool(known.function) == (known.name in BY_HAND)
    if known.function:
        arguments, expected = BY_HAND[known.name]
        assert getattr(formulas, known.function)(*arguments) == expected


def test_what_the_roadmap_names_is_there_but_not_its_token_to_bandwidth_ratio():
    assert len({m.name for m in METRICS}) == len(METRICS)
    assert metric("busy_time_percent").where == "NVML utilization.gpu"
    with pytest.raises(KeyError, match="no metric 'tbr'"):
        metric("tbr")


def test_the_99th_percentile_of_few_values_is_the_largest():
    assert [formulas.p99(range(count)) for count in (1, 50, 99, 100, 101)] == [0, 49, 98, 98, 99]


def test_a_single_token_has_no_tpot_and_nothing_shared_has_no_rate():
    assert formulas.tpot_seconds([1.0]) is None
    assert formulas.per_token(5.0, 0) is None
    with pytest.raises(ValueError, match="was reset"):
        formulas.rate_gb_per_s(5, 4, 1.0)
