"""Memory that nobody wrote: torch.empty and its relatives fill new CPU memory with a pattern that no computation produces.

Pattern   each 16-bit half is a NaN with a payload in fp16 and in bf16, each 32-bit half in fp32, the 64-bit word in fp64
Unwritten an element that still holds its part of the pattern, by whatever route others were written (torch, numpy, a kernel)
Narrow    one byte, or an int16, holds the pattern's bits by chance once in 256 or 65536 values: there, a run of 8 bytes must
          still be untouched (or 3, at the memory's end)
Only memory that was planted is asked about, and known by its torch storage, not by its address, which may be given out anew.
Not planted: memory that numpy or torch's C++ made, and more than PLANTED_BYTES at once, which would cost real memory and time.
"""

import ctypes
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .memory import UINT, Storage

WORD = 0x7FF57FF57FF57FF5
RUN_BYTES, RUN_BYTES_AT_END = 8, 3
PLANTED_BYTES = 1 << 28
_BYTES = np.frombuffer(WORD.to_bytes(8, "little"), np.uint8)
_CHUNK = _BYTES.tobytes() * 8192
_SURE = {2: ("float16", "bfloat16"), 4: None, 8: None}  # itemsize -> dtypes whose own bits are proof enough; None: all
_planted: dict[int, Any] = {}  # a torch storage's identity -> weak reference to it, which keeps the identity from being reused
_limit = [1024]
_originals: list[tuple[Any, str, Callable | None]] = []  # None: inherited


def is_planted(storage: Storage) -> bool:
    """Was the memory of this storage new and uninitialised when torch handed it out?"""
    return any(raw._cdata in _planted for raw in storage.keep or ())


def unwritten(storage: Storage, offsets: np.ndarray, itemsize: int, dtype: str) -> np.ndarray:
    """For elements at byte offsets: True where nobody wrote."""
    mine = storage.view(itemsize)[offsets // itemsize] == UINT[itemsize](WORD & ((1 << (8 * itemsize)) - 1))
    if itemsize == 1:  # the pattern's byte depends on the place
        mine = storage.view(1)[offsets] == _BYTES[offsets % 8]
    known = _SURE.get(itemsize, ())
    if (known is None or dtype in known) or not mine.any():
        return mine
    mine[mine] = _in_a_run(storage, offsets[mine])
    return mine


def _in_a_run(storage: Storage, offsets: np.ndarray) -> np.ndarray:
    """For byte offsets that hold the pattern: is each inside a run of untouched bytes long enough to be no chance?"""
    places = offsets[:, None] + np.arange(1 - RUN_BYTES, RUN_BYTES)
    beyond = places >= storage.num_bytes
    there = (places >= 0) & ~beyond
    safe = np.where(there, places, 0)
    same = there & (storage.view(1)[safe] == _BYTES[safe % 8])
    after = np.logical_and.accumulate(same[:, RUN_BYTES - 1 :], axis=1).sum(1)
    before = np.logical_and.accumulate(same[:, RUN_BYTES - 1 :: -1], axis=1).sum(1) - 1
    run = before + after
    at_end = offsets + after == storage.num_bytes
    return (run >= RUN_BYTES) | (at_end & (run >= RUN_BYTES_AT_END))


def plant(tensor: Any) -> Any:
    """Fill a new tensor's memory with the pattern."""
    raw = _memory_of(tensor)
    if raw is not None:
        start, size = raw.data_ptr(), raw.nbytes()
        for place in range(0, size, len(_CHUNK)):
            ctypes.memmove(start + place, _CHUNK, min(len(_CHUNK), size - place))
        _remember(raw)
    return tensor


def _memory_of(tensor: Any) -> Any:
    """The storage of a plain CPU tensor with memory of its own, else None (fake, functional, wrapped, other devices)."""
    import torch

    if type(tensor) is not torch.Tensor or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return None
    if tensor.dtype.is_complex or torch._C._functorch.is_functorch_wrapped_tensor(tensor) or torch._is_functional_tensor(tensor):
        return None
    raw = tensor.untyped_storage()
    return raw if 0 < raw.nbytes() <= PLANTED_BYTES else None


def _remember(raw: Any) -> None:
    from torch.multiprocessing.reductions import StorageWeakRef

    if len(_planted) >= _limit[0]:  # forget storages that are gone; each time the rest has doubled
        for identity in [key for key, weak in list(_planted.items()) if weak.expired()]:
            _planted.pop(identity, None)
        _limit[0] = max(1024, 2 * len(_planted))
    _planted[raw._cdata] = StorageWeakRef(raw)


def start() -> None:
    """From now on, new uninitialised tensors carry the pattern. Undone by `stop`. Nothing to do before torch is there, whole."""
    torch = sys.modules.get("torch")
    if _originals or torch is None or not hasattr(torch, "vmap"):
        return
    from torch.utils._device import _device_constructors

    _device_constructors()  # torch makes this set once: with its own functions in it, so that `with torch.device(...)` knows them
    places = [(torch, name) for name in ("empty", "empty_like", "empty_strided", "empty_permuted")]
    places += [(torch.Tensor, name) for name in ("new_empty", "new_empty_strided")]
    try:
        for owner, name in places:
            own = name in vars(owner)
            original = getattr(owner, name)
            _originals.append((owner, name, original if own else None))
            setattr(owner, name, _planting(original, "torch" if owner is torch else "torch.Tensor"))
    except BaseException:  # an interrupt: all of them or none; the next launch starts it
        stop()
        raise


@functools.cache  # one for good: torch.jit knows functions by their id
def _planting(original: Callable, owner: str) -> Callable:
    import torch
    import torch.jit._builtins

    @functools.wraps(original)
    def planted(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if torch.compiler.is_compiling() or kwargs.get("out") is not None:
            return result
        return plant(result)

    planted._torchdynamo_inline = original  # torch.compile takes the original, now and after `stop`
    if owner == "torch":  # torch.jit.script takes the original as well
        torch.jit._builtins._register_builtin(planted, f"aten::{original.__name__}")
    planted.__module__ = "torch"  # where pickle finds it
    planted.__qualname__ = f"{owner}.{original.__name__}".removeprefix("torch.")
    return planted


def stop() -> None:
    """Give torch its own functions back. What was planted stays known, for when the checks are turned on again."""
    while _originals:
        owner, name, original = _originals[-1]
        if original is not None:
            setattr(owner, name, original)
        elif name in vars(owner):
            delattr(owner, name)
        _originals.pop()  # last: what an interrupt leaves is still known
