"""The tensors: sizes in bytes, copies in order, and refusals with the numbers."""

import random
from pathlib import Path

import pytest
import torch

from course_lib.kvcache import BlockPool, KVCacheError, KVStorage
from course_lib.kvcache.storage import free_bytes
from course_lib.model import preset

SHAPES = ((2, 3), (2, 5))


def storage_of(num_blocks=6, block_size=4, **options):
    return KVStorage(num_blocks, block_size, layers=2, shapes=SHAPES, **{"dtype": torch.float32} | options)


def test_sizes_follow_from_the_models_numbers():
    storage = KVStorage.of(preset("course-target"), BlockPool(10, 16))
    assert storage.bytes_per_block == 16 * 6 * 2 * (4 * 64) * 2 == 98304
    assert storage.bytes_per_token == preset("course-target").kv_bytes_per_token() == 6144
    assert storage.total_bytes == sum(tensor.nbytes for layer in storage.tensors for tensor in layer) == 983040
    assert storage.keys(5).shape == storage.values(0).shape == (10, 16, 4, 64)
    assert storage.keys(0).dtype == torch.bfloat16


def test_mla_keeps_one_tensor_a_layer():
    config = preset("course-mla")
    storage = KVStorage.of(config, BlockPool(3, 16))
    assert [len(layer) for layer in storage.tensors] == [1] * config.layers
    assert storage.bytes_per_token == config.kv_bytes_per_token()


def test_what_does_not_fit_is_refused_with_the_numbers():
    with pytest.raises(KVCacheError, match=r"6 blocks of 512 bytes are 0.000 GB, the budget .* use at most 5 blocks"):
        storage_of(budget_bytes=6 * 512 - 1)
    storage_of(budget_bytes=6 * 512)
    with pytest.raises(KVCacheError, match=r"are 512000000\.000 GB, free on cpu is .* GB; use at most \d+ blocks"):
        storage_of(num_blocks=10**15)


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="says how much memory is free on Linux")
def test_free_memory_is_asked_of_the_system():
    assert 1e6 < free_bytes(torch.device("cpu")) < 1e14


@pytest.mark.parametrize("wrong", [{"num_blocks": 0}, {"block_size": -1}])
def test_sizes_below_one_are_refused(wrong):
    with pytest.raises(KVCacheError, match="use at least 1 of each"):
        storage_of(**wrong)


def test_what_is_written_is_read_and_dead_slots_are_zeros():
    storage = storage_of()
    for layer in storage.tensors:
        for tensor in layer:
            tensor.fill_(torch.nan)
    new = [torch.randn(3, 2, 3), torch.randn(3, 2, 5)]
    storage.write(1, torch.tensor([9, 4, 23]), new)
    slots, dead = torch.tensor([[4, 9], [23, 0]]), torch.tensor([[False, False], [False, True]])
    for read, written in zip(storage.read(1, slots, dead), new, strict=True):
        expected = torch.stack((written[1], written[0], written[2], torch.zeros_like(written[0])))
        assert torch.equal(read, expected.unflatten(0, (2, 2)))
    assert storage.keys(0).isnan().all()
    assert storage.read(1, slots)[0].isnan().any()


@pytest.mark.parametrize("pairs", [
    [], [(0, 1)], [(0, 1), (1, 2)], [(0, 1), (2, 1)], [(0, 1), (1, 0)], [(3, 4), (4, 3), (3, 5), (0, 4)],
    [(2, 5), (5, 3), (5, 4)], [(2, 2)], [(1, 0), (2, 1)],
])  # fmt: skip
def test_copies_are_made_one_after_the_other_in_every_layer(pairs):
    storage = storage_of()
    before = [[tensor.normal_().clone() for tensor in layer] for layer in storage.tensors]
    storage.copy_blocks(pairs)
    for layer, expected in zip(storage.tensors, before, strict=True):
        for tensor, want in zip(layer, expected, strict=True):
            for source, target in pairs:
                want[target] = want[source].clone()
            assert torch.equal(tensor, want)


def test_random_copies_too():
    draw = random.Random(0)
    for _ in range(30):
        test_copies_are_made_one_after_the_other_in_every_layer([(draw.randrange(6), draw.randrange(6)) for _ in range(8)])


def test_a_copy_outside_is_refused_before_any_is_made():
    storage = storage_of()
    storage.keys(0).normal_()
    before = storage.keys(0).clone()
    for pair in ((0, 6), (-1, 0)):
        with pytest.raises(KVCacheError, match=r"block (6|-1) in a copy; there are 0 to 5"):
            storage.copy_blocks([(0, 1), pair])
    assert torch.equal(storage.keys(0), before)
