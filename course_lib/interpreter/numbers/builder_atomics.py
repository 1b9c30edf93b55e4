"""Atomic updates: lanes act one after the other, as a GPU orders them in some way; programs in the order in which they run."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..mistakes import access, tell
from ..values import MASKED_OFF, UNWRITTEN, Doubt, Origin, Value, joined
from .builder_memory import laid_together
from .numpy_types import computed, from_memory, stored, to_memory
from .rounding import narrow

_ANY = MASKED_OFF | UNWRITTEN


class Atomics:
    """Mixin of the builder. `self.launch` is the running Launch."""

    launch: Any

    def create_atomic_rmw(self, operation: Any, ptr: Value, value: Value, mask: Value, sem: Any, scope: Any) -> Value:
        """Lanes update one after the other, each returning what it found; programs do as well, in the order they run."""
        return self._atomic(str(operation).rsplit(".", 1)[-1], ptr, value, mask)

    def create_atomic_cas(self, ptr: Value, expected: Value, value: Value, sem: Any, scope: Any) -> Value:
        self.launch.lock_holder = self.launch.linear
        return self._atomic("CAS", ptr, value, None, expected)

    def _atomic(self, name: str, ptr: Value, value: Value, mask: Value | None, expected: Value | None = None) -> Value:
        launch, dtype = self.launch, value.dtype.scalar
        if name not in _UPDATES:
            raise launch.mistake("refused", f"the atomic operation {name} is not known; known: {', '.join(_UPDATES)}")
        if parts := access.apart(launch, ptr, mask):
            return laid_together([(self._atomic(name, pointers, value, active, expected), active) for pointers, active in parts])
        itemsize, shape = stored(dtype).itemsize, ptr.data.shape
        found = access.locate(launch, ptr, mask, itemsize, "update")
        for used in (value, expected):
            if used is not None:
                tell.refuse_doubt(launch, used.doubt, found.mask, "value that this atomic uses", _ANY)
        doubt = self._atomic_doubt(name, found, shape)
        access.count(launch, found, "atomic")
        old = np.zeros(shape, computed(dtype))
        if found.storage is None:
            return Value(old, dtype, doubt=doubt)
        lanes = np.ones(shape, bool) if found.mask is None else found.mask
        memory, places = found.storage.view(itemsize), found.elements.ravel()
        new = np.broadcast_to(value.data, shape)[lanes]
        wanted = None if expected is None else np.broadcast_to(expected.data, shape)[lanes]
        before = np.empty(places.size, computed(dtype))
        for turn in _turns(places):
            at = places[turn]
            current = from_memory(memory[at].view(stored(dtype)), dtype)
            before[turn] = current
            if wanted is None:
                after = narrow(_UPDATES[name](current, new[turn]), dtype)
            else:
                same = _bits(to_memory(current, dtype)) == _bits(to_memory(wanted[turn], dtype))  # a NaN is itself, -0 is not 0
                after = np.where(same, new[turn], current)
            memory[at] = to_memory(after.astype(computed(dtype)), dtype).view(memory.dtype)
        old[lanes] = before
        return Value(old, dtype, doubt=doubt)

    def _atomic_doubt(self, name: str, found: access.Access, shape: tuple[int, ...]) -> Doubt | None:
        """The doubt of what an atomic returns: lanes masked off, what an exchange found. Other unwritten memory is refused."""
        launch, doubt = self.launch, None
        if launch.checks.masked and found.mask is not None:
            line = launch.line()
            origin = Origin(line.number, line.text, f"lanes of an atomic on {found.arg or 'a tensor'} that", found.arg)
            doubt = Doubt(np.where(found.mask, np.uint8(0), np.uint8(MASKED_OFF)), {MASKED_OFF: origin})
        fresh = access.unwritten(launch, found)
        if fresh is None:
            return doubt
        kinds = np.zeros(shape, np.uint8)
        kinds[... if found.mask is None else found.mask] = np.where(fresh, np.uint8(UNWRITTEN), np.uint8(0))
        unwritten = Doubt(kinds, {UNWRITTEN: access.unwritten_origin(launch, found, fresh)})
        if name != "XCHG":
            tell.refuse_doubt(launch, unwritten, found.mask, "value that this atomic updates", _ANY)
        return joined(shape, doubt, unwritten)


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(f"u{values.itemsize}")


def _bitwise(op: Callable) -> Callable:
    """and, or, xor of what lies in memory, floats too."""
    return lambda old, new: op(_bits(old), _bits(new)).view(old.dtype)


def _turns(places: np.ndarray) -> list[np.ndarray]:
    """Lanes in groups without a repeated address: the first lane of each address, then the second, and so on."""
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(places.size) - np.repeat(starts, np.diff(np.r_[starts, places.size]))
    return [np.sort(order[rank == turn]) for turn in range(int(rank.max()) + 1)]


_UPDATES: dict[str, Callable] = {
    "ADD": np.add, "FADD": np.add,
    "AND": _bitwise(np.bitwise_and), "OR": _bitwise(np.bitwise_or), "XOR": _bitwise(np.bitwise_xor),
    "MAX": np.maximum, "MIN": np.minimum, "UMAX": np.maximum, "UMIN": np.minimum, "XCHG": lambda old, new: new,
    "CAS": lambda old, new: new,
}  # fmt: skip
