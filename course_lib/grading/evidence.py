"""Evidence as a verdict keeps it: JSON that any reader takes, however strange the data was that came across the border."""

import math
from collections.abc import Mapping
from typing import Any

from .inside.border import printable

MAX_VALUES = 64
MAX_TEXT = 500


def json_safe(value: Any, depth: int = 0) -> Any:
    """Plain data -> strict JSON data. Small tensors become lists; what is large, not finite or opaque becomes a short text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, str):
        return printable(value[:MAX_TEXT])
    if depth > 8:
        return "..."
    if isinstance(value, Mapping):
        return {printable(key)[:MAX_TEXT]: json_safe(item, depth + 1) for key, item in list(value.items())[:MAX_VALUES]}
    if isinstance(value, (list, tuple)):
        return [json_safe(item, depth + 1) for item in value[:MAX_VALUES]]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if hasattr(value, "tolist") and hasattr(value, "numel"):
        small = value.numel() <= MAX_VALUES and not value.is_complex()
        return json_safe(value.tolist(), depth + 1) if small else f"tensor {value.dtype} of shape {list(value.shape)}"
    return str(value)[:MAX_TEXT]
