"""Reads progress events out of a damaged SQLite file, trusting nothing but the pages themselves.

SQLite finds rows by walking down from the first page: one bad page on the way hides every row below it. Here each page is
looked at on its own. A table leaf (type 13) lists where its rows begin; a row is its length, its number, the types of its
columns, then their values; what does not fit on the page continues in a chain of overflow pages.
The format is described at https://www.sqlite.org/fileformat.html (sections 1.6 and 2.1).
"""

import struct
from collections.abc import Iterator
from typing import Any

from .progress_event import COLUMNS, from_row
from .progress_store import PAGE_BYTES

_TABLE_LEAF = 13
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


def salvage(data: bytes) -> list[dict[str, Any]]:
    """Every event that stands whole on the pages of `data`, each once. An event whose verdict is torn comes without it."""
    events: dict[str, dict] = {}
    for start in range(0, len(data), PAGE_BYTES):
        page = data[start : start + PAGE_BYTES].ljust(PAGE_BYTES, b"\0")  # the last one may be cut
        for payload in _payloads(data, page):
            try:
                event = from_row(_values(payload))
            except (ValueError, IndexError, struct.error):
                continue
            events.setdefault(event["uuid"], event)
    return list(events.values())


def _payloads(data: bytes, page: bytes) -> Iterator[bytes]:
    """The rows of one page, undecoded; none if it is no table leaf."""
    if page[0] != _TABLE_LEAF:
        return
    num_rows = min(int.from_bytes(page[3:5], "big"), (PAGE_BYTES - 8) // 2)
    for i in range(num_rows):
        try:
            yield _payload(data, page, int.from_bytes(page[8 + 2 * i : 10 + 2 * i], "big"))
        except IndexError:
            continue


def _payload(data: bytes, page: bytes, at: int) -> bytes:
    """The row that begins at `at`; shorter than it should be when its overflow chain is broken."""
    size, at = _varint(page, at)
    _row_number, at = _varint(page, at)
    local = _local_bytes(size)
    payload = bytearray(page[at : at + local])
    following = int.from_bytes(page[at + local : at + local + 4], "big") if size > local else 0
    while following and len(payload) < min(size, len(data)):  # no row is longer than its file: a chain may be a ring
        chunk = data[(following - 1) * PAGE_BYTES : following * PAGE_BYTES]
        if len(chunk) <= 4:
            break
        payload += chunk[4 : 4 + size - len(payload)]
        following = int.from_bytes(chunk[:4], "big")
    return bytes(payload)


def _local_bytes(size: int) -> int:
    """How many of a row's bytes stand on its own page: all up to 4061; of 5000, 908, the rest in overflow pages."""
    most, least = PAGE_BYTES - 35, (PAGE_BYTES - 12) * 32 // 255 - 23
    if size <= most:
        return size
    wanted = least + (size - least) % (PAGE_BYTES - 4)
    return wanted if wanted <= most else least


def _values(payload: bytes) -> list[Any]:
    header_end, at = _varint(payload, 0)
    kinds = []
    while at < header_end:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    if len(kinds) != len(COLUMNS):
        raise ValueError(f"a row of {len(kinds)} columns is no event")
    values = []
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    return values


def _value(payload: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind == 0:
        return None, at
    if kind in _INTEGER_BYTES:
        end = at + _INTEGER_BYTES[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind == 7:
        return struct.unpack_from(">d", payload, at)[0], at + 8
    if kind in (8, 9):
        return kind - 8, at
    if kind >= 13 and kind % 2:
        end = at + (kind - 13) // 2
        return payload[at:end].decode("utf-8", "replace"), end
    raise ValueError(f"no column of an event has the type {kind}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of 1 to 9 bytes, 7 bits each (the ninth has 8) -> (the number, where it ends)."""
    number = 0
    for i in range(8):
        byte = data[at + i]
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            return number, at + i + 1
    return number << 8 | data[at + 8], at + 9
