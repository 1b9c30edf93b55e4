"""What section 7 says in words about the loops on the H200, held to the recorded result."""

import pytest

from course_lib.display.telemetry_figure import loops_of
from course_lib.recorded import recorded

RESULT = recorded("telemetry_loops")
LOOPS = loops_of(RESULT)
CASES = {row["case"]: row for row in RESULT["rows"]}


def test_utilisation_cannot_tell_a_block_that_spins_from_prefill_and_decode():
    for loop in ("spin", "prefill", "decode 1", "decode 64"):
        assert LOOPS[loop]["busy_time_percent"] > 95
    spin = LOOPS["spin"]
    assert spin["tensor_percent"] == 0
    assert spin["dram_percent"] < 0.01
    assert spin["sm_percent"] == pytest.approx(100 / 132, rel=0.02)  # one SM of 132
    assert spin["mean_watts"] == pytest.approx(LOOPS["idle"]["mean_watts"], rel=0.03)


def test_prefill_works_the_tensor_cores_and_decode_the_memory():
    prefill, decode = LOOPS["prefill"], LOOPS["decode 1"]
    assert prefill["tensor_percent"] > 85 > 4 * prefill["dram_percent"]
    assert decode["dram_percent"] > 60 > 10 * decode["tensor_percent"]
    for loop in (prefill, decode):  # every column of the table is there
        assert {"joules", "mean_watts", "sm_mhz_median", "pcie_tx_mb_per_s", "pcie_rx_mb_per_s"} <= loop.keys()


def test_only_the_loop_that_multiplies_meets_the_power_limit():
    capped = [name for name, loop in LOOPS.items() if "reason sw_power_cap" in loop]
    assert capped == ["prefill"]
    assert LOOPS["prefill"]["sm_mhz_median"] < 0.85 * LOOPS["decode 64"]["sm_mhz_min"]


def test_a_token_gets_cheaper_with_the_batch_and_power_hardly_rises():
    one, many = LOOPS["decode 1"], LOOPS["decode 64"]
    assert many["joules_per_token"] < one["joules_per_token"] / 25
    assert many["mean_watts"] < 1.5 * one["mean_watts"]


def test_two_old_readings_are_enough_to_explain_the_distance_between_counter_and_power_readings():
    """The counter is renewed about every 0.1 s, so either end may be as old: 0.1 s of 3 s, 3 to 4% each way."""
    for name, loop in LOOPS.items():
        assert abs(loop["joules"] / loop["integrated_joules"] - 1) < 0.11 / loop["seconds"], name


def test_a_share_of_the_bandwidth_gives_the_rate_of_a_copy_and_a_capacity_does_not():
    assert CASES["copy: dram share x peak bandwidth"]["ratio"] == pytest.approx(1, abs=0.02)
    assert CASES["copy: utilization.memory x capacity"]["ratio"] < 0.05
