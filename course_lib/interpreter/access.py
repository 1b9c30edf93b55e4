"""One access of a block of pointers: find the elements, refuse what is outside, move the data, keep the books.

Every builder operation that touches memory (loads, stores, atomics, descriptors) comes through `locate`.
"""

from dataclasses import dataclass

import numpy as np

from . import canary
from .memory import Region, Storage
from .values import DOUBTS, MASKED_OFF, UNWRITTEN, WRAPPED, Doubt, Origin, Value
from .watch import Launch


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

    @property
    def elements(self) -> np.ndarray:
        return self.offsets >> (self.itemsize.bit_length() - 1)


def locate(launch: Launch, pointers: Value, mask: Value | None, itemsize: int, verb: str) -> Access:
    """Check every active lane; raises KernelMistake for the first one that is wrong. verb: "load from" or "store to"."""
    lanes = None
    if mask is not None:
        if mask.doubt is not None:
            refuse_doubt(launch, mask.doubt, None, "decides whether a lane is active", MASKED_OFF | UNWRITTEN)
        lanes = np.broadcast_to(mask.data, pointers.data.shape)
        if lanes.all():
            lanes = None
    if pointers.doubt is not None:
        refuse_doubt(launch, pointers.doubt, lanes, f"is part of the address to {verb}", MASKED_OFF | UNWRITTEN | WRAPPED)
    active = pointers.data if lanes is None else pointers.data[lanes]
    if not active.size:
        return Access(None, None, active.astype(np.int64), itemsize, lanes)
    region = launch.memory.by_name.get(pointers.arg) if pointers.arg else launch.memory.region_at(int(active.flat[0]))
    if region is None:
        address = int(active.flat[0])
        raise launch.mistake(
            "out of bounds", f"cannot {verb} address {address:#x}: no tensor passed to this launch lies there", index=address
        )
    storage = region.storage
    offsets = (active - np.uint64(storage.start)).view(np.int64)
    low, high = int(offsets.min()), int(offsets.max())
    if not (region.dense and low >= region.first and high + itemsize <= region.end):
        region = _look_closer(launch, region, offsets, itemsize, lanes, verb)
    if itemsize > 1 and (int(np.bitwise_or.reduce(offsets, axis=None)) | storage.start) & (itemsize - 1):
        raise launch.mistake("misaligned", f"the address to {verb} in {region.arg} is no multiple of {itemsize} bytes")
    return Access(storage, region, offsets, itemsize, lanes, low, high)


