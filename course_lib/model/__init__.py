"""A small language model that can be read, replaced part by part, and run anywhere: architecture, shapes, weights, generation.

from course_lib.model import load, generate
model = load("course-target")

The course's own weights lie in weights/; weights/card.md says what they reach and what they learned from.
PagedCache and what belongs to it (KV in blocks) are loaded at their first use. Released checkpoints: huggingface/.
"""

from importlib import import_module
from typing import Any

from .config import Llama3Scaling, MlaConfig, ModelConfig
from .decoder import Decoder
from .generate import NewToken, complete, generate
from .load import load, save
from .outliers import outlier_twin
from .parts import Parts
from .presets import PRESETS, preset
from .sampling import GREEDY, Sampling

_PAGED = {"PagedCache": "paged_cache", "PagedStore": "paged_store", "attend_paged": "paged_cache", "paged_factory": "paged_cache",
          "paged_parts": "paged_cache"}  # fmt: skip
__all__ = [
    "GREEDY", "PRESETS", "Decoder", "Llama3Scaling", "MlaConfig", "ModelConfig", "NewToken", "PagedCache", "PagedStore", "Parts",
    "Sampling", "attend_paged", "complete", "generate", "load", "outlier_twin", "paged_factory", "paged_parts", "preset", "save",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PAGED:
        return getattr(import_module(f".{_PAGED[name]}", __name__), name)
    raise AttributeError(f"course_lib.model has no {name!r}; it offers {', '.join(__all__)}")
