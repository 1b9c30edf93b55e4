"""Wrong clocks on a device are wrong in the direction that section 3 says, and copies from pinned memory are no slower."""

import pytest

pytestmark = pytest.mark.gpu


def test_each_clock_is_wrong_as_it_is_said_to_be():
    from course_lib.timing.wrong_clocks import COPY, LOOP, PRODUCT, RIGHT, SHORT, as_rows, measure_clocks

    ratio = {(row["kernel"], row["clock"]): row["ratio"] for row in as_rows(measure_clocks(20))}
    assert ratio[PRODUCT, RIGHT] == ratio[COPY, RIGHT] == ratio[SHORT, RIGHT] == 1
    assert ratio[PRODUCT, "host clock, no wait"] < 0.2
    assert ratio[COPY, "flush between the events"] > 2
    assert ratio[SHORT, "host clock, waits"] > 2
    assert ratio[SHORT, "events on an idle device"] > 1.3
    assert ratio[SHORT, f"{LOOP} launches between two events"] > 0.5


def test_large_copies_from_pinned_memory_are_no_slower():
    from course_lib.timing.host_copies import as_rows, measure_host_copies

    for row in as_rows(measure_host_copies([2**28], repeats=3)):
        assert row["ratio"] > 0.95, row["case"]
