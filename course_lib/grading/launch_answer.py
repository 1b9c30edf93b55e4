"""An answer beside what its launches, run again apart, have computed: which parts no launch can have written, and differences."""

from collections.abc import Iterator, Sequence
from typing import Any

NO_KERNEL = "your function launched no kernel"


def not_of_the_launches(leaves: Sequence[tuple[str, Any, str]], none_ran: bool) -> str:
    """What in an answer no launch can have written."""
    for path, value, kind in leaves:
        name = f"your answer{path}"
        if value is None or isinstance(value, (bool, str)):
            continue
        if not hasattr(value, "numel"):
            return f"{name} is a {type(value).__name__}, which no launch can have written"
        if value.numel() and none_ran:
            return NO_KERNEL
        if value.numel() and kind != "tensor":
            return f"{name} lies in memory that none of your launches was given: torch or numpy made it, outside of them"
    return ""


def places(value: Any, node: Any, path: str = "") -> Iterator[tuple[str, Any, str]]:
    """(path, value, kind of its place) of every leaf of an answer."""
    items = node.get("items") if isinstance(node, dict) else None
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, items.get(key) if isinstance(items, dict) else None, f"{path}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        inner = items if isinstance(items, list) and len(items) == len(value) else [None] * len(value)
        for index, (item, place) in enumerate(zip(value, inner, strict=True)):
            yield from places(item, place, f"{path}[{index}]")
    else:
        yield path, value, str(node.get("kind")) if isinstance(node, dict) else ""


def difference(answer: Any, replayed: Any, path: str = "") -> str:
    """Where two answers differ first, "" where they are the same bit for bit."""
    if isinstance(answer, dict):
        pairs = [(f"{path}[{key!r}]", item, replayed.get(key)) for key, item in answer.items()]
    elif isinstance(answer, (list, tuple)):
        pairs = [(f"{path}[{i}]", item, other) for i, (item, other) in enumerate(zip(answer, replayed, strict=True))]
    else:
        return _tensor_difference(answer, replayed, path)
    return next(filter(None, (difference(item, other, where) for where, item, other in pairs)), "")


def _tensor_difference(answer: Any, replayed: Any, path: str) -> str:
    import torch

    if not hasattr(answer, "numel") or not answer.numel():
        return ""
    if not hasattr(replayed, "numel") or replayed.shape != answer.shape or replayed.dtype != answer.dtype:
        return f"shape or dtype differ at your answer{path}"
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}.get(answer.element_size())
    same = answer.contiguous().view(whole) == replayed.contiguous().view(whole) if whole else answer == replayed
    if same.all():
        return ""
    first = [int(i) for i in (~same).nonzero()[0]]
    numbers = f"you returned {answer[tuple(first)].item():.6g}, they wrote {replayed[tuple(first)].item():.6g}"
    return f"{int((~same).sum())} of {answer.numel()} values{f' of{path}' if path else ''} differ, first at {first}: {numbers}"


def replaced(answer: Any, replayed: Any) -> Any:
    """The answer with the replay's tensors; what is no tensor, and empty tensors, stay."""
    if isinstance(answer, dict):
        return {key: replaced(item, replayed.get(key)) for key, item in answer.items()}
    if isinstance(answer, (list, tuple)):
        return type(answer)(replaced(item, other) for item, other in zip(answer, replayed, strict=True))
    return replayed if hasattr(answer, "numel") and hasattr(replayed, "numel") else answer
