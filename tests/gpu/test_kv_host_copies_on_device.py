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


CYCLES = 1 << 26  # a few hundredths of a second, in which the host is far ahead of the device


def numbered_storage(blocks):
    """Each block holds its own number, in every tensor."""
    storage = KVStorage(blocks, PAGE, layers=LAYERS, shapes=((8, 128), (8, 128)), dtype=torch.float32, device="cuda")
    number(storage, 0.0)
    return storage


def number(storage, first):
    for part in (part for layer in storage.tensors for part in layer):
        part.copy_((torch.arange(storage.num_blocks, device="cuda") + first)[:, None, None, None].expand_as(part))


def holds(content, value):
    return bool((content == value).all())


@pytest.mark.parametrize("chunk", [1, 7, 64, 300])
def test_many_blocks_move_through_bounded_staging_and_pinned_memory(chunk):
    storage = numbered_storage(300)
    copies = HostCopies(storage, staging_bytes=chunk * storage.bytes_per_block)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0)).tolist()
    bound = chunk * storage.bytes_per_block * (1 + 1 / (2 * LAYERS)) + (8 << 20)  # torch rounds what it hands out
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    contents = copies.copy_out(order)
    assert all(content.is_pinned() for content in contents[::50])
    assert all(holds(content, block) for content, block in zip(contents, order, strict=True))
    slabs = -(-300 // copies.slots.rows)
    assert copies.link_copies <= -(-300 // chunk) + slabs
    poison(storage)
    copies.copy_in(contents, [299 - block for block in order])
    assert torch.cuda.max_memory_allocated() - before <= bound
    assert torch.cuda.memory_allocated() == before
    for part in (part for layer in storage.tensors for part in layer):
        expected = torch.arange(299, -1, -1, device="cuda", dtype=torch.float32)
        assert torch.equal(part, expected[:, None, None, None].expand_as(part))


@pytest.mark.parametrize("stream", ["default", "own"])
def test_copies_wait_for_what_is_queued_and_are_over_when_they_are_back(stream):
    """The writers are behind a long wait; blocks and host slots are written over as soon as the calls return."""
    storage = numbered_storage(96)
    copies, other = HostCopies(storage, staging_bytes=10 * storage.bytes_per_block), torch.cuda.Stream()
    blocks = list(range(64))
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.default_stream() if stream == "default" else torch.cuda.Stream()):
        for turn in range(4):
            first = 1000.0 * (turn + 1)
            torch.cuda._sleep(CYCLES)
            number(storage, first)
            contents = copies.copy_out(blocks)
            with torch.cuda.stream(other):  # which waits for nobody
                poison(storage)
            assert all(holds(content, first + block) for content, block in zip(contents, blocks, strict=True))
            torch.cuda.current_stream().wait_stream(other)
            torch.cuda._sleep(CYCLES)
            copies.copy_in(contents, [block + 32 for block in blocks])
            for content in contents:
                content.fill_(-1.0)
            contents = content = None
            reused = copies.copy_out([0] * 64)  # into the same slots
            for part in (part for layer in storage.tensors for part in layer):
                expected = torch.arange(64, device="cuda", dtype=torch.float32) + first
                assert torch.equal(part[32:], expected[:, None, None, None].expand_as(part[32:])), f"turn {turn}"
            assert all(content.isnan().all() for content in reused)
            content = reused = None
            assert copies.slots.num_used == 0


def test_a_device_without_room_for_the_staging_changes_nothing(monkeypatch):
    storage = numbered_storage(8)
    copies = HostCopies(storage)
    contents = copies.copy_out([1, 2])
    empty = torch.empty

    def no_room(*size, **options):
        if "device" in options:
            raise torch.OutOfMemoryError("no room")
        return empty(*size, **options)

    monkeypatch.setattr(torch, "empty", no_room)
    with pytest.raises(torch.OutOfMemoryError):
        copies.copy_in(contents, [3, 4])
    with pytest.raises(torch.OutOfMemoryError):
        copies.copy_out([5, 6, 7])
    monkeypatch.undo()
    assert copies.slots.num_used <= 2 + 3  # the traceback may hold the last ones still
    assert all(holds(content, block) for content, block in zip(copies.copy_out([3, 4]), [3, 4], strict=True))


def test_contents_in_pageable_memory_come_back_too():
    storage = numbered_storage(40)
    copies = HostCopies(storage, staging_bytes=3 * storage.bytes_per_block)
    contents = [content.clone() for content in copies.copy_out(list(range(20)))]
    assert not contents[0].is_pinned()
    poison(storage)
    copies.copy_in(contents, list(range(39, 19, -1)))
    for content in contents:
        content.fill_(-1.0)
    expected = torch.arange(19, -1, -1, device="cuda", dtype=torch.float32)
    for part in (part for layer in storage.tensors for part in layer):
        assert torch.equal(part[20:], expected[:, None, None, None].expand_as(part[20:]))


def test_a_long_prefix_goes_through_both_tiers_in_batches():
    pool, storage = BlockPool(200, PAGE), numbered_storage(200)
    cache, copies = PrefixCache(pool), HostCopies(storage)
    tiered = TieredPrefixCache(cache, HostTier(400), copies.copy_out, copies.copy_in)
    tokens = list(range(150 * PAGE + 1))
    blocks = pool.allocate(150)
    cache.insert(tokens, blocks)
    pool.release(blocks)
    taken = pool.allocate(200)
    poison(storage)  # at once, by who got the blocks
    assert copies.link_copies <= 3 + 2 * -(-200 // copies.slots.rows) + 3
    pool.release(taken)
    found = tiered.match(tokens)
    assert found.host_tokens == 150 * PAGE
    for part in (part for layer in storage.tensors for part in layer):
        assert torch.equal(part[found.blocks, 0, 0, 0], torch.tensor(blocks, device="cuda", dtype=torch.float32))
