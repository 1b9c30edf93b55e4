"""Token slots in one piece, as servers before paging kept KV: first fit with holes that merge, and the power-of-two buddy system.

Both hand out [start, start + slots) and keep a list of holes. First fit gives exactly what is asked for, and leaves holes of any
size; the buddy system gives powers of two, so that a freed piece can find its other half by one XOR and become whole again.
Source   Knuth, "The Art of Computer Programming", volume 1, section 2.5.
"""

from .errors import KVCacheError, NotHeld


def next_power_of_two(slots: int) -> int:
    """1024 -> 1024, 1025 -> 2048."""
    return 1 << max(slots - 1, 0).bit_length()


class FirstFit:
    """The first hole that is long enough; neighbouring holes are one hole."""

    def __init__(self, total_slots: int) -> None:
        if total_slots < 1:
            raise KVCacheError(f"{total_slots} slots; use at least 1")
        self.total_slots = self.longest = total_slots
        self._holes: list[tuple[int, int]] = [(0, total_slots)]  # (start, slots) in order of start
        self._pieces: dict[int, int] = {}  # start -> slots

    def size(self, slots: int) -> int:
        """Slots that a request for `slots` really takes."""
        return slots

    def allocate(self, slots: int) -> int | None:
        """Start of a piece, or None when no hole is long enough."""
        _at_least_one(slots)
        for index, (start, length) in enumerate(self._holes):
            if length >= slots:
                self._holes[index : index + 1] = [(start + slots, length - slots)] if length > slots else []
                self._pieces[start] = slots
                return start
        return None

    def release(self, start: int) -> None:
        """Raises NotHeld when no piece starts there."""
        if start not in self._pieces:
            raise NotHeld(f"no piece starts at slot {start}; {len(self._pieces)} pieces are held")
        merged: list[tuple[int, int]] = []
        for hole, length in sorted([*self._holes, (start, self._pieces.pop(start))]):
            if merged and sum(merged[-1]) == hole:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((hole, length))
        self._holes = merged

    def holes(self) -> list[int]:
        """Lengths of what is free."""
        return [length for _, length in self._holes]

    def check(self) -> None:
        """Pieces and holes tile the memory, and no two holes touch."""
        spans = sorted(
            [(start, slots, "held") for start, slots in self._pieces.items()] + [(*hole, "free") for hole in self._holes]
        )
        at, before = 0, ""
        for start, slots, state in spans:
            assert start == at, f"slots {min(at, start)} to {max(at, start)} are in two spans or in none"
            assert (before, state) != ("free", "free"), f"two holes touch at slot {start}"
            at, before = start + slots, state
        assert at == self.total_slots, f"spans end at {at} of {self.total_slots}"


class Buddy:
    """Powers of two up to longest. A piece of 2**k slots starts at a multiple of it, its buddy differs in bit k of the start."""

    def __init__(self, total_slots: int, longest: int) -> None:
        if longest < 1 or longest & (longest - 1) or total_slots < 1 or total_slots % longest:
            raise KVCacheError(f"{total_slots} slots in pieces up to {longest}; use a power of two, and a multiple of it")
        self.total_slots, self.longest = total_slots, longest
        self._free: dict[int, set[int]] = {1 << order: set() for order in range(longest.bit_length())}  # slots -> starts
        self._free[longest] = set(range(0, total_slots, longest))
        self._pieces: dict[int, int] = {}

    def size(self, slots: int) -> int:
        """Slots that a request for `slots` really takes."""
        return next_power_of_two(slots)

    def allocate(self, slots: int) -> int | None:
        """Start of a piece of size(slots), cut from the smallest that is free; None when there is none."""
        _at_least_one(slots)
        slots = self.size(slots)
        have = next((size for size, starts in self._free.items() if size >= slots and starts), None)
        if have is None:
            return None
        start = min(self._free[have])
        self._free[have].remove(start)
        while have > slots:
            have //= 2
            self._free[have].add(start + have)
        self._pieces[start] = slots
        return start

    def release(self, start: int) -> None:
        """Merge with free buddies as far as they are. Raises NotHeld when no piece starts there."""
        if start not in self._pieces:
            raise NotHeld(f"no piece starts at slot {start}; {len(self._pieces)} pieces are held")
        slots = self._pieces.pop(start)
        while slots < self.longest and start ^ slots in self._free[slots]:
            self._free[slots].remove(start ^ slots)
            start, slots = min(start, start ^ slots), slots * 2
        self._free[slots].add(start)

    def holes(self) -> list[int]:
        """Lengths of what is free."""
        return [size for size, starts in self._free.items() for _ in starts]

    def check(self) -> None:
        """Pieces and holes tile the memory, each at a multiple of its size, and no two free buddies stand apart."""
        free = [(start, size) for size, starts in self._free.items() for start in starts]
        at = 0
        for start, size in sorted([*free, *self._pieces.items()]):
            assert start == at, f"slots {min(at, start)} to {max(at, start)} are in two pieces or in none"
            assert start % size == 0, f"a piece of {size} slots starts at {start}"
            at = start + size
        assert at == self.total_slots, f"pieces end at {at} of {self.total_slots}"
        apart = [(start, size) for start, size in free if size < self.longest and start ^ size in self._free[size]]
        assert not apart, f"free buddies that did not merge, (start, slots): {apart}"


def _at_least_one(slots: int) -> None:
    if slots < 1:
        raise KVCacheError(f"a piece of {slots} slots; use at least 1")
