"""The memory ledger: what a launch *requests*, exactly, before any cache.

Requested  bytes of all active lanes of all loads and stores of all programs; a GPU's caches may serve part of them
Distinct   bytes at different addresses: the least that any cache could leave. Loaded and stored bytes are told apart, so an
           element that is read and written counts in both; an atomic update counts as a store
Sectors    32-byte pieces touched by one access (one tl.load or tl.store of one program), added up over accesses: what a
           coalesced access asks of the L1 cache. Source of the 32 bytes: NVIDIA CUDA C++ Best Practices Guide, "Coalesced
           Access to Global Memory"
Atomics    bytes and elements only: how many sectors an update moves is the cache's affair
FLOPs      2*M*N*K for each tl.dot of whole blocks, padding included, by the type of its inputs
Elementwise  one for each element of the result of + - * / % min max on floats (-x is 0 - x), two for fma and clamp, n - 1 for a
           sum, max, min or scan of n; none for casts, comparisons, tl.where, abs, floor and ceil, or for integers
Special    one for each element of exp, exp2, log, log2, sin, cos, sqrt, rsqrt, erf, of a function of libdevice (by its name),
           and of "divide", which is elementwise as well
A lane that is masked off asks for nothing; an access without an active lane is no access.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SECTOR_BYTES = 32


def program_index(linear: Any, grid: tuple[int, int, int]) -> tuple[Any, Any, Any]:
    """(x, y, z) of a program by its place in the order in which programs run here, x slowest. linear: a number or an array."""
    return linear // (grid[1] * grid[2]), linear // grid[2] % grid[1], linear % grid[2]


@dataclass
class Traffic:
    """Requests of one kind of place: an argument, a source line, or a whole launch."""

    loaded_bytes: int = 0
    stored_bytes: int = 0
    atomic_bytes: int = 0
    distinct_loaded_bytes: int = 0
    distinct_stored_bytes: int = 0
    sectors_loaded: int = 0
    sectors_stored: int = 0
    useful_loaded_bytes: int = 0  # distinct within each access: what its sectors had to deliver
    useful_stored_bytes: int = 0
    loads: int = 0  # accesses: one tl.load of one program
    stores: int = 0
    atomics: int = 0  # elements updated

    @property
    def bytes(self) -> int:
        """Bytes loaded, stored and atomically updated (an atomic counts once)."""
        return self.loaded_bytes + self.stored_bytes + self.atomic_bytes

    @property
    def distinct_bytes(self) -> int:
        return self.distinct_loaded_bytes + self.distinct_stored_bytes

    @property
    def coalescing(self) -> float | None:
        """Share of the bytes of the touched sectors that the kernel asked for, 1.0 at best; None without loads and stores."""
        sectors = self.sectors_loaded + self.sectors_stored
        return (self.useful_loaded_bytes + self.useful_stored_bytes) / (SECTOR_BYTES * sectors) if sectors else None

    @property
    def rereads(self) -> float | None:
        """How often the average loaded byte was loaded, 1.0 at best; None when nothing was."""
        return self.loaded_bytes / self.distinct_loaded_bytes if self.distinct_loaded_bytes else None

    def __iadd__(self, other: "Traffic") -> "Traffic":
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self


@dataclass
class Repeats:
    """Bytes that one line loads of one argument although it has loaded them before, each once for an access.

    inside  by a program that had loaded them itself; across: by a program that had not, after another one had
    Together they are useful_loaded_bytes - distinct_loaded_bytes of that line and argument.
    """

    inside: int = 0
    across: int = 0


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One line of a kernel's source, as the learner sees it."""

    file: str
    number: int
    text: str


@dataclass
class Touched:
    """Which program touched which element of one tensor argument (see `picture` in display/).

    loads, stores   [elements] how many accesses touched it; loader, writer: linear index of the last program, -1 for none
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    dtype: str
    loads: np.ndarray
    stores: np.ndarray
    loader: np.ndarray
    writer: np.ndarray

    def grid_of(self, field_name: str) -> np.ndarray:
        """One of the four arrays in the tensor's shape."""
        flat = getattr(self, field_name)
        return np.lib.stride_tricks.as_strided(flat, self.shape, [s * flat.itemsize for s in self.strides]).copy()


