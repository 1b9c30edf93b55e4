"""The walk through tables and the ways back from the host do on a device what they do in small on a CPU."""

import pytest
import torch

from benchmarks import kv_tiers as bench
from course_lib.kvcache import KVStorage
from course_lib.workloads.table_walk import table_walk

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("shape", [(4, 64, 8192, 16, 2), (1, 300, 32, 256, 1), (3, 33, 2048, 8, 5)])
def test_tables_of_one_level_and_of_two_lead_to_the_same_blocks(shape):
    bench.check_walk(table_walk(*shape))


def test_every_way_back_from_the_host_writes_what_was_there():
    storage = KVStorage(12, 16, layers=3, shapes=((2, 64), (2, 64)), device="cuda")
    bench.fill(storage)
    parts = [part for layer in storage.tensors for part in layer]
    before = [part.clone() for part in parts]
    for name, call in bench.reloads(storage, 8).items():
        for part in parts:
            part[4:] = -1.0
        call()
        torch.cuda.synchronize()
        for part, was in zip(parts, before, strict=True):
            assert torch.equal(part, was), name


def test_a_prefill_with_random_weights_gives_finite_logits():
    call = bench.prefill_call("course-target", 64)(48)
    assert call().isfinite().all()
