"""Attention, from one softmax in one pass to the kernels of an engine. Names are loaded at their first use.

from course_lib.attention import flash_attention, attention_reference
out, lse = flash_attention(q, k, v, causal=True, return_lse=True)

In the order of reading
  reference.py       every score written out, in float64: what all others are compared with
  online_softmax.py  softmax in one pass; the merge of partial results
  forward_kernel.py  FlashAttention forward; forward.py launches it, dense.py stands in where Triton cannot run
  tiles.py, cost.py  which tile and why; FLOPs, least bytes, bytes of a tiling
  tile_limits.py     what a tile needs of an SM, before it is compiled; one_loop_kernel.py  the plain kernel that proves it
  checks.py          what the inputs must be; custom_ops.py  the same as torch operators

For Hopper GPUs, in Gluon
  hopper_kernel.py   the essay, shared memory, barriers, the partitions; hopper_producer.py, hopper_consumer.py  what these do
  hopper_softmax.py, hopper_tiles.py, hopper_packed.py, hopper_weights.py, hopper_order.py  parts of a consumer; who is first
  hopper_plain.py    the same without a division of labour; hopper_ladder.py  which steps are taken
  hopper_schedule.py, hopper_draw.py  which block computes which tiles; hopper_launch.py, hopper_forward.py  launch it
  hopper_fp8.py      the same in FP8: scales, a rotation, values transposed; hopper_eight.py  what the kernel does otherwise then

Over a paged cache
  paged_reference.py the gather and the oracle; splits.py  how decode work is cut
  decode_kernel.py   decode; merge_kernel.py  merges its parts; decode_tile.py  how much at a time
  decode_plan.py     writes the work list and launches; decode.py checks, and plans where no plan is given
  cascade.py         decode that reads a shared prefix once
  paged_prefill.py   chunks of a prompt; paged_write.py  new K and V into the cache, turned on the way
                     paged_write, paged_prefill and paged_reference have the name of their module, so they are not offered
                     here: `from course_lib.attention.paged_write import paged_write`
  paged_checks.py, paged_cost.py, paged_ops.py  as above
"""

from importlib import import_module
from typing import Any

_HOME = {
    "CascadePlan": "cascade",
    "DecodePlan": "decode_plan",
    "Partial": "online_softmax",
    "Tile": "tiles",
    "attention_flops": "cost",
    "attention_reference": "reference",
    "cascade_decode": "cascade",
    "check_tables": "paged_checks",
    "check_tile": "tile_limits",
    "choose_tile": "tiles",
    "contiguous_decode": "decode",
    "decode_flops": "paged_cost",
    "decode_least_bytes": "paged_cost",
    "decode_reference": "paged_reference",
    "finish": "online_softmax",
    "flash_attention": "forward",
    "flash_attention_packed": "forward",
    "gather_blocks": "paged_reference",
    "kv_bytes": "paged_cost",
    "least_bytes": "cost",
    "least_tile_bytes": "cost",
    "merge": "online_softmax",
    "merge_parts": "online_softmax",
    "merge_states": "online_softmax",
    "packed_reference": "reference",
    "paged_decode": "decode",
    "partial": "online_softmax",
    "split_work": "splits",
    "tile_bytes": "cost",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"course_lib.attention has no {name!r}; it offers {', '.join(__all__)}")
