"""Bytes that one launch stores and a later launch loads again: what a fused kernel would keep in registers."""

from collections.abc import Sequence

import numpy as np

from ..interpreter.counts.books import SourceLine
from ..interpreter.trace import TracedLaunch
from .ledger_findings import SHARE, Finding
from .ledger_numbers import bytes_text


def between_launches(launches: Sequence[TracedLaunch]) -> list[Finding]:
    """One finding for each tensor that travels from a launch to a later one, counted byte by byte.

    Only the last launch that stored an element before it is loaded is named. Needs pictures and addresses.
    """
    found = []
    every = sum(launch.ledger.total.bytes for launch in launches)
    for reader_at, reader in enumerate(launches):
        for name, taken in _bytes(reader, "loads").items():
            left = taken
            for writer_at in range(reader_at - 1, -1, -1):
                for stored_as, stored in _bytes(launches[writer_at], "stores").items():
                    common, left = _common(stored, left)
                    if common and 2 * common >= SHARE * every:
                        found.append(_finding(launches, writer_at, stored_as, reader_at, name, common))
    return found


def _bytes(launch: TracedLaunch, field: str) -> dict[str, tuple[int, np.ndarray]]:
    """argument -> (address, flag for each byte) of what a launch loaded or stored."""
    found = {}
    for name, touched in launch.ledger.touched.items():
        flags = getattr(touched, field) > 0
        if name in launch.tensors and flags.any():
            found[name] = (launch.tensors[name].address, np.repeat(flags, touched.itemsize))
    return found


def _common(stored: tuple[int, np.ndarray], taken: tuple[int, np.ndarray]) -> tuple[int, tuple[int, np.ndarray]]:
    """(bytes in both, what of `taken` is not yet explained)."""
    first = max(stored[0], taken[0])
    last = min(stored[0] + stored[1].size, taken[0] + taken[1].size)
    if first >= last:
        return 0, taken
    both = stored[1][first - stored[0] : last - stored[0]] & taken[1][first - taken[0] : last - taken[0]]
    left = taken[1].copy()
    left[first - taken[0] : last - taken[0]] &= ~both
    return int(np.count_nonzero(both)), (taken[0], left)


def _finding(launches: Sequence[TracedLaunch], writer: int, stored_as: str, reader: int, name: str, common: int) -> Finding:
    stores = _line(launches[writer], stored_as, "stored_bytes")
    loads = _line(launches[reader], name, "loaded_bytes")
    requested = launches[reader].ledger.arguments[name].loaded_bytes
    text = (
        f"launch {writer + 1} ({launches[writer].ledger.kernel}, line {stores.number}) stores {bytes_text(common)} "
        f"as {stored_as}, and launch {reader + 1} ({launches[reader].ledger.kernel}, line {loads.number}) loads them again "
        f"as {name} ({bytes_text(requested)} requested). One kernel that does both keeps them in registers: neither the store "
        "nor the load is needed, unless something else reads the tensor. The L2 cache may serve the load while it holds it."
    )
    return Finding("between launches", name, (stores, loads), 1.0, text)


def _line(launch: TracedLaunch, argument: str, field: str) -> SourceLine:
    """The line that moves most of an argument."""
    sites = [(getattr(t, field), line.number, line) for (name, line), t in launch.ledger.sites.items() if name == argument]
    return max(sites)[2] if sites else SourceLine("", 0, "")
