"""One access of a block of pointers: find the elements, refuse what is outside, move the data, keep the books.

Every builder operation that touches memory (loads, stores, atomics, descriptors) comes through `locate`.
"""

from dataclasses import dataclass

import numpy as np
import triton.language as tl

from ..values import MASKED_OFF, UNWRITTEN, WRAPPED, Doubt, Origin, Value
from ..watch import Launch
from . import canary, races, tell
from .memory import Region, Storage


@dataclass(slots=True)
class Access:
    """Active lanes of one access: offsets are bytes from the storage's start (int64), in the block's shape or flat."""

    storage: Storage | None
    region: Region | None
    offsets: np.ndarray
    itemsize: int
    mask: np.ndarray | None  # None: every lane is active
    low: int = 0  # smallest and largest of the offsets
    high: int = 0
    arg: str = ""  # the argument that the pointers came from

    @property
    def elements(self) -> np.ndarray:
        return self.offsets >> (self.itemsize.bit_length() - 1)


def locate(launch: Launch, pointers: Value, mask: Value | None, itemsize: int, verb: str, cure: str = tell.MASK_IT) -> Access:
    """Check every active lane; raises KernelMistake for the first one that is wrong. verb: "load from" or "store to"."""
    lanes = None
    if mask is not None:
        tell.refuse_doubt(launch, mask.doubt, None, "mask, which decides whether a lane is active,", MASKED_OFF | UNWRITTEN)
        if mask.data.dtype != bool:
            raise launch.mistake("refused", f"a mask is made of comparisons (int1), not of {mask.dtype.scalar}; write mask != 0")
        lanes = np.broadcast_to(mask.data, pointers.data.shape)
        if lanes.all():
            lanes = None
    tell.refuse_doubt(launch, pointers.doubt, lanes, f"address to {verb}", MASKED_OFF | UNWRITTEN | WRAPPED)
    active = pointers.data if lanes is None else pointers.data[lanes]
    if not active.size:
        return Access(None, None, active.astype(np.int64), itemsize, lanes, arg=pointers.arg or "")
    region = launch.memory.by_name.get(pointers.arg) if pointers.arg else _somewhere(launch, active, verb)
    storage = region.storage
    offsets = (active - np.uint64(storage.start)).view(np.int64)
    low, high = int(offsets.min()), int(offsets.max())
    if not (region.dense and low >= region.first and high + itemsize <= region.end):
        region = _look_closer(launch, region, offsets, itemsize, lanes, verb, cure)
    if itemsize > 1 and (int(np.bitwise_or.reduce(offsets, axis=None)) | storage.start) & (itemsize - 1):
        tell.misaligned(launch, region, offsets, itemsize, verb)
    return Access(storage, region, offsets, itemsize, lanes, low, high, region.arg)


def _somewhere(launch: Launch, active: np.ndarray, verb: str) -> Region:
    """The tensor that pointers of no known argument lead to: the first one that any of them hits."""
    hits = active[launch.memory.storages_of(active) >= 0]
    if hits.size:
        return launch.memory.region_at(int(hits.flat[0]))
    tell.nowhere(launch, int(active.flat[0]), verb)


def apart(launch: Launch, pointers: Value, mask: Value | None) -> list[tuple[Value, Value]]:
    """A block whose pointers lead into several tensors, as one (pointers, mask) for each; [] for all other blocks.

    Only pointers made from integers, or chosen among arguments by tl.where, can do so.
    """
    if pointers.arg is not None or pointers.data.size == 1:
        return []
    lanes = np.ones(pointers.data.shape, bool) if mask is None else np.broadcast_to(mask.data, pointers.data.shape)
    homes = launch.memory.storages_of(pointers.data)
    if np.unique(homes[lanes & (homes >= 0)]).size < 2:
        return []
    homes = np.where(homes < 0, launch.memory.storages_of(pointers.data, nearest=True), homes)  # just beyond its end, perhaps
    doubt = mask.doubt if mask is not None else None
    return [(pointers, Value(lanes & (homes == home), tl.int1, doubt=doubt)) for home in np.unique(homes[lanes])]


