"""Cases of exercise 2.1: keys as parts, groups of parts, parts without a key, and scores that no exponential can hold."""

from typing import Any

from ...grading.criteria import Case
from ..kernel_cases import generator

EMPTY = float("-inf")


def _keys(name: str, parts: int, rows: int, dim: int, draw: Any, *, spread: float = 3.0) -> Case:
    """Every part is one key: its score, 1, its value."""
    import torch

    return {
        "name": name,
        "m": spread * torch.randn(parts, rows, generator=draw),
        "l": torch.ones(parts, rows),
        "acc": torch.randn(parts, rows, dim, generator=draw),
    }


def key_cases(seed: int) -> list[Case]:
    draw = generator(seed)
    odd = 3 + seed % 7
    many = _keys("many keys", 129, 7, 5, draw)
    many["m"][:, 3] -= 30  # a row whose scores are all below 0
    return [
        _keys("two keys, one row", 2, 1, 4, draw),
        many,
        _keys("as many keys as rows and values", odd, odd, odd, draw),
        _keys("one key", 1, 3, 2, draw),
    ]


def group_cases(seed: int) -> list[Case]:
    """The same keys, cut into groups of unequal size: results of a merge have l that is not 1."""
    import torch

    draw = generator(seed)
    cases = []
    for name, sizes in (("halves", [8, 8]), ("one and the rest", [1, 22]), ("four groups", [3, 1, 11, 6])):
        case = _keys(name, sum(sizes), 5, 3, draw)
        order = torch.randperm(sum(sizes), generator=draw).tolist()
        ends = [sum(sizes[: place + 1]) for place in range(len(sizes))]
        case["groups"] = [order[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        cases.append(case)
    return cases


def empty_cases(seed: int) -> list[Case]:
    """Some parts have no key, in some rows none has; what was never written may hold anything."""
    import torch

    draw = generator(seed)
    some = _keys("some parts without a key", 6, 8, 3, draw)
    none = torch.rand(6, 8, generator=draw) < 0.4
    none[0, 0], none[1, 0] = True, False  # the first part is empty, another is not
    none[:, 5] = True  # a row that no part has a key for
    for key, nothing in (("m", EMPTY), ("l", 0.0), ("acc", 0.0)):
        some[key][none] = nothing
    all_empty = _keys("no key anywhere", 4, 2, 3, draw)
    for key, nothing in (("m", EMPTY), ("l", 0.0), ("acc", 0.0)):
        all_empty[key][:] = nothing
    masked = _keys("masked keys", 9, 4, 3, draw)
    masked["m"][torch.rand(9, 4, generator=draw) < 0.5] = EMPTY  # l stays 1 and acc stays the value: keys nobody may see
    masked["m"][:, 2] = EMPTY
    return [some, masked, all_empty]


def unwritten_cases(seed: int) -> list[Case]:
    """m says that there is no key; l and acc are NaN, as memory that nobody wrote may be."""
    import torch

    draw = generator(seed)
    case = _keys("memory that nobody wrote", 7, 6, 4, draw)
    none = torch.rand(7, 6, generator=draw) < 0.4
    none[0, :2], none[1, :2], none[:, 4] = True, False, True
    case["m"][none] = EMPTY
    case["l"][none], case["acc"][none] = float("nan"), float("nan")
    return [case]


def large_cases(seed: int) -> list[Case]:
    """Scores of thousands and more, up and down. exp(89) is the last that float32 can hold."""
    draw = generator(seed)
    cases = []
    for shift in (10_000, -10_000, -20_000, -200_000):
        case = _keys(f"scores near {shift:,}", 12, 5, 3, draw)
        case["m"] += shift
        cases.append(case)
    wide = _keys("scores hundreds apart", 12, 5, 3, draw, spread=300.0)
    return [*cases, wide]