def _look_closer(
    launch: Launch, region: Region, offsets: np.ndarray, itemsize: int, lanes: np.ndarray | None, verb: str
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
    first = int(np.flatnonzero(~inside.ravel())[0])
    offset = int(offsets.ravel()[first])
    lane = int(np.flatnonzero(lanes.ravel())[first]) if lanes is not None else first
    hit = _hit(launch, region, offset)
    many = f"{int((~inside).sum())} of {inside.size} active lanes are outside, first lane {lane}"
    flat, _ = divmod(offset - region.first, region.itemsize)
    raise launch.mistake(
        "out of bounds",
        f"cannot {verb} {region.index_of(offset)}: {region.arg} is {region.extent}; {many}{hit}",
        argument=region.arg, index=flat, bounds=(0, region.num_elements),
    )  # fmt: skip


def _hit(launch: Launch, region: Region, offset: int) -> str:
    """Says when a wild pointer lands in another tensor of the launch, where a GPU would answer with that tensor's data."""
    found = launch.memory.region_at(region.storage.start + offset)
    return f". It lands in {found.arg}" if found and found is not region else ""


def refuse_doubt(launch: Launch, doubt: Doubt, lanes: np.ndarray | None, what: str, kinds: int) -> None:
    """Raise when an active lane's value has one of `kinds` of doubt."""
    active = doubt.kinds if lanes is None else doubt.kinds[lanes]
    found = int(np.bitwise_or.reduce(active, axis=None)) & kinds if active.size else 0
    if not found:
        return
    kind = next(bit for bit in DOUBTS if found & bit)
    origin = doubt.origins.get(kind)
    name = {MASKED_OFF: "masked off", UNWRITTEN: "unwritten", WRAPPED: "overflow"}[kind]
    cure = {
        MASKED_OFF: "Give that load an other=, or mask this use as well",
        UNWRITTEN: "Write it first (torch.zeros, an earlier store), or mask the lane",
        WRAPPED: "Make one factor int64 first: tl.program_id(0).to(tl.int64)",
    }[kind]
    count = int(np.count_nonzero(active & kind))
    began = f" from line {origin.line} `{origin.text}`: {origin.detail}" if origin else ""
    raise launch.mistake(
        name,
        f"a value that {what} comes{began} ({DOUBTS[kind]}; {count} of {active.size} lanes). {cure}.",
        argument=origin.detail.split("[")[0] if origin and "[" in origin.detail else "",
    )


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
        origins[MASKED_OFF] = Origin(line.number, line.text, f"{access.region.arg if access.region else 'a tensor'}[masked off]")
    if launch.checks.unwritten and access.storage is not None and canary.is_planted(access.storage):
        fresh = canary.unwritten(access.storage, access.offsets, access.itemsize, access.region.dtype)
        if fresh.any():
            if kinds is None:
                kinds = np.zeros(shape, np.uint8)
            if access.mask is None:
                kinds |= np.where(fresh.reshape(shape), np.uint8(UNWRITTEN), np.uint8(0))
            else:
                kinds[access.mask] |= np.where(fresh, np.uint8(UNWRITTEN), np.uint8(0))
            line = launch.line()
            where = int(access.offsets.ravel()[int(np.flatnonzero(fresh.ravel())[0])])
            origins[UNWRITTEN] = Origin(line.number, line.text, access.region.index_of(where))
    return Doubt(kinds, origins) if kinds is not None else None


def store(launch: Launch, access: Access, bits: np.ndarray) -> None:
    """Write the active lanes' bits (in the block's shape)."""
    if access.storage is None:
        return
    if launch.checks.races and launch.grid != (1, 1, 1):
        _note_writer(launch, access)
    values = bits if access.mask is None else bits[access.mask]
    access.storage.view(access.itemsize)[access.elements] = values.reshape(access.offsets.shape)


def _note_writer(launch: Launch, access: Access) -> None:
    """Remember which program stores where; a second program at one address is a race."""
    unit = access.region.itemsize if access.region.itemsize <= access.itemsize else 1
    writers = launch.writers.get(access.storage.start)
    if writers is None or writers[0] > unit:
        fresh = np.full(access.storage.num_bytes // unit + 1, -1, np.int32)
        if writers is not None:  # finer units from now on
            fresh[: writers[1].size * (writers[0] // unit)] = np.repeat(writers[1], writers[0] // unit)[: fresh.size]
        writers = launch.writers[access.storage.start] = (unit, fresh)
    unit, last = writers
    places = access.offsets // unit
    for step in range(max(1, access.itemsize // unit)):
        before = last[places + step]
        clash = (before >= 0) & (before != launch.linear)
        if clash.any():
            first = int(np.flatnonzero(clash.ravel())[0])
            offset, program = int(access.offsets.ravel()[first]), int(before.ravel()[first])
            raise launch.mistake(
                "race",
                f"stores to {access.region.index_of(offset)}, which program {unravel(program, launch.grid)} stored to as well: "
                "which of them stays depends on their order. Give each program its own elements, or use tl.atomic_add.",
                argument=access.region.arg, index=(offset - access.region.first) // access.region.itemsize,
            )  # fmt: skip
        last[places + step] = launch.linear


def unravel(linear: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """The program's index of a linear one (x slowest, the order in which programs run here)."""
    rest, z = divmod(linear, grid[2])
    x, y = divmod(rest, grid[1])
    return x, y, z


def count(launch: Launch, access: Access, kind: str) -> None:
    """Tell the ledger, if there is one. kind: "load", "store" or "atomic"."""
    if launch.account is not None and access.storage is not None:
        launch.account.access(kind, access, launch.line(), launch.linear)
