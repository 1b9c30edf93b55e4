"""Two programs that store to one address: which of the two values stays depends on their order, which nobody knows.

Kept per launch and storage: the last program that stored to each element, in units of the narrowest element seen so far.
A program that has done a tl.atomic_cas holds a lock, and may store where others have.
"""

import numpy as np

from ..counts.books import program_index
from ..watch import Launch
from .memory import Region


def note(launch: Launch, region: Region, offsets: np.ndarray, itemsize: int) -> None:
    """Remember which program stores where; a second program at one address is a race, unless it holds a lock."""
    unit = region.itemsize if region.itemsize <= itemsize else 1
    writers = launch.writers.get(region.storage.start)
    if writers is None or writers[0] > unit:
        fresh = np.zeros(region.storage.num_bytes // unit + 1, np.int32)  # costs memory only where somebody writes
        if writers is not None:  # finer units from now on
            fresh[: writers[1].size * (writers[0] // unit)] = np.repeat(writers[1], writers[0] // unit)[: fresh.size]
        writers = launch.writers[region.storage.start] = (unit, fresh)
    unit, last = writers
    me = launch.linear + 1  # 0: nobody
    places = offsets // unit
    for step in range(max(1, itemsize // unit)):
        before = last[places + step]
        clash = (before > 0) & (before != me)
        if clash.any() and launch.lock_holder != launch.linear:
            first = int(np.flatnonzero(clash.ravel())[0])
            offset, program = int(offsets.ravel()[first]), int(before.ravel()[first]) - 1
            raise launch.mistake(
                "race",
                f"stores to {region.index_of(offset)}, where program {program_index(program, launch.grid)} has stored as well: "
                "which of the two values stays depends on their order. Give each program its own elements, or use tl.atomic_add",
                argument=region.arg,
                index=(offset - region.first) // region.itemsize,
                bounds=(0, region.num_elements),
            )
        last[places + step] = me
