"""The rows of the benchmark telemetry_loops have the agreed fields, and a figure that the device lacks makes no row."""

import pytest

from benchmarks import telemetry_loops
from course_lib.display.telemetry_figure import loops_of
from course_lib.telemetry import Summary
from tests.test_benchmarks import ROW_FIELDS

SUMMARY = Summary(seconds=3.0, joules=1500.0, mean_watts=500.0, busy_time_percent=99.5, reasons=("sw_power_cap",))


def test_rows_come_back_as_loops_and_what_is_missing_has_none():
    rows = telemetry_loops._rows("decode 8", SUMMARY) + telemetry_loops._token_rows("decode 8", SUMMARY, steps=750, batch=8)
    assert all(row.keys() == ROW_FIELDS for row in rows)
    (loop,) = loops_of({"rows": rows}).values()
    assert loop == {
        "busy_time_percent": 99.5, "mean_watts": 500.0, "joules": 1500.0, "seconds": 3.0, "reason sw_power_cap": 1.0,
        "batch": 8.0, "step_ms": 4.0, "tokens_per_second": 2000.0, "joules_per_token": 0.25,
    }  # fmt: skip


def test_a_row_with_a_peer_has_its_ratio():
    row = telemetry_loops._row("copy: x", "GB/s", 3.0, 4.0, "known")
    assert row["ratio"] == pytest.approx(0.75)


def test_every_source_of_the_result_exists():
    from benchmarks._result import sources_hash

    assert len(sources_hash(telemetry_loops.SOURCES)) == 64
