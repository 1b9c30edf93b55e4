"""Plain data and arrays in one file, for processes of ours that talk to each other: JSON and raw bytes, no pickle.

Layout   8 bytes length of the header, the header (JSON), then the bytes of every array, one after another.
Carries  None, bool, int, float, str, list, tuple (arrives as one), dict with any such keys, numpy arrays, CPU tensors of any
         dtype, and the ledger's dataclasses.
"""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from ..counts.books import LaunchLedger, Repeats, SourceLine, Touched, Traffic
from ..mistakes.memory import Storage

_CLASSES = {cls.__name__: cls for cls in (LaunchLedger, Repeats, SourceLine, Touched, Traffic)}


def save(path: Path, value: Any) -> None:
    """Written beside and renamed, so that a reader never sees half of it."""
    blobs: list[bytes] = []
    header = json.dumps(_encode(value, blobs)).encode()
    part = path.with_suffix(".part")
    part.write_bytes(len(header).to_bytes(8, "little") + header + b"".join(blobs))
    part.rename(path)


def load(path: Path) -> Any:
    """Raises ValueError for a file that `save` did not write."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    try:
        return _decode(json.loads(data[8 : 8 + length]), data[8 + length :], [0])
    except (KeyError, TypeError, IndexError, RecursionError) as error:
        raise ValueError(f"{path.name} is damaged: {error!r}") from error


def _encode(value: Any, blobs: list[bytes]) -> Any:
    if isinstance(value, int) and not -(2**64) < value < 2**64:  # JSON's numbers end at 4300 digits
        return {"int": hex(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return {"list" if isinstance(value, list) else "tuple": [_encode(item, blobs) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[_encode(key, blobs), _encode(item, blobs)] for key, item in value.items()]}
    if isinstance(value, np.ndarray):
        blobs.append(np.ascontiguousarray(value).tobytes())
        return {"array": [value.dtype.str, list(value.shape), len(blobs[-1])]}
    if hasattr(value, "untyped_storage"):
        blobs.append(tensor_bytes(value).tobytes())
        return {"tensor": [str(value.dtype).removeprefix("torch."), list(value.shape), len(blobs[-1])]}
    if type(value).__name__ in _CLASSES:
        fields = {field.name: _encode(getattr(value, field.name), blobs) for field in dataclasses.fields(value)}
        return {"class": [type(value).__name__, fields]}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is no plain data")


def tensor_bytes(tensor: Any) -> np.ndarray:
    """The bytes of a tensor's elements in order (a copy)."""
    dense = tensor.detach().cpu().contiguous()
    first = dense.storage_offset() * dense.element_size()
    size = dense.numel() * dense.element_size()
    return Storage(dense.untyped_storage().data_ptr(), first + size).view(1)[first:].copy()


def tensor_of(raw: bytes, dtype: str, shape: list[int]) -> Any:
    """The tensor of these bytes. Raises ValueError where they do not fit."""
    import torch

    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"no tensor of {dtype} {shape}")
    if math.prod(shape) * kind.itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes are no {dtype} tensor of shape {shape}")
    if not raw:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(kind).reshape(shape)


def _decode(node: Any, rest: bytes, at: list[int]) -> Any:
    if not isinstance(node, dict):
        return node
    ((tag, body),) = node.items()
    if tag in ("list", "tuple"):
        items = [_decode(item, rest, at) for item in body]
        return items if tag == "list" else tuple(items)
    if tag == "int":
        return int(body, 16)
    if tag == "dict":
        return {_decode(key, rest, at): _decode(item, rest, at) for key, item in body}
    if tag == "class":
        name, fields = body
        return _CLASSES[name](**{key: _decode(item, rest, at) for key, item in fields.items()})
    dtype, shape, length = body
    raw, at[0] = rest[at[0] : at[0] + length], at[0] + length
    if tag == "array":
        return np.frombuffer(raw, dtype).reshape(shape).copy()
    return tensor_of(raw, dtype, shape)