@dataclass
class LaunchLedger:
    """One launch. `arguments`, `lines` and `sites` (argument and line) split `total`."""

    kernel: str
    grid: tuple[int, int, int]
    total: Traffic = field(default_factory=Traffic)
    arguments: dict[str, Traffic] = field(default_factory=dict)
    lines: dict[SourceLine, Traffic] = field(default_factory=dict)
    sites: dict[tuple[str, SourceLine], Traffic] = field(default_factory=dict)
    dot_flops: dict[str, int] = field(default_factory=dict)
    dot_lines: dict[SourceLine, int] = field(default_factory=dict)
    elementwise_flops: int = 0
    special_calls: dict[str, int] = field(default_factory=dict)
    touched: dict[str, Touched] = field(default_factory=dict)  # with pictures only, as are the repeats
    repeats: dict[tuple[str, SourceLine], Repeats] = field(default_factory=dict)
    config: str = ""  # the autotuner's configuration that ran
    complete: bool = False  # False: a mistake ended the launch (see notes), and what is counted ends there
    notes: list[str] = field(default_factory=list)

    @property
    def programs(self) -> int:
        return int(np.prod(self.grid, dtype=np.int64))

    @property
    def flops(self) -> int:
        """FLOPs that the roofline counts: those of tl.dot, or of the elementwise arithmetic where there is no dot."""
        return sum(self.dot_flops.values()) or self.elementwise_flops

    @property
    def requested_intensity(self) -> float:
        """FLOP per requested byte: the intensity of a machine without caches."""
        return self.flops / self.total.bytes if self.total.bytes else float("inf") if self.flops else 0.0

    @property
    def intensity(self) -> float:
        """FLOP per distinct byte: the intensity of a machine whose caches hold everything, the most there can be."""
        return self.flops / self.total.distinct_bytes if self.total.distinct_bytes else float("inf") if self.flops else 0.0

    def counts(self) -> dict[str, int]:
        """Numbers for a `counted` criterion, by name. The names stay: exercises ask for them.

        programs, launches, elementwise_flops, dot_flops, special_calls; of these two also one kind: "dot_flops[fp16]"
        Those of Traffic (loaded_bytes, stored_bytes, atomic_bytes, distinct_loaded_bytes, distinct_stored_bytes, sectors_loaded,
        sectors_stored, useful_loaded_bytes, useful_stored_bytes, loads, stores, atomics), bytes and distinct_bytes: of the
        launch, and of one argument: "loaded_bytes[x_ptr]". A kind or an argument that did not occur has no entry.
        """
        found = {"programs": self.programs, "launches": 1, "elementwise_flops": self.elementwise_flops}
        found["dot_flops"] = sum(self.dot_flops.values())
        found |= {f"dot_flops[{kind}]": count for kind, count in self.dot_flops.items()}
        found["special_calls"] = sum(self.special_calls.values())
        found |= {f"special_calls[{name}]": count for name, count in self.special_calls.items()}
        found |= _counts(self.total, "")
        for name, traffic in self.arguments.items():
            found |= _counts(traffic, f"[{name}]")
        return found


def _counts(traffic: Traffic, suffix: str) -> dict[str, int]:
    names = [*traffic.__dataclass_fields__, "bytes", "distinct_bytes"]
    return {name + suffix: getattr(traffic, name) for name in names}


@dataclass
class Ledger:
    """What `with interpreter.ledger() as book` gathers: one LaunchLedger for each launch, in order."""

    launches: list[LaunchLedger] = field(default_factory=list)

    @property
    def total(self) -> Traffic:
        total = Traffic()
        for launch in self.launches:
            total += launch.total
        return total

    def counts(self) -> Mapping[str, int]:
        """`LaunchLedger.counts` added up over the launches; distinct bytes are those of each launch, added."""
        found: dict[str, int] = {}
        for launch in self.launches:
            for name, count in launch.counts().items():
                found[name] = found.get(name, 0) + count
        return found
