"""Launch arguments as plain data, and which storage each tensor lies in.

An argument is one of
  {"kind": "tensor", "storage", "dtype", "offset", "size", "stride", "as"}  offset and stride in elements; as: reinterpreted type
  {"kind": "number", "value"}                                               bool, int or float
  {"kind": "constant", "expression"}                                        kernel_constants.expression
  {"kind": "function", "name"}                                              a jit function that the kernel's text defines
  {"kind": "tuple", "items", "fields"}                                      fields of a named tuple, else None
  {"kind": "descriptor", "base", "shape", "strides", "block_shape", "padding", "round_f32_to_tf32"}
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..mistakes.memory import Storage
from ..text.kernel_constants import expression


class RecordingError(RuntimeError):
    """A launch that cannot be written down; the message says what and why."""


def described(base: Any, arg: Mapping[str, Any]) -> Any:
    """The tensor descriptor of a written argument, on `base`. Triton 3.6 has no round_f32_to_tf32: unset, it is left out."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    asked = {"round_f32_to_tf32": True} if arg["round_f32_to_tf32"] else {}
    return TensorDescriptor(base, arg["shape"], arg["strides"], arg["block_shape"], arg["padding"], **asked)


def written(name: str, value: Any, constant: bool, functions: dict[int, str], storages: "Storages") -> dict[str, Any]:
    """Plain data for one argument. functions: id of a jit function -> its name in the text."""
    if id(value) in functions:
        return {"kind": "function", "name": functions[id(value)]}
    if type(value).__name__ == "TensorWrapper":  # triton.reinterpret
        return storages.place(value.base) | {"as": expression(value.dtype) or ""}
    if hasattr(value, "untyped_storage"):
        return storages.place(value)
    if type(value).__name__ == "TensorDescriptor":
        fields = {field: [int(n) for n in getattr(value, field)] for field in ("shape", "strides", "block_shape")}
        flags = {"padding": str(value.padding), "round_f32_to_tf32": bool(getattr(value, "round_f32_to_tf32", False))}
        return {"kind": "descriptor", "base": written(name, value.base, False, functions, storages), **fields, **flags}
    if isinstance(value, tuple) and not constant:
        fields = list(value._fields) if hasattr(value, "_fields") else None
        return {"kind": "tuple", "fields": fields, "items": [written(name, v, False, functions, storages) for v in value]}
    if not constant and isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating)):
        return {"kind": "number", "value": value.item() if isinstance(value, np.generic) else value}
    text = expression(value)
    if text is None:
        raise RecordingError(
            f"argument {name} is a {type(value).__name__}; a kernel takes tensors, numbers, tuples, descriptors and constants"
        )
    return {"kind": "constant", "expression": text}


class Storages:
    """The storages that launches were given, and their bytes as the last launch left them."""

    def __init__(self, max_bytes: int):
        self.sizes: list[int] = []
        self._max_bytes = self._room = max_bytes
        self._raw: list[Any] = []  # held, so that no address is used twice
        self._index: dict[tuple[str, int, int], int] = {}
        self._left: dict[int, np.ndarray] = {}
        self._in_launch: set[int] = set()

    def place(self, tensor: Any) -> dict[str, Any]:
        """Where a tensor argument lies."""
        raw = tensor.untyped_storage()
        index = self._index.get(_key(raw))
        if index is None:
            self._refuse_overlap(raw)
            index = self._index[_key(raw)] = len(self.sizes)
            self.sizes.append(raw.nbytes())
            self._raw.append(raw)
        self._in_launch.add(index)
        return _place(index, tensor)

    def find(self, tensor: Any) -> dict[str, Any] | None:
        """Where a tensor lies, None if no launch was given its storage."""
        try:
            index = self._index.get(_key(tensor.untyped_storage()))
            return None if index is None else _place(index, tensor)
        except (RuntimeError, NotImplementedError):  # sparse and other strange tensors have no storage
            return None

    def changes(self) -> list[dict[str, Any]]:
        """What is in the storages of this launch that no earlier launch left there. Raises RecordingError beyond the limit."""
        return [change for index in sorted(self._in_launch) if (change := self._change(index))]

    def settle(self) -> None:
        """After a launch: remember what it left."""
        for index in self._in_launch:
            self._left[index] = _bytes(self._raw[index])
        self._in_launch.clear()

    def forget(self) -> None:
        self._left.clear()
        self._in_launch.clear()

    def _change(self, index: int) -> dict[str, Any] | None:
        import torch

        now, left = _bytes(self._raw[index]), self._left.get(index)
        if not now.size or (left is not None and np.array_equal(now, left)):
            return None
        entry: dict[str, Any] = {"storage": index}
        words = now[: now.size // 8 * 8].view(np.uint64)
        if words.size and (words == words[0]).all() and np.array_equal(now, np.resize(words[:1].view(np.uint8), now.size)):
            entry["word"] = int(words[0])
        else:
            entry["bytes"] = torch.from_numpy(now)
        if left is not None:
            entry["changed"] = torch.from_numpy(np.packbits(now != left))
        self._room -= sum(entry[name].numel() for name in ("bytes", "changed") if name in entry)
        if self._room < 0:
            limit = f"{self._max_bytes / 2**20:g} MiB"
            raise RecordingError(f"its launches are given more than {limit} that they did not write; use smaller inputs")
        return entry

    def _refuse_overlap(self, raw: Any) -> None:
        start, end = raw.data_ptr(), raw.data_ptr() + raw.nbytes()
        for other in self._raw:
            if str(other.device) == str(raw.device) and start < other.data_ptr() + other.nbytes() and other.data_ptr() < end:
                raise RecordingError("two of its tensors were made from the same memory outside torch; make one of them a copy")


def _key(raw: Any) -> tuple[str, int, int]:
    return str(raw.device), raw.data_ptr(), raw.nbytes()


def _place(index: int, tensor: Any) -> dict[str, Any]:
    return {
        "kind": "tensor", "storage": index, "dtype": str(tensor.dtype).removeprefix("torch."), "as": "",
        "offset": int(tensor.storage_offset()), "size": list(map(int, tensor.shape)), "stride": list(map(int, tensor.stride())),
    }  # fmt: skip


def _bytes(raw: Any) -> np.ndarray:
    """A copy of a storage's bytes."""
    if raw.device.type == "cpu":
        return Storage(raw.data_ptr(), raw.nbytes()).view(1).copy()
    host = raw.cpu()
    return Storage(host.data_ptr(), host.nbytes()).view(1).copy()
