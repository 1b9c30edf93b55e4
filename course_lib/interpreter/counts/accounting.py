"""Fills a LaunchLedger while a launch runs: one call for each access, kept cheap because every tl.load pays for it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..mistakes.memory import Region
from .books import SECTOR_BYTES, LaunchLedger, Repeats, SourceLine, Touched, Traffic

if TYPE_CHECKING:
    from ..mistakes.access import Access

_SECTOR_BITS = SECTOR_BYTES.bit_length() - 1


def distinct(offsets: np.ndarray, start: int) -> tuple[int, int]:
    """(different byte offsets, different sectors) of one access; quick when rows or columns run upwards, as tiles do.

    offsets are counted from the address `start`; no element crosses a sector, since accesses are aligned to their size.
    """
    if offsets.size == 1:
        return 1, 1
    for order in (offsets.reshape(-1), offsets.T.reshape(-1)) if offsets.ndim > 1 else (offsets,):
        steps = order[1:] - order[:-1]
        if steps.min() >= 0:
            break
    else:
        order = np.sort(offsets, axis=None)
        steps = order[1:] - order[:-1]
    sectors = (order + start) >> _SECTOR_BITS
    return 1 + int(np.count_nonzero(steps)), 1 + int(np.count_nonzero(sectors[1:] != sectors[:-1]))


class Seen:
    """Which bytes of one stretch of memory were touched: a flag for each `unit` bytes from the address `first`.

    programs  remember as well which program touched them last, for `repeats`
    The stretch grows when it must, and the unit shrinks to the narrowest access (a pointer that was cast).
    """

    __slots__ = ("first", "flags", "last", "unit")

    def __init__(self, first: int, num_bytes: int, unit: int, programs: bool = False):
        self.first, self.unit, self.flags = first, unit, np.zeros(num_bytes // unit, bool)
        self.last = np.full(self.flags.size, -1, np.int32) if programs else None

    @property
    def end(self) -> int:
        return self.first + self.flags.size * self.unit

    @property
    def num_bytes(self) -> int:
        return int(np.count_nonzero(self.flags)) * self.unit

    def mark(self, start: int, access: "Access") -> np.ndarray:
        """Flag what an access touched; its offsets are counted from the address `start`. -> the first flag of each element."""
        self._reach(start + access.low, start + access.high + access.itemsize, access.itemsize)
        places = access.offsets + (start - self.first)
        if self.unit > 1:
            places >>= self.unit.bit_length() - 1
        self.flags[places] = True
        for step in range(1, access.itemsize // self.unit):
            self.flags[places + step] = True
        return places

    def repeats(self, places: np.ndarray, itemsize: int, program: int) -> tuple[int, int]:
        """(bytes that this program had touched, bytes that only others had), before it touches these different places now.

        Programs run one after the other, so what the running one has touched is what it has touched last.
        """
        mine = known = 0
        for step in range(itemsize // self.unit):
            before = self.last[places + step if step else places]
            mine += int(np.count_nonzero(before == program))
            known += int(np.count_nonzero(before >= 0))
            self.last[places + step if step else places] = program
        return mine * self.unit, (known - mine) * self.unit

    def absorb(self, other: "Seen") -> None:
        """Flag what `other` has flagged as well."""
        self._reach(other.first, other.end, other.unit)
        place = (other.first - self.first) // self.unit
        flags = np.repeat(other.flags, other.unit // self.unit)
        self.flags[place : place + flags.size] |= flags

    def copy(self) -> "Seen":
        twin = Seen(self.first, 0, self.unit)
        twin.flags = self.flags.copy()
        return twin

    def _reach(self, first: int, end: int, unit: int) -> None:
        if unit < self.unit:
            self.flags, times, self.unit = np.repeat(self.flags, self.unit // unit), self.unit // unit, unit
            self.last = None if self.last is None else np.repeat(self.last, times)
        before, after = max(0, self.first - first), max(0, end - self.end)
        if before or after:
            more = (-(-before // self.unit), -(-after // self.unit))
            self.flags = np.pad(self.flags, more)
            self.last = None if self.last is None else np.pad(self.last, more, constant_values=-1)
            self.first -= -(-before // self.unit) * self.unit


def distinct_bytes(seen: Iterable[Seen]) -> int:
    """Bytes flagged in any of them, each counted once: stretches that overlap (two views of one tensor) are laid together."""
    groups: list[Seen] = []
    for part in sorted(seen, key=lambda part: part.first):
        if groups and part.first < groups[-1].end:
            groups[-1].absorb(part)
        else:
            groups.append(part.copy())
    return sum(group.num_bytes for group in groups)


class Account:
    """The counting side of one launch. `pictures` keeps, per element, who touched it."""

    def __init__(self, ledger: LaunchLedger, pictures: bool):
        self.ledger, self.pictures = ledger, pictures
        self._seen: dict[tuple[str, SourceLine, bool], Seen] = {}  # argument, line, written?

    def access(self, kind: str, access: "Access", line: SourceLine, program: int) -> None:
        """kind: "load", "store" or "atomic". An access counts for the argument that `access.region` names."""
        region, offsets, itemsize = access.region, access.offsets, access.itemsize
        count = different = offsets.size
        traffic = self.ledger.sites.get((region.arg, line))
        if traffic is None:
            traffic = self.ledger.sites[region.arg, line] = Traffic()
        if kind == "atomic":
            traffic.atomic_bytes += count * itemsize
            traffic.atomics += count
        else:
            different, sectors = distinct(offsets, region.storage.start)
            if kind == "load":
                traffic.loads += 1
                traffic.loaded_bytes += count * itemsize
                traffic.sectors_loaded += sectors
                traffic.useful_loaded_bytes += different * itemsize
            else:
                traffic.stores += 1
                traffic.stored_bytes += count * itemsize
                traffic.sectors_stored += sectors
                traffic.useful_stored_bytes += different * itemsize
        writes = kind != "load"  # an atomic counts as a write
        site = (region.arg, line, writes)
        seen = self._seen.get(site)
        if seen is None:
            first, size = region.storage.start + region.first, region.end - region.first
            seen = self._seen[site] = Seen(first, size, region.itemsize, programs=self.pictures and not writes)
        places = seen.mark(region.storage.start, access)
        if self.pictures:
            if not writes:
                repeats = self.ledger.repeats.setdefault((region.arg, line), Repeats())
                inside, across = seen.repeats(places if different == count else np.unique(places), itemsize, program)
                repeats.inside += inside
                repeats.across += across
            self._picture(access, writes, program)

    def _picture(self, access: "Access", writes: bool, program: int) -> None:
        """An access that lies in several views of one storage is drawn in each of them."""
        region, offsets = access.region, access.offsets
        whole = region.dense and region.first <= access.low and access.high + access.itemsize <= region.end
        for home in (region,) if whole else region.storage.regions:
            places = offsets if whole else offsets[home.contains(offsets, access.itemsize)]
            if not places.size:
                continue
            touched = self.ledger.touched.get(home.arg)
            if touched is None:
                touched = self.ledger.touched[home.arg] = _untouched(home)
            first = (places - home.first) // home.itemsize
            for step in range(max(1, access.itemsize // home.itemsize)):
                (touched.stores if writes else touched.loads)[first + step] += 1
                (touched.writer if writes else touched.loader)[first + step] = program

    def dot(self, kind: str, flops: int, line: SourceLine) -> None:
        self.ledger.dot_flops[kind] = self.ledger.dot_flops.get(kind, 0) + flops
        self.ledger.dot_lines[line] = self.ledger.dot_lines.get(line, 0) + flops

    def special(self, name: str, count: int) -> None:
        self.ledger.special_calls[name] = self.ledger.special_calls.get(name, 0) + count

    def close(self, stopped: str = "") -> None:
        """Add up: sites into lines, arguments and the whole. stopped: why the launch did not run to its end, "" if it did."""
        ledger = self.ledger
        for (arg, line), traffic in ledger.sites.items():
            self._set_distinct(traffic, arg, line)
            ledger.lines.setdefault(line, Traffic()).__iadd__(traffic)
            ledger.arguments.setdefault(arg, Traffic()).__iadd__(traffic)
            ledger.total += traffic
        for arg, traffic in ledger.arguments.items():
            self._set_distinct(traffic, arg=arg)
        for line, traffic in ledger.lines.items():
            self._set_distinct(traffic, line=line)
        self._set_distinct(ledger.total)
        ledger.complete = not stopped
        if stopped:
            ledger.notes.append(f"incomplete, counted up to this: {stopped}")

    def _set_distinct(self, traffic: Traffic, arg: str | None = None, line: SourceLine | None = None) -> None:
        """Distinct bytes do not add up (two lines may read one element): those of an argument, a line, both, or everything."""
        found: list[list[Seen]] = [[], []]
        for (at_arg, at_line, writes), seen in self._seen.items():
            if arg in (None, at_arg) and line in (None, at_line):
                found[writes].append(seen)
        traffic.distinct_loaded_bytes, traffic.distinct_stored_bytes = map(distinct_bytes, found)


def _untouched(region: Region) -> Touched:
    size = region.num_elements
    none = np.full(size, -1, np.int32)
    zero = np.zeros(size, np.int32)
    return Touched(region.shape, region.strides, region.itemsize, region.dtype, zero, zero.copy(), none, none.copy())
