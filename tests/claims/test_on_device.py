"""The benchmark that asks a device: rows from properties as torch gives them, NVML's refusal without a GPU, where a tile lies."""

from types import SimpleNamespace

import pytest

from benchmarks.claims_on_device import lies_in, nvml_code_without_init, property_rows
from course_lib.hardware import spec

H200 = SimpleNamespace(
    major=9, minor=0, L2_cache_size=60 * 2**20, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
    multi_processor_count=132,
)  # fmt: skip


def test_properties_become_rows_with_the_data_sheet_beside_them():
    rows = {row["case"]: row for row in property_rows(H200, spec("h200-sxm"))}
    assert rows["compute capability"]["ours"] == 9.0
    assert rows["shared memory of a block, opt-in"]["ours"] == 227
    assert rows["shared memory of a block, opt-in"]["ratio"] == 1.0
    assert rows["shared memory of an SM"]["ours"] == 228
    assert rows["L2 of the chip"]["ours"] == 60
    assert rows["L2 over SMs"]["ours"] == pytest.approx(0.4545, abs=1e-4)


def test_a_device_without_a_sheet_has_rows_too():
    assert {row["peer"] for row in property_rows(H200, None)} == {None}


def test_nvml_without_init_says_uninitialised():
    assert nvml_code_without_init() == 1


@pytest.mark.parametrize(
    ("address", "inside"), [(1000, True), (1968, True), (1969, False), (999, False), (4000, True), (3000, False)]
)
def test_a_tile_lies_in_a_segment_with_its_first_and_its_last_byte(address, inside):
    segments = [{"address": 1000, "total_size": 1000}, {"address": 4000, "total_size": 32}]
    assert lies_in(address, 32, segments) is inside
