"""Batches of blocks to host memory and back: bit for bit in any order, through chunks, and nothing else touched."""

import gc
from random import Random

import pytest
import torch

from course_lib.kvcache import host_slots
from course_lib.kvcache.errors import KVCacheError
from course_lib.kvcache.host_copies import HostCopies, _word
from course_lib.kvcache.host_slots import HostSlots
from course_lib.kvcache.storage import KVStorage

PAGE, LAYERS = 2, 3
SHAPES = {
    torch.bfloat16: ((2, 4), (2, 3)), torch.float16: ((1, 3), (3, 5)), torch.float32: ((2, 4), (2, 3)),
    torch.float64: ((3, 3),), torch.float8_e4m3fn: ((1, 3), (1, 5)),
}  # fmt: skip


def storage_of(blocks, dtype=torch.bfloat16, seed=0):
    storage = KVStorage(blocks, PAGE, layers=LAYERS, shapes=SHAPES[dtype], dtype=dtype)
    draw = torch.Generator().manual_seed(seed)
    for part in parts_of(storage):  # any bits, those of NaN too
        part.view(torch.uint8).copy_(torch.randint(0, 256, part.view(torch.uint8).shape, generator=draw, dtype=torch.uint8))
    return storage


def parts_of(storage):
    return [part for layer in storage.tensors for part in layer]


def bits(tensors):
    return b"".join(tensor.contiguous().view(torch.uint8).numpy().tobytes() for tensor in tensors)


def block_bits(storage):
    """Of each block, layer by layer, keys before values: the order that copy_out promises."""
    return [bits([part[block] for part in parts_of(storage)]) for block in range(storage.num_blocks)]


def poison(content):
    content.view(torch.uint8).fill_(0xA5)


def random_copies(seed, dtype=torch.bfloat16, copies_class=HostCopies, steps=120):
    """Batches out and in, in random order, against a model in bytes. What is let go of is written over at once."""
    random, blocks = Random(seed), 12
    storage = storage_of(blocks, dtype, seed)
    copies = copies_class(storage, staging_bytes=random.choice([1, 2, 5, 40]) * storage.bytes_per_block)
    model, host, moved = block_bits(storage), [], 0  # host: (content, its bits)
    for _ in range(steps):
        batch = random.sample(range(blocks), random.randrange(blocks + 1))
        kind = random.random()
        if kind < 0.4 and len(host) < 40:
            contents = copies.copy_out(batch)
            for block in batch:  # written as soon as the call is back
                for part in parts_of(storage):
                    poison(part[block])
            host += [(content, model[block]) for content, block in zip(contents, batch, strict=True)]
            for block in batch:
                model[block] = b"\xa5" * storage.bytes_per_block
            moved += len(batch)
        elif kind < 0.8:
            chosen = random.sample(host, min(len(batch), len(host)))
            batch = batch[: len(chosen)]
            copies.copy_in([content for content, _ in chosen], batch)
            for (content, expected), block in zip(chosen, batch, strict=True):
                model[block] = expected
                if random.random() < 0.5:  # dropped as soon as the call is back
                    host = [(other, was) for other, was in host if other is not content]
                    poison(content)
            moved += len(batch)
            content = chosen = None
        elif host:
            at = random.randrange(len(host))
            host[at] = (host[at][0].clone(), host[at][1]) if kind < 0.9 else (host[at][0][:], host[at][1])
        contents = None
        assert block_bits(storage) == model, "a block holds something else"
        assert all(bits([content]) == expected for content, expected in host), "host memory was written over"
        assert copies.slots.num_used <= len(host)
        assert copies.copied_bytes == moved * storage.bytes_per_block
    return copies


@pytest.mark.parametrize("seed", range(6))
def test_blocks_go_and_come_back_bit_for_bit_in_any_order(seed):
    random_copies(seed)


@pytest.mark.parametrize("dtype", SHAPES)
def test_every_width_of_values_is_moved_as_bits(dtype):
    random_copies(7, dtype, steps=40)


class LosesTheOrder(HostCopies):
    def copy_in(self, contents, blocks):
        super().copy_in(sorted(contents, key=lambda content: content.data_ptr()), blocks)


class OneChunkOnly(HostCopies):
    def _chunks(self, blocks):
        yield from list(super()._chunks(blocks))[:1]


