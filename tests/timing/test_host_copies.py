"""Copies between host and device: rows put pinned beside pageable, and a machine without a device says so."""

import pytest
import torch

from course_lib.timing.host_copies import HostCopy, as_rows, measure_host_copies


def test_a_row_has_pinned_beside_pageable_of_the_same_size_and_direction():
    kinds = [(d, m) for d in ("to the device", "to the host") for m in ("pinned", "pageable")]
    seconds = dict(zip(kinds, (1.0, 4.0, 2.0, 10.0), strict=True))
    copies = [HostCopy(d, m, size, (s * size / 1e10,) * 3) for size in (100, 1000) for (d, m), s in seconds.items()]
    rows = as_rows(copies)
    assert [(row["direction"], row["bytes"]) for row in rows] == [
        ("to the device", 100), ("to the host", 100), ("to the device", 1000), ("to the host", 1000)]  # fmt: skip
    assert [row["ratio"] for row in rows] == pytest.approx([4.0, 5.0, 4.0, 5.0])
    assert rows[0]["ours"] == pytest.approx(10.0)
    assert rows[1]["peer"] == pytest.approx(1.0)


def test_the_rate_is_that_of_the_median():
    assert HostCopy("to the host", "pinned", 8 * 10**9, (1.0, 2.0, 100.0)).gb_per_s == 4.0


def test_without_a_device_it_says_what_is_missing():
    if torch.cuda.is_available():
        pytest.skip("a CUDA device is here; tests/gpu measures on it")
    with pytest.raises(RuntimeError, match="needs one"):
        measure_host_copies()
