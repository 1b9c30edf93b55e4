"""What recording compiled launches needs of a GPU's memory: new memory that can be told from computed values, and its content
kept while an autotuner tries its configurations on it."""

import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ..mistakes.canary import WORD


@contextmanager
def planted_on_device() -> Iterator[None]:
    """Inside the block torch.empty and its relatives fill new GPU memory with the canary's pattern, as canary.py does on the CPU.

    Without a CUDA device nothing changes.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        yield
        return
    places = [(torch, "empty"), (torch, "empty_like"), (torch, "empty_strided")]
    places += [(torch.Tensor, "new_empty"), (torch.Tensor, "new_empty_strided")]
    originals = [(owner, name, getattr(owner, name)) for owner, name in places]
    for owner, name, original in originals:
        setattr(owner, name, _planting(original))
    try:
        yield
    finally:
        for owner, name, original in originals:
            setattr(owner, name, original)


def _planting(original: Callable) -> Callable:
    @functools.wraps(original)
    def planted(*args: Any, **kwargs: Any) -> Any:
        import torch

        result = original(*args, **kwargs)
        if type(result) is torch.Tensor and result.device.type == "cuda" and result.numel() and kwargs.get("out") is None:
            _fill(result.untyped_storage())
        return result

    return planted


def _fill(raw: Any) -> None:
    import torch

    whole = raw.nbytes() // 8
    torch.tensor([], dtype=torch.int64, device=raw.device).set_(raw, 0, (whole,), (1,)).fill_(WORD)
    rest = torch.tensor([], dtype=torch.uint8, device=raw.device).set_(raw, whole * 8, (raw.nbytes() - whole * 8,), (1,))
    rest.copy_(torch.tensor(list(WORD.to_bytes(8, "little"))[: rest.numel()], dtype=torch.uint8))


@contextmanager
def kept(values: Iterable[Any]) -> Iterator[None]:
    """Every tensor among the values is after the block as it was before."""
    values = [getattr(value, "base", value) for value in values]
    raws = {raw.data_ptr(): raw for raw in (v.untyped_storage() for v in values if hasattr(v, "untyped_storage"))}
    copies = [(raw, raw.clone()) for raw in raws.values()]
    try:
        yield
    finally:
        for raw, copy in copies:
            raw.copy_(copy)
