"""Blocks that leave the device for host memory come back bit for bit, on the default stream, with work before and behind them."""

import pytest
import torch

from course_lib.kvcache import BlockPool, HostCopies, HostTier, KVStorage, PrefixCache, SwapSpace, TieredPrefixCache

pytestmark = pytest.mark.gpu
BLOCKS, PAGE, LAYERS = 24, 16, 8


def filled_storage():
    storage = KVStorage(BLOCKS, PAGE, layers=LAYERS, shapes=((8, 128), (8, 128)), device="cuda")
    for part in (part for layer in storage.tensors for part in layer):
        part.normal_()
    return storage


def block_of(storage, block):
    return torch.stack([part[block] for layer in storage.tensors for part in layer])


def poison(storage):
    for part in (part for layer in storage.tensors for part in layer):
        part.fill_(float("nan"))


def test_a_preempted_sequence_finds_its_keys_and_values_again():
    pool, storage = BlockPool(BLOCKS, PAGE), filled_storage()
    copies = HostCopies(storage)
    swap = SwapSpace(pool, BLOCKS, copies.copy_out, copies.copy_in)
    blocks = pool.allocate(9)
    before = [block_of(storage, block) for block in blocks]
    swap.preempt("a", blocks, [1] * 140)
    poison(storage)  # queued behind the copies out
    held = pool.allocate(4)
    back = swap.resume("a")
    assert not set(back) & set(held)
    for block, expected in zip(back, before, strict=True):
        assert torch.equal(block_of(storage, block), expected)
    assert copies.copied_bytes == 2 * 9 * storage.bytes_per_block


def test_an_evicted_prefix_comes_back_from_the_host():
    pool, storage, host = BlockPool(BLOCKS, PAGE), filled_storage(), HostTier(64)
    cache, copies = PrefixCache(pool), HostCopies(storage)
    tiered = TieredPrefixCache(cache, host, copies.copy_out, copies.copy_in)
    tokens = list(range(8 * PAGE + 1))
    blocks = pool.allocate(8)
    before = [block_of(storage, block) for block in blocks]
    cache.insert(tokens, blocks)
    pool.release(blocks)
    pool.release(pool.allocate(BLOCKS))  # evicts all eight
    poison(storage)
    found = tiered.match(tokens)
    assert (found.tokens, found.host_tokens) == (8 * PAGE, 8 * PAGE)
    for block, expected in zip(found.blocks, before, strict=True):
        assert torch.equal(block_of(storage, block), expected)
