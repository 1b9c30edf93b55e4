"""Data that may cross a process border, as bytes: no pickle, so that reading an answer never runs code.

Layout   8 bytes length of the header, the header (JSON), then the raw bytes of every tensor and bytes object, one after another.
Carries  None, bool, int, float, str, bytes, list, tuple, dict with str keys, and dense torch tensors (they arrive on the CPU).
Anything else, a subclass of one of these included, arrives as `Opaque`: its type name and nothing that could act.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 64 * 2**20
MAX_TEXT = 300
MAX_NODES = 2**18  # numbers, texts and containers of one value; whoever has more uses a tensor
_TENSOR_DTYPES = frozenset(
    ("bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
     "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
     "float8_e8m0fnu")
)  # fmt: skip


class BorderError(ValueError):
    """Bytes that no `pack` wrote."""


class _TooLarge(Exception):
    """The value does not fit through as a whole."""


@dataclass(frozen=True, slots=True)
class Opaque:
    """What is left of a value that does not cross: enough to name it in a message."""

    type_name: str
    why: str = "not plain data"

    def __str__(self) -> str:
        return f"{self.type_name} ({self.why})"


def short(value: Any, most: int) -> str:
    """repr, cut to `most` characters; for a value that cannot print itself (an int of 5000 digits), its type."""
    try:
        return printable(repr(value)[:most])
    except BaseException:
        return f"<{type(value).__name__}>"[:most]


def printable(text: Any) -> str:
    """The text without lone surrogates, which neither a file nor a message to the notebook can carry."""
    return str(text).encode("utf-8", "replace").decode("utf-8")


def pack(value: Any, max_bytes: int = MAX_BYTES) -> bytes:
    """value -> bytes. Never raises for a strange value: it becomes `Opaque`; so does what would pass `max_bytes`."""
    blobs: list[bytes] = []
    room = [max_bytes, MAX_NODES]  # bytes and nodes that still cross
    try:
        header = json.dumps(_encode(value, blobs, room, depth=0)).encode()
    except _TooLarge:
        blobs.clear()
        header = json.dumps(_opaque(value, f"more than the {MAX_NODES} values that cross; use a tensor")).encode()
    return len(header).to_bytes(8, "little") + header + b"".join(blobs)


def unpack(data: bytes) -> Any:
    """bytes -> value. Raises BorderError on anything that `pack` cannot have written."""
    try:
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        rest = memoryview(data)[8 + length :]
        value, end = _decode(header, rest, 0)
    except (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError) as error:
        raise BorderError(f"{len(data)} bytes that are not a packed value: {error}") from error
    if end != len(rest):
        raise BorderError(f"{len(rest) - end} bytes too many behind a packed value")
    return value


def _opaque(value: Any, why: str = "not plain data") -> dict:
    kind = type(value)
    module = getattr(kind, "__module__", "")
    name = getattr(kind, "__qualname__", "object")
    full = name if module in ("builtins", "__main__") or not isinstance(module, str) else f"{module}.{name}"
    return {"o": [str(full)[:MAX_TEXT], why]}


def _encode(value: Any, blobs: list[bytes], room: list[int], depth: int) -> Any:
    kind = type(value)
    room[1] -= 1
    if room[1] < 0:
        raise _TooLarge
    if depth > 40:
        return _opaque(value, "nested more than 40 deep")
    if value is None or kind is bool:
        return value
    if kind is str:
        if len(value) > room[0]:
            return _opaque(value, f"{len(value)} characters, more than the {room[0]} bytes that still cross")
        room[0] -= len(value)
        return value
    if kind is int:
        return value if abs(value) < 2**63 else {"i": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"f": repr(value)}
    if kind is bytes:
        return _blob("b", value, blobs, room, [])
    if kind is list or kind is tuple:
        return {"l" if kind is list else "t": [_encode(item, blobs, room, depth + 1) for item in value]}
    if kind is dict:
        if not all(type(key) is str for key in value):
            return _opaque(value, "a dict whose keys are not all str")
        return {"d": [[key, _encode(item, blobs, room, depth + 1)] for key, item in value.items()]}
    if kind is Opaque:
        return {"o": [value.type_name, value.why]}
    if kind.__name__ in ("Tensor", "Parameter") and kind.__module__ in ("torch", "torch.nn.parameter"):
        return _encode_tensor(value, blobs, room)
    return _opaque(value)


def _encode_tensor(value: Any, blobs: list[bytes], room: list[int]) -> Any:
    import torch

    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return _opaque(value)
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype not in _TENSOR_DTYPES or value.layout is not torch.strided or value.device.type == "meta":
        return _opaque(value, f"a {dtype} tensor with layout {value.layout} on {value.device} does not cross")
    num_bytes = value.numel() * value.element_size()
    if num_bytes > room[0]:
        return _opaque(value, f"{num_bytes} bytes, more than the {room[0]} that still cross")
    flat = value.detach().resolve_conj().resolve_neg().contiguous().cpu().reshape(-1)
    raw = _raw_bytes(flat, num_bytes)
    return _blob("x", raw, blobs, room, [dtype, list(value.shape)])


def _raw_bytes(flat: Any, num_bytes: int) -> bytes:
    import ctypes

    return ctypes.string_at(flat.data_ptr(), num_bytes) if num_bytes else b""


def _blob(tag: str, raw: bytes, blobs: list[bytes], room: list[int], extra: list) -> Any:
    if len(raw) > room[0]:
        return {"o": ["bytes", f"{len(raw)} bytes, more than the {room[0]} that still cross"]}
    room[0] -= len(raw)
    blobs.append(raw)
    return {tag: [len(raw), *extra]}


def _decode(node: Any, rest: memoryview, at: int) -> tuple[Any, int]:
    if node is None or isinstance(node, (bool, str, int, float)):
        return node, at
    if not isinstance(node, dict) or len(node) != 1:
        raise BorderError(f"unknown node {str(node)[:80]}")
    ((tag, body),) = node.items()
    if tag in ("l", "t"):
        items = []
        for child in body:
            item, at = _decode(child, rest, at)
            items.append(item)
        return (items if tag == "l" else tuple(items)), at
    if tag == "d":
        out = {}
        for key, child in body:
            if not isinstance(key, str):
                raise BorderError(f"key {key!r} is no str")
            out[key], at = _decode(child, rest, at)
        return out, at
    if tag == "i":
        return int(body, 16), at
    if tag == "f":
        return float(body), at
    if tag == "o":
        type_name, why = body
        return Opaque(str(type_name)[:MAX_TEXT], str(why)[:MAX_TEXT]), at
    if tag == "b":
        return _take(rest, at, body[0])
    if tag == "x":
        return _decode_tensor(body, rest, at)
    raise BorderError(f"unknown tag {tag!r}")


def _take(rest: memoryview, at: int, length: int) -> tuple[bytes, int]:
    if type(length) is not int or length < 0 or at + length > len(rest):
        raise BorderError(f"{length} bytes wanted at {at}, {len(rest)} are there")
    return bytes(rest[at : at + length]), at + length


def _decode_tensor(body: list, rest: memoryview, at: int) -> tuple[Any, int]:
    import torch

    length, dtype_name, shape = body
    if dtype_name not in _TENSOR_DTYPES or not all(type(n) is int and n >= 0 for n in shape):
        raise BorderError(f"no tensor of {dtype_name} {shape}")
    dtype = getattr(torch, dtype_name)
    raw, at = _take(rest, at, length)
    if math.prod(shape) * dtype.itemsize != length:
        raise BorderError(f"{length} bytes are no {dtype_name} tensor of shape {shape}")
    if not length:
        return torch.empty(shape, dtype=dtype), at
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(dtype).reshape(shape), at
