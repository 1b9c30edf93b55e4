"""How a wrong access, and a value that may not be used, are told: what was touched, what is allowed, what to do."""

from typing import NoReturn

import numpy as np

from ..values import DOUBTS, MASKED_OFF, UNWRITTEN, WRAPPED, Doubt, Origin
from ..watch import Launch
from .memory import Region

MASK_IT = "Mask such lanes off, as in mask=index < n"


def nowhere(launch: Launch, address: int, verb: str) -> NoReturn:
    """A pointer of no argument that leads to no tensor."""
    raise launch.mistake(
        "out of bounds",
        f"cannot {verb} address {address:#x}, which was not made from an argument's pointer: no tensor passed to this launch "
        "lies there. If it is right, pass the tensor that it points into to the launch as well, as one more argument",
        index=address,
    )  # fmt: skip


def outside(
    launch: Launch, region: Region, offsets: np.ndarray, inside: np.ndarray, lanes: np.ndarray | None, verb: str, cure: str
) -> NoReturn:
    """Some active lanes are in no tensor that their pointer may reach. inside: for each active lane, whether it is in one."""
    first = int(np.flatnonzero(~inside.ravel())[0])
    offset = int(offsets.ravel()[first])
    lane = int(np.flatnonzero(lanes.ravel())[first]) if lanes is not None else first
    many = _many(int((~inside).sum()), inside.size, f" outside, the first is lane {lane}", " active")
    raise launch.mistake(
        "out of bounds",
        f"cannot {verb} {region.index_of(offset)}: {region.arg} is {region.extent}{many and '; ' + many}"
        f"{_hit(launch, region, offset)}. {_cure(region, inside.size, cure)}",
        argument=region.arg, index=(offset - region.first) // region.itemsize, bounds=(0, region.num_elements),
    )  # fmt: skip


def misaligned(launch: Launch, region: Region, offsets: np.ndarray, itemsize: int, verb: str) -> NoReturn:
    """An access that does not start at a multiple of its size."""
    past = (offsets + region.storage.start) & (itemsize - 1)
    first = int(np.flatnonzero(past.ravel())[0])
    offset, rest = int(offsets.ravel()[first]), int(past.ravel()[first])
    raise launch.mistake(
        "misaligned",
        f"cannot {verb} {region.index_of(offset)}: an access of {itemsize} bytes must start at a multiple of {itemsize}, "
        f"and this one starts {rest} {'byte' if rest == 1 else 'bytes'} after one. "
        "Start it at a multiple, or load narrower elements and put them together",
        argument=region.arg, index=(offset - region.first) // region.itemsize, bounds=(0, region.num_elements),
    )  # fmt: skip


def refuse_doubt(launch: Launch, doubt: Doubt | None, lanes: np.ndarray | None, what: str, kinds: int) -> None:
    """Raise when an active lane's value has one of `kinds` of doubt. what: the value's name, "address to load from"."""
    if doubt is None:
        return
    active = doubt.kinds if lanes is None else np.broadcast_to(doubt.kinds, lanes.shape)[lanes]
    found = int(np.bitwise_or.reduce(active, axis=None)) & kinds if active.size else 0
    if not found:
        return
    kind = next(bit for bit in DOUBTS if found & bit)
    origin = doubt.origins.get(kind, Origin(0, "", ""))
    here, there = launch.line(), f"line {origin.line} `{origin.text}`"
    if (origin.line, origin.text) == (here.number, here.text):
        there = "this line"
    name, cause, cure = {
        MASKED_OFF: (
            "masked off",
            f"{origin.detail} {there} masked off without other=; what is there is undefined",
            "Mask this use as well" if "atomic" in origin.detail else "Give that load an other=, or mask this use as well",
        ),
        UNWRITTEN: (
            "unwritten",
            f"{origin.detail}, which {there} read and nobody has written",
            "Write it first (torch.zeros, an earlier store), or mask these lanes",
        ),
        WRAPPED: (
            "overflow",
            f"{there}, where {origin.detail} and wraps around",
            "Make one operand int64 first, as in tl.program_id(0).to(tl.int64)",
        ),
    }[kind]
    many = _many(int(np.count_nonzero(active & kind)), active.size, " affected")
    raise launch.mistake(
        name, f"the {what} depends on {cause}{many and f' ({many})'}. {cure}", argument=origin.argument, index=origin.index
    )


def _cure(region: Region, lanes: int, cure: str) -> str:
    if cure is not MASK_IT:
        return cure
    if not region.dense:
        return "Multiply the index of each axis by its stride, and mask off what lies beyond the shape"
    return MASK_IT if lanes > 1 else "Compare the index with the size before the access"


def _hit(launch: Launch, region: Region, offset: int) -> str:
    """Says what a wild pointer hits, where that is memory of another tensor that a GPU would read or overwrite silently."""
    address = region.storage.start + offset
    found = launch.memory.region_at(address) if address >= 0 else None
    if found is None:
        return ""
    if found.contains(np.array([address - found.storage.start]), 1)[0]:
        return f". A GPU would touch {found.arg} there" if found is not region else ""
    return f". A GPU would touch memory there that belongs to the storage of {found.arg}, but to no argument"


def _many(count: int, total: int, what: str, kind: str = "") -> str:
    """ "1 of 8 lanes is wrong", "3 of 8 lanes are wrong", and nothing for a scalar."""
    return f"{count} of {total}{kind} lanes {'is' if count == 1 else 'are'}{what}" if total > 1 else ""
