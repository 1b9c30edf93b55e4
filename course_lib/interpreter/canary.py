"""Memory that nobody wrote: torch.empty and its relatives fill new CPU memory with a pattern that no computation produces.

The pattern's 16-bit half is a NaN with a payload in fp16 and in bf16, and so is its 32-bit whole in fp32. An element that
still holds it was not written, by whatever route (torch, numpy, a kernel). Elements of integer types could hold the same
bits by chance; for them the whole aligned 8-byte word must still be untouched.
"""

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .memory import UINT, Storage

WORD = 0x7FA57FA57FA57FA5
_FLOATS = {"float16", "bfloat16", "float32", "float64"}
_planted: dict[int, int] = {}  # start of a storage -> its bytes; an entry that outlived its storage does no harm
_originals: list[tuple[Any, str, Callable]] = []


def is_planted(storage: Storage) -> bool:
    return _planted.get(storage.start) == storage.num_bytes


def unwritten(storage: Storage, offsets: np.ndarray, itemsize: int, dtype: str) -> np.ndarray:
    """For elements at byte offsets: True where nobody wrote."""
    if dtype in _FLOATS and itemsize >= 2:
        return storage.view(itemsize)[offsets // itemsize] == UINT[itemsize](WORD & ((1 << (8 * itemsize)) - 1))
    words = storage.view(8)
    place = offsets // 8
    whole = place < words.size
    fresh = np.zeros(offsets.shape, bool)
    fresh[whole] = words[place[whole]] == np.uint64(WORD)
    return fresh


def plant(tensor: Any) -> Any:
    """Fill a new tensor's memory with the pattern."""
    if _fit(tensor):
        raw = tensor.untyped_storage()
        start, size = raw.data_ptr(), raw.nbytes()
        storage = Storage(start, size)
        storage.view(8)[...] = WORD
        if size % 8:
            storage.view(1)[size - size % 8 :] = np.frombuffer(WORD.to_bytes(8, "little"), np.uint8)[: size % 8]
        _planted[start] = size
    return tensor


def _fit(tensor: Any) -> bool:
    """A plain CPU tensor with memory of its own. (Fake, functional and compiled tensors have none; bools have two values.)"""
    import torch

    if type(tensor) is not torch.Tensor or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return False
    return tensor.dtype is not torch.bool and not tensor.dtype.is_complex and tensor.numel() > 0


def start() -> None:
    """From now on, new uninitialised tensors carry the pattern. Undone by `stop`. Without torch there is nothing to do yet."""
    torch = sys.modules.get("torch")
    if _originals or torch is None or not hasattr(torch.Tensor, "new_empty_strided"):
        return
    for owner, name in (
        (torch, "empty"), (torch, "empty_like"), (torch, "empty_strided"),
        (torch.Tensor, "new_empty"), (torch.Tensor, "new_empty_strided"),
    ):  # fmt: skip
        original = getattr(owner, name)
        _originals.append((owner, name, original))
        setattr(owner, name, _planting(original))


def _planting(original: Callable) -> Callable:
    @functools.wraps(original)
    def planted(*args: Any, **kwargs: Any) -> Any:
        import torch

        result = original(*args, **kwargs)
        if torch.compiler.is_compiling() or kwargs.get("out") is not None:
            return result
        return plant(result)

    return planted


def stop() -> None:
    """Give torch its own functions back."""
    while _originals:
        owner, name, original = _originals.pop()
        setattr(owner, name, original)
    _planted.clear()
