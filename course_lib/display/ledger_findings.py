"""What in a ledger costs more than the result needs, in sentences: which line, by how much, why, and what a cache may do.

A finding states a fact, not a fault: a tiled matrix product has to read its tiles more than once. Small change is left out, so
that what is said is worth reading: a finding stands for at least SHARE of the launch's bytes (or of its sectors).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..interpreter.counts.books import SECTOR_BYTES, LaunchLedger, SourceLine, Touched, Traffic, program_index
from .ledger_numbers import bytes_text, share_text, times_text

REREADS, COALESCING, SHARE = 1.5, 0.5, 0.05
MINOR = 0.05  # of the repeats: the lesser of two causes is told from here on


@dataclass(frozen=True, slots=True)
class Finding:
    """kind: "re-reads", "lanes", "coalescing", "stores" or "between launches".

    factor  bytes (or sectors) asked for, for each that is needed
    """

    kind: str
    argument: str
    lines: tuple[SourceLine, ...]
    factor: float
    text: str


def findings(launch: LaunchLedger) -> list[Finding]:
    """Of one launch, in the order of its lines."""
    found = []
    for (argument, line), traffic in launch.sites.items():
        found += _rereads(launch, argument, line, traffic)
        found += _coalescing(launch, argument, line, traffic)
    for argument in launch.arguments:
        found += _stores(launch, argument)
    return sorted(found, key=lambda f: (f.lines[0].file, f.lines[0].number))


def _rereads(launch: LaunchLedger, argument: str, line: SourceLine, traffic: Traffic) -> list[Finding]:
    times = traffic.rereads
    extra = traffic.loaded_bytes - traffic.distinct_loaded_bytes
    if times is None or times <= REREADS or extra < SHARE * launch.total.bytes:
        return []
    lanes = traffic.loaded_bytes / traffic.useful_loaded_bytes
    again = traffic.useful_loaded_bytes / traffic.distinct_loaded_bytes
    if again <= REREADS:
        text = (
            f"line {line.number} asks for each element of {argument} {times_text(times)[:-1]} times, in lanes of one access "
            f"({times_text(lanes)[:-1]} lanes for each element). The hardware fetches it once for all of them."
        )
        return [Finding("lanes", argument, (line,), times, text)]
    text = (
        f"line {line.number} loads {times_text(times)[:-1]} times the bytes of {argument} that it needs: "
        f"{bytes_text(traffic.loaded_bytes)} requested, {bytes_text(traffic.distinct_loaded_bytes)} different. "
    )
    return [Finding("re-reads", argument, (line,), times, text + _why_again(launch, argument, line, traffic))]


def _why_again(launch: LaunchLedger, argument: str, line: SourceLine, traffic: Traffic) -> str:
    """Other programs, or one program again, as the ledger counted them (`Repeats`); "" where it did not (without pictures)."""
    repeats = launch.repeats.get((argument, line))
    if repeats is None:
        return ""
    once_each = traffic.distinct_loaded_bytes + repeats.across  # each program's own first loads
    sharers = once_each / traffic.distinct_loaded_bytes  # programs for each element, on average
    inside = traffic.useful_loaded_bytes / once_each  # loads of an element by one program, on average
    every = repeats.inside + repeats.across
    along = _along(launch, argument) if repeats.across else ""
    if repeats.inside <= repeats.across:
        own = f" A program asks for them about {times_text(inside)[:-1]} times itself." if repeats.inside >= MINOR * every else ""
        return (
            f"The repeats come from other programs: {_programs(sharers, along)} ask for the same elements. The L2 cache may "
            f"serve them while it still holds the data; a larger tile for each program means fewer repeats.{own}"
        )
    beside = ""
    if repeats.across >= MINOR * every:
        beside = f", in {'each of the ' if _whole(sharers) else ''}{_programs(sharers, along)}"
    return (
        f"A program loads the same elements about {times_text(inside)[:-1]} times itself, in the loop around this line{beside}. "
        "The L1 cache may serve them; loaded once before that loop, or used for a whole block at a time, they are asked for once."
    )


def _whole(number: float) -> bool:
    return abs(number - round(number)) < 0.05


def _programs(number: float, along: str) -> str:
    """How many programs ask for one element: "3 programs along grid axis 1", "on average 4.5 programs along ..."."""
    return f"{round(number)} programs{along}" if _whole(number) else f"on average {times_text(number)[:-1]} programs{along}"


def _along(launch: LaunchLedger, argument: str) -> str:
    """ " along grid axis 1": the axes whose programs share elements, read from who loaded each element last; "" if none is."""
    touched = launch.touched.get(argument)
    last = np.unique(touched.loader[touched.loader >= 0]) if touched is not None else np.empty(0, int)
    seen = program_index(last, launch.grid)
    axes = [axis for axis in range(3) if launch.grid[axis] > np.unique(seen[axis]).size] if last.size else []
    return f" along grid {'axis' if len(axes) == 1 else 'axes'} {' and '.join(map(str, axes))}" if axes else ""


def _coalescing(launch: LaunchLedger, argument: str, line: SourceLine, traffic: Traffic) -> list[Finding]:
    share = traffic.coalescing
    sectors = traffic.sectors_loaded + traffic.sectors_stored
    useful = traffic.useful_loaded_bytes + traffic.useful_stored_bytes
    every = SECTOR_BYTES * (launch.total.sectors_loaded + launch.total.sectors_stored)
    if share is None or share >= COALESCING or SECTOR_BYTES * sectors - useful < SHARE * every:
        return []
    if traffic.distinct_bytes < SECTOR_BYTES:
        return []  # there is nothing else to ask for
    accesses = traffic.loads + traffic.stores
    touched = launch.touched.get(argument)
    if touched is not None and useful <= accesses * touched.itemsize:
        why = "Each access asks for one element, alone in its sector; a block of neighbours would fill it."
    else:
        why = f"Elements that lie beside each other in the block lie apart in memory{_steps(touched)}."
    verb = "loads" if traffic.loads else "stores"
    verb = "loads and stores" if traffic.loads and traffic.stores else verb
    text = (
        f"line {line.number} {verb} {bytes_text(useful)} of {argument} in {sectors:,} sectors of {SECTOR_BYTES} bytes, "
        f"{bytes_text(SECTOR_BYTES * sectors)}: {share_text(share)} of what is moved is used. {why} "
        "The L1 cache may keep a sector until its other elements are asked for."
    )
    return [Finding("coalescing", argument, (line,), 1 / share, text)]


def _steps(touched: Touched | None) -> str:
    if touched is None or not touched.strides:
        return ""
    strides = ", ".join(str(step) for step in touched.strides)
    return f" (strides of the tensor: {strides}, in elements of {touched.itemsize} B)"


def _stores(launch: LaunchLedger, argument: str) -> list[Finding]:
    """Elements stored more than once. Atomic updates, which are meant to meet, are no stores."""
    traffic = launch.arguments[argument]
    if traffic.stored_bytes <= traffic.distinct_stored_bytes:
        return []
    at = {line: t for (name, line), t in launch.sites.items() if name == argument and t.stored_bytes}
    lines = tuple(sorted(at, key=lambda line: (line.file, line.number)))
    extra = traffic.stored_bytes - traffic.distinct_stored_bytes
    times = traffic.stored_bytes / traffic.distinct_stored_bytes
    where = f"line {lines[0].number} stores" if len(lines) == 1 else f"lines {_numbers(lines)} store"
    text = (
        f"{where} elements of {argument} more than once: {bytes_text(traffic.stored_bytes)} stored, "
        f"{bytes_text(traffic.distinct_stored_bytes)} left in the end, so {bytes_text(extra)} are overwritten. "
        "A sum that is kept in a variable is stored once, at its end."
    )
    return [Finding("stores", argument, lines, times, text)]


def _numbers(lines: Sequence[SourceLine]) -> str:
    *most, last = [str(line.number) for line in lines]
    return f"{', '.join(most)} and {last}"