class TakesNeighboursForGranted(HostCopies):
    def _cross(self, contents, staging, *, out):
        first = self.slots.row_of(contents[0])
        if first is None:
            return super()._cross(contents, staging, out=out)
        host = self.slots.words_of(first, len(contents))
        (host if out else staging[: len(host)]).copy_(staging[: len(host)] if out else host)


@pytest.mark.parametrize("broken", [LosesTheOrder, OneChunkOnly, TakesNeighboursForGranted])
def test_random_copies_find_planted_mistakes(broken):
    def some_seed_breaks_it():
        for seed in range(6):
            random_copies(seed, copies_class=broken)

    with pytest.raises((AssertionError, RuntimeError)):
        some_seed_breaks_it()


def test_random_copies_find_a_slot_that_is_given_out_twice(monkeypatch):
    def freed_at_once(slots, place):
        content = slots._slabs[place.slab][place.row].view(slots.dtype)
        slots._used[content.data_ptr()] = place
        slots._returned.append(content.data_ptr())
        return content

    monkeypatch.setattr(host_slots.HostSlots, "_slot", freed_at_once)
    with pytest.raises(AssertionError, match="written over"):
        random_copies(0)


@pytest.mark.parametrize("chunk", [1, 3, 4, 9, 20])
def test_staging_is_bounded_and_neighbours_cross_in_one_piece(chunk, monkeypatch):
    storage = storage_of(9)
    copies = HostCopies(storage, staging_bytes=chunk * storage.bytes_per_block)
    taken, empty = [], torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, **options: taken.append(empty(*size, **options)) or taken[-1])
    order = [3, 8, 0, 5, 1, 2, 7, 4, 6]
    contents = copies.copy_out(order)
    pieces = -(-9 // chunk)
    assert copies.link_copies == pieces
    assert max(made.nbytes for made in taken[1:]) <= chunk * storage.bytes_per_block  # the first is the slab
    del taken[:]
    copies.copy_in(contents[::-1], order[::-1])
    assert copies.link_copies == 2 * pieces
    assert [made.nbytes for made in taken] == [min(chunk, 9) * storage.bytes_per_block]


def test_a_block_larger_than_the_staging_goes_alone_and_no_block_needs_none():
    storage = storage_of(4)
    copies = HostCopies(storage, staging_bytes=1)
    before = block_bits(storage)
    copies.copy_in(copies.copy_out([0, 1, 2, 3]), [0, 1, 2, 3])
    assert block_bits(storage) == before
    assert copies.copy_out([]) == []
    copies.copy_in([], [])
    assert copies.link_copies == 8


def test_slots_come_back_with_their_last_view_and_slabs_with_their_last_slot():
    storage = storage_of(4)
    copies = HostCopies(storage)
    slab = 4 * storage.bytes_per_block
    kept = copies.copy_out([0, 1, 2, 3]) + copies.copy_out([0, 1])
    view = kept[0][3:5]
    addresses = {content.data_ptr() for content in kept}
    assert (copies.slots.num_used, copies.slots.bytes_held, len(addresses)) == (6, 2 * slab, 6)
    del kept
    gc.collect()
    assert (copies.slots.num_used, copies.slots.bytes_held) == (1, 2 * slab)  # one with the view, one empty for the next batch
    again = copies.copy_out([0, 1, 2])
    assert view.data_ptr() - 3 * view.itemsize not in {content.data_ptr() for content in again}
    assert copies.slots.bytes_held == 2 * slab
    many = copies.copy_out([0, 1, 2, 3] * 3)
    assert copies.slots.bytes_held == 4 * slab
    del view, many, again
    assert (copies.slots.num_used, copies.slots.bytes_held) == (0, slab)


@pytest.mark.parametrize("seed", range(8))
def test_the_lowest_free_rows_are_given_out_first(seed, monkeypatch):
    """So that a batch lies together. Slabs of 3 rows, which come and go."""
    monkeypatch.setattr(host_slots, "SLAB_BYTES", 3 * 8)
    random, slots, held = Random(seed), HostSlots(1, torch.int64, torch.int64, rows=9, pinned=False), []
    for _ in range(60):
        random.shuffle(held)
        del held[: random.randrange(6)]
        assert slots.num_used == len(held)
        free, n = sorted(slots._free), random.randrange(6)
        taken = slots.take(n)
        assert [slots.row_of(content) for content in taken][: len(free)] == free[:n]
        held += taken
        del taken


def test_pieces_are_moved_in_the_widest_words_that_divide_them():
    sizes = ([16, 24], [16, 12], [6, 8], [16, 3])
    assert [_word(each) for each in sizes] == [torch.int64, torch.int32, torch.int16, torch.uint8]


def test_a_slab_is_no_larger_than_its_bound(monkeypatch):
    storage = storage_of(50)
    monkeypatch.setattr(host_slots, "SLAB_BYTES", 7 * storage.bytes_per_block + 1)
    copies = HostCopies(storage)
    before = block_bits(storage)
    contents = copies.copy_out(range(50))
    assert copies.slots.bytes_held == 8 * 7 * storage.bytes_per_block
    assert copies.link_copies == 8
    assert [bits([content]) for content in contents] == before
    monkeypatch.setattr(host_slots, "SLAB_BYTES", storage.bytes_per_block - 1)
    assert HostCopies(storage).slots.rows == 1


def refused(copies, contents, blocks, message):
    before = block_bits(copies.storage)
    with pytest.raises(KVCacheError, match=message):
        copies.copy_in(contents, blocks)
    assert block_bits(copies.storage) == before


def test_what_cannot_be_done_as_a_whole_is_not_begun():
    copies = HostCopies(storage_of(5), staging_bytes=1)
    contents = copies.copy_out([4, 3, 2])
    counted = copies.copied_bytes
    refused(copies, contents, [0, 1, 5], "block 5 in a copy")
    refused(copies, contents, [0, -1, 1], "block -1 in a copy")
    refused(copies, contents, [0, 1, 0], "no block twice")
    refused(copies, contents, [0, 1], "3 contents for blocks")
    refused(copies, contents, [0, 1.5, 2], "use a whole number")
    refused(copies, [*contents[:2], contents[2][:-1]], [0, 1, 2], "content of shape")
    refused(copies, [*contents[:2], contents[2].float()], [0, 1, 2], "float32")
    with pytest.raises(KVCacheError, match="block 9 in a copy"):
        copies.copy_out([0, 1, 9])
    assert (copies.copied_bytes, copies.slots.num_used) == (counted, 3)


def test_a_link_that_fails_in_the_middle_leaves_slots_free_and_other_blocks_as_they_were(monkeypatch):
    storage = storage_of(8)
    copies = HostCopies(storage, staging_bytes=2 * storage.bytes_per_block)
    contents, before, counted = copies.copy_out([7, 6, 5, 4]), block_bits(storage), copies.copied_bytes
    cross, calls = copies._cross, []

    def second_time_fails(*arguments, **options):
        calls.append(arguments)
        if len(calls) % 2 == 0:
            raise RuntimeError("link down")
        cross(*arguments, **options)

    monkeypatch.setattr(copies, "_cross", second_time_fails)
    with pytest.raises(RuntimeError, match="link down"):
        copies.copy_out([0, 1, 2, 3])
    calls.clear()
    with pytest.raises(RuntimeError, match="link down"):
        copies.copy_in(contents, [0, 1, 2, 3])
    calls.clear()
    gc.collect()
    assert (copies.slots.num_used, copies.copied_bytes) == (4, counted)
    assert block_bits(storage)[4:] == before[4:]
    monkeypatch.undo()
    copies.copy_in(contents, [0, 1, 2, 3])
    assert block_bits(storage)[:4] == before[:3:-1]


def test_contents_of_another_storage_and_of_strange_layout_are_taken():
    storage, other = storage_of(4), storage_of(4, seed=1)
    expected = block_bits(other)
    foreign = HostCopies(other).copy_out([0, 1, 2])
    spread = torch.stack([foreign[1], foreign[1]], 1)[:, 1]  # not in one piece
    odd = torch.cat([foreign[2][:1], foreign[2]])[1:]  # begins between two words
    HostCopies(storage).copy_in([foreign[0], spread, odd], [3, 2, 1])
    assert block_bits(storage)[1:] == expected[2::-1]
    copies = HostCopies(storage)
    (slot,) = copies.copy_out([3])
    first = slot[:1].expand(slot.shape)  # begins where the slot does, and is not it
    copies.copy_in([first], [0])
    assert block_bits(storage)[0] == bits([first])


def test_inference_mode_leaves_no_memory_that_cannot_be_written_outside():
    storage = storage_of(3)
    copies, before = HostCopies(storage), block_bits(storage)
    with torch.inference_mode():
        contents = copies.copy_out([0, 1])
    copies.copy_in(contents, [1, 0])
    del contents
    again = copies.copy_out([0, 1])
    again[0].zero_()
    assert block_bits(storage)[:2] == before[1::-1]
