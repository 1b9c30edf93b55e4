"""Tiles, warps, buffers and programs for each SM of paged decode, at the shapes that have bars: where the defaults come from."""

from collections.abc import Iterator

import torch

from course_lib.attention.decode_tile import H200_SM_BYTES, SCRATCH_BYTES, DecodeTile, decode_tile
from course_lib.timing import l2_flusher, time_calls

from ._paged_setup import BARS, HEAD_DIM, SHAPES, case, read_roof

LOOPS = ((32, 4, 4), (32, 4, 6), (64, 4, 2), (64, 4, 3), (64, 4, 4), (64, 8, 3), (128, 4, 2), (128, 8, 2), (128, 8, 3))


def tiles() -> Iterator[DecodeTile]:
    """Each loop with as many programs as fit on an SM, and with twice as many, which the hardware starts as others end."""
    for tokens, warps, stages in LOOPS:
        buffers = max(1, stages - 1) * tokens * HEAD_DIM * 2 * 2
        fit = max(1, min(H200_SM_BYTES // (buffers + SCRATCH_BYTES), 64 // warps, 6))
        for programs in dict.fromkeys((max(1, fit - 1), fit, 2 * fit)):
            yield DecodeTile(tokens, warps, stages, programs)


def sweep(shapes: tuple[tuple[int, int], ...] = SHAPES, blocks: tuple[int, ...] = (16, 64)) -> None:
    """Print GB/s of KV bytes and share of the read roof for every variant, best first. Each must give what the default gives."""
    roof, flush = read_roof(), l2_flusher()
    print(f"read roof {roof:.0f} GB/s on {torch.cuda.get_device_name()}")
    for block in blocks:
        for rows, tokens in shapes:
            made = case(rows, tokens, block)
            call, plan = made.ours()
            right = call().clone()
            found = []
            for name, tile, splits in [
                ("default", None, "auto"), ("default", None, "whole"), ("default", None, "even"), ("default", None, "together"),
                *(("", tile, "auto") for tile in tiles()),
            ]:  # fmt: skip
                try:
                    call, plan = made.ours(tile, splits)
                    wrong = (call() - right).abs().max().item()
                    seconds = time_calls(call, repeats=5, warmup=2, before=flush).median_seconds
                except Exception as error:  # a variant that does not fit is a line of the table, not the end of it
                    print(f"  {tile}: {type(error).__name__}: {str(error)[:100]}")
                    continue
                rate = made.kv_bytes / seconds / 1e9
                found.append((rate, f"{name} {plan.tile} {splits}", wrong, plan.list.describe() if plan.list else ""))
            print(f"{rows} x {tokens}, block {block}; bar {BARS[rows, tokens]} ({BARS[rows, tokens] * roof:.0f} GB/s)")
            for rate, words, wrong, work in sorted(found, reverse=True):
                remark = f"  DIFFERS by {wrong}" if wrong > 0.02 else ""
                print(f"  {rate:7.0f} GB/s {rate / roof:.3f}  {words}{remark}" + (f"  [{work}]" if "default" in words else ""))
            del made, call, plan, right
            torch.cuda.empty_cache()
    print(f"default tile of head_dim {HEAD_DIM}: {decode_tile(HEAD_DIM, 16)}")
