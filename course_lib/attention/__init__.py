"""Attention, from one softmax in one pass to the kernels of an engine. Names are loaded at their first use.

from course_lib.attention import flash_attention, attention_reference
out, lse = flash_attention(q, k, v, causal=True, return_lse=True)

In the order of reading
  reference.py       every score written out, in float64: what all others are compared with
  online_softmax.py  softmax in one pass; the merge of partial results
  forward_kernel.py  FlashAttention forward; forward.py launches it, dense.py stands in where Triton cannot run
  tiles.py, cost.py  which tile and why; FLOPs, least bytes, bytes of a tiling
  checks.py          what the inputs must be; custom_ops.py  the same as torch operators
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Partial": "online_softmax",
    "Tile": "tiles",
    "attention_flops": "cost",
    "attention_reference": "reference",
    "choose_tile": "tiles",
    "finish": "online_softmax",
    "flash_attention": "forward",
    "flash_attention_packed": "forward",
    "least_bytes": "cost",
    "least_tile_bytes": "cost",
    "merge": "online_softmax",
    "merge_states": "online_softmax",
    "packed_reference": "reference",
    "partial": "online_softmax",
    "tile_bytes": "cost",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"course_lib.attention has no {name!r}; it offers {', '.join(__all__)}")
