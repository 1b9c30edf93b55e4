"""Exercise 2.1: the learner's merge, called once on all parts, or on groups of them and then on what came out."""

from typing import Any

__course_runner__ = True  # messages name the learner's line, not one of this file


def merge(entry: Any, case: dict) -> Any:
    """What the learner's function makes of the parts."""
    return entry(case["m"], case["l"], case["acc"])


def merge_in_groups(entry: Any, case: dict) -> Any:
    """Each group by itself, then the groups' results together. A result that cannot be stacked is returned as it came."""
    import torch

    merged = []
    for group in case["groups"]:
        result = entry(case["m"][group], case["l"][group], case["acc"][group])
        three = isinstance(result, (tuple, list)) and len(result) == 3
        if not (three and all(isinstance(part, torch.Tensor) for part in result)):
            return result
        merged.append(result)
    if any(a.shape != b.shape for result in merged for a, b in zip(result, merged[0], strict=True)):
        return merged[0]
    return entry(*(torch.stack([result[place] for result in merged]) for place in range(3)))
