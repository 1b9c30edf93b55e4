"""Fills a LaunchLedger while a launch runs: one call for each access, kept cheap because every tl.load pays for it."""

import numpy as np

from .ledger import SECTOR_BYTES, LaunchLedger, SourceLine, Touched, Traffic
from .memory import Region

_SECTOR_BITS = SECTOR_BYTES.bit_length() - 1


def distinct(offsets: np.ndarray, start: int) -> tuple[int, int]:
    """(different byte offsets, different sectors) of one access; quick when rows or columns run upwards, as tiles do."""
    flat = offsets.reshape(-1)
    if flat.size == 1:
        return 1, 1
    for order in (flat, offsets.T.reshape(-1)) if offsets.ndim > 1 else (flat,):
        if (np.diff(order) >= 0).all():
            break
    else:
        order = np.sort(flat)
    sectors = (order + start) >> _SECTOR_BITS
    return 1 + int(np.count_nonzero(order[1:] != order[:-1])), 1 + int(np.count_nonzero(sectors[1:] != sectors[:-1]))


class Account:
    """The counting side of one launch. `pictures` keeps, per element, who touched it."""

    def __init__(self, ledger: LaunchLedger, pictures: bool):
        self.ledger, self.pictures = ledger, pictures
        self._loaded: dict[tuple[str, int], np.ndarray] = {}
        self._stored: dict[tuple[str, int], np.ndarray] = {}
        self._seen_by_site: dict[tuple[str, SourceLine, bool], np.ndarray] = {}
        self._regions: dict[str, Region] = {}

    def access(self, kind: str, region: Region, offsets: np.ndarray, itemsize: int, line: SourceLine, program: int) -> None:
        """kind: "load", "store" or "atomic"; offsets: byte offsets in the storage of the active lanes, in the block's shape."""
        count = offsets.size
        traffic = self.ledger.sites.get((region.arg, line))
        if traffic is None:
            traffic = self.ledger.sites[region.arg, line] = Traffic()
        self._regions[region.arg] = region
        loads, writes = kind == "load", kind != "load"  # an atomic counts as a write
        places = offsets - region.first if itemsize == region.itemsize else None
        elements = self._elements(region, offsets, itemsize) if places is None else places // itemsize
        if kind == "atomic":
            traffic.atomic_bytes += count * itemsize
            traffic.atomics += count
        else:
            different, sectors = distinct(offsets, region.storage.start)
            useful = different * itemsize
            if loads:
                traffic.loads += 1
                traffic.loaded_bytes += count * itemsize
                traffic.sectors_loaded += sectors
                traffic.useful_loaded_bytes += useful
            else:
                traffic.stores += 1
                traffic.stored_bytes += count * itemsize
                traffic.sectors_stored += sectors
                traffic.useful_stored_bytes += useful
        self._mark(region, elements, line, writes, program)

    @staticmethod
    def _elements(region: Region, offsets: np.ndarray, itemsize: int) -> np.ndarray:
        """Elements of the tensor that an access of another width touches (a pointer that was cast)."""
        first = (offsets - region.first) // region.itemsize
        last = (offsets - region.first + itemsize - 1) // region.itemsize
        return first if np.array_equal(first, last) else np.concatenate([first.ravel(), last.ravel()])

    def _mark(self, region: Region, elements: np.ndarray, line: SourceLine, writes: bool, program: int) -> None:
        site = (region.arg, line, writes)
        seen = self._seen_by_site.get(site)
        if seen is None:
            seen = self._seen_by_site[site] = np.zeros(region.num_elements, bool)
        seen[elements] = True
        if self.pictures:
            touched = self.ledger.touched.get(region.arg)
            if touched is None:
                touched = self.ledger.touched[region.arg] = _untouched(region)
            (touched.stores if writes else touched.loads)[elements] += 1
            (touched.writer if writes else touched.loader)[elements] = program

    def dot(self, kind: str, flops: int, line: SourceLine) -> None:
        self.ledger.dot_flops[kind] = self.ledger.dot_flops.get(kind, 0) + flops
        self.ledger.dot_lines[line] = self.ledger.dot_lines.get(line, 0) + flops

    def special(self, name: str, count: int) -> None:
        self.ledger.special_calls[name] = self.ledger.special_calls.get(name, 0) + count

    def close(self) -> None:
        """Add up: sites into lines, arguments and the whole; distinct bytes from what was seen."""
        ledger = self.ledger
        seen_by_arg: dict[tuple[str, bool], np.ndarray] = {}
        for (arg, line, writes), seen in self._seen_by_site.items():
            _set_distinct(ledger.sites[arg, line], seen, self._regions[arg].itemsize, writes)
            known = seen_by_arg.get((arg, writes))
            seen_by_arg[arg, writes] = seen.copy() if known is None else known | seen
        for (arg, line), traffic in ledger.sites.items():
            ledger.lines.setdefault(line, Traffic()).__iadd__(traffic)
            ledger.arguments.setdefault(arg, Traffic()).__iadd__(traffic)
            ledger.total += traffic
        for traffic in (ledger.total, *ledger.arguments.values()):
            traffic.distinct_loaded_bytes = traffic.distinct_stored_bytes = 0
        for (arg, writes), seen in seen_by_arg.items():
            _set_distinct(ledger.arguments[arg], seen, self._regions[arg].itemsize, writes)
        self._total_distinct(seen_by_arg)

    def _total_distinct(self, seen_by_arg: dict[tuple[str, bool], np.ndarray]) -> None:
        """Distinct bytes of the launch: an element reached through two arguments of one storage counts once."""
        by_storage: dict[tuple[int, bool], list[tuple[Region, np.ndarray]]] = {}
        for (arg, writes), seen in seen_by_arg.items():
            region = self._regions[arg]
            by_storage.setdefault((region.storage.start, writes), []).append((region, seen))
        for (_, writes), parts in by_storage.items():
            if len(parts) == 1:
                total = int(parts[0][1].sum()) * parts[0][0].itemsize
            else:
                every = np.zeros(parts[0][0].storage.num_bytes, bool)
                for region, seen in parts:
                    every[region.first : region.first + seen.size * region.itemsize] |= np.repeat(seen, region.itemsize)
                total = int(every.sum())
            name = "distinct_stored_bytes" if writes else "distinct_loaded_bytes"
            setattr(self.ledger.total, name, getattr(self.ledger.total, name) + total)


def _set_distinct(traffic: Traffic, seen: np.ndarray, itemsize: int, writes: bool) -> None:
    count = int(seen.sum()) * itemsize
    if writes:
        traffic.distinct_stored_bytes = count
    else:
        traffic.distinct_loaded_bytes = count


def _untouched(region: Region) -> Touched:
    size = region.num_elements
    none = np.full(size, -1, np.int32)
    zero = np.zeros(size, np.int32)
    return Touched(region.shape, region.strides, region.itemsize, region.dtype, zero, zero.copy(), none, none.copy())