def _look_closer(
    launch: Launch, region: Region, offsets: np.ndarray, itemsize: int, lanes: np.ndarray | None, verb: str, cure: str
) -> Region:
    """-> the tensor that all lanes lie in (or the pointer's own when they lie in several); raises for the first outside."""
    own = region.contains(offsets, itemsize)
    if own.all():
        return region
    inside, home = own, region
    for other in region.storage.regions:
        if other is not region:
            there = other.contains(offsets, itemsize)
            home = other if there.all() else home
            inside = inside | there
    if inside.all():
        return home
    tell.outside(launch, region, offsets, inside, lanes, verb, cure)


def load(
    launch: Launch, access: Access, shape: tuple[int, ...], other: np.ndarray | None, checked: bool
) -> tuple[np.ndarray, Doubt | None]:
    """-> (bits, doubt) of a load, bits as unsigned integers in the block's shape; `other` holds the bits of masked lanes."""
    kind = np.dtype(f"u{access.itemsize}")
    if access.mask is None:
        bits = access.storage.view(access.itemsize)[access.elements].reshape(shape)
    else:
        bits = np.zeros(shape, kind) if other is None else np.array(np.broadcast_to(other, shape))
        if access.storage is not None:
            bits[access.mask] = access.storage.view(access.itemsize)[access.elements]
    doubt = _load_doubt(launch, access, shape, bits, other is None) if checked else None
    return bits, doubt


def _load_doubt(launch: Launch, access: Access, shape: tuple[int, ...], bits: np.ndarray, no_other: bool) -> Doubt | None:
    kinds, origins = None, {}
    if launch.checks.masked and no_other and access.mask is not None:
        kinds = np.where(access.mask, np.uint8(0), np.uint8(MASKED_OFF))
        line = launch.line()
        name = access.arg or "a tensor"
        what = f"lanes of {name} that" if access.mask.size > 1 else f"{name}, which"
        origins[MASKED_OFF] = Origin(line.number, line.text, what, access.arg)
    fresh = unwritten(launch, access)
    if fresh is not None:
        kinds = np.zeros(shape, np.uint8) if kinds is None else kinds
        if access.mask is None:
            kinds |= np.where(fresh.reshape(shape), np.uint8(UNWRITTEN), np.uint8(0))
        else:
            kinds[access.mask] |= np.where(fresh, np.uint8(UNWRITTEN), np.uint8(0))
        origins[UNWRITTEN] = unwritten_origin(launch, access, fresh)
    return Doubt(kinds, origins) if kinds is not None else None


def unwritten(launch: Launch, access: Access) -> np.ndarray | None:
    """For the active lanes: True where nobody wrote; None where all is written (or nobody asks)."""
    if not launch.checks.unwritten or access.storage is None or not canary.is_planted(access.storage):
        return None
    fresh = canary.unwritten(access.storage, access.offsets, access.itemsize, access.region.dtype)
    return fresh if fresh.any() else None


def unwritten_origin(launch: Launch, access: Access, fresh: np.ndarray) -> Origin:
    line, region = launch.line(), access.region
    offset = int(access.offsets.ravel()[int(np.flatnonzero(fresh.ravel())[0])])
    index = (offset - region.first) // region.itemsize
    return Origin(line.number, line.text, region.index_of(offset), region.arg, index)


def store(launch: Launch, access: Access, bits: np.ndarray) -> None:
    """Write the active lanes' bits (in the block's shape)."""
    if access.storage is None:
        return
    if launch.checks.races and launch.grid != (1, 1, 1):
        races.note(launch, access.region, access.offsets, access.itemsize)
    values = bits if access.mask is None else bits[access.mask]
    access.storage.view(access.itemsize)[access.elements] = values.reshape(access.offsets.shape)


def count(launch: Launch, access: Access, kind: str) -> None:
    """Tell the ledger, if there is one. kind: "load", "store" or "atomic"."""
    if launch.account is not None and access.storage is not None:
        launch.account.access(kind, access, launch.line(), launch.linear)
