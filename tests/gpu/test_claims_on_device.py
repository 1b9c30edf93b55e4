"""On a CUDA device the benchmark of claims gives every property, and the claims hold on a Hopper chip."""

import pytest
import torch

from benchmarks.claims_on_device import allocated_tile, lies_in, nvml_code_without_init, property_rows
from course_lib.hardware import find_spec

pytestmark = pytest.mark.gpu


def test_the_properties_are_those_that_the_claims_expect():
    properties = torch.cuda.get_device_properties(0)
    rows = {row["case"]: row["ours"] for row in property_rows(properties, find_spec(properties.name))}
    assert rows["compute capability"] == float("{}.{}".format(*torch.cuda.get_device_capability()))
    if rows["compute capability"] == 9.0:
        assert rows["shared memory of a block, opt-in"] * 1024 == 232448
        assert rows["shared memory of an SM"] == 228
        assert rows["L2 over SMs"] < 1, "C034: no SM owns 2 MiB of L2"
    assert nvml_code_without_init() == 1


def test_a_tile_of_torch_empty_lies_in_device_memory_and_one_of_the_host_does_not():
    address, size, segments = allocated_tile()
    assert size == 2 * 64 * 128 * 2
    assert lies_in(address, size, segments)
    assert not lies_in(torch.empty(2, 64, 128, dtype=torch.float16).data_ptr(), size, segments)
