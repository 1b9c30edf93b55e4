"""Prefill over a paged cache, a chunk of 2048 new tokens after 0, 2048 or 16,384 that are cached, and the write of new K and V.

Peers of prefill: our dense kernel on contiguous K and V (the same queries and keys), and cuDNN's attention in torch. cuDNN's mask
is aligned at the top left there, so after cached tokens it gets none, and its rate counts the products that it then makes.
The peer of the write is a copy of as many bytes. 32 query heads over 8 KV heads of 128, bf16, random data, cold L2, in turns.
`python -m benchmarks.paged_prefill --variants` prints what rows, tokens, warps and stages do, and records nothing.
"""

import statistics
import sys
from collections.abc import Callable
from typing import Any

import torch

from ._paged_setup import HEAD_DIM, KV_HEADS, Q_HEADS, in_turns
from ._points import product_tflops
from ._result import write_result

SOURCES = (
    "benchmarks/paged_prefill.py", "benchmarks/_paged_setup.py", "course_lib/attention/paged_prefill.py",
    "course_lib/attention/paged_prefill_kernel.py", "course_lib/attention/decode_kernel.py", "course_lib/attention/forward.py",
    "course_lib/attention/forward_kernel.py", "course_lib/attention/tiles.py", "course_lib/attention/paged_write.py",
    "course_lib/attention/paged_write_kernel.py", "course_lib/timing/events.py", "course_lib/timing/flush.py",
)  # fmt: skip
CHUNK, CACHED, BLOCKS = 2048, (0, 2048, 16384), (16, 64)
WRITTEN = (64, 8192)  # tokens
ROUNDS = 5
VARIANTS = (  # rows, tokens, warps, stages
    (128, 64, 8, 3), (128, 64, 8, 2), (128, 32, 8, 3), (128, 128, 8, 2),
    (64, 64, 4, 3), (64, 64, 4, 2), (64, 32, 4, 3), (64, 32, 4, 4),
)  # fmt: skip


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    if "--variants" in sys.argv:
        sweep()
        return 0
    roof = product_tflops()
    print(f"large bf16 product: {roof:.0f} TFLOP/s")
    rows = [row for block in BLOCKS for cached in CACHED for row in _told(prefill_rows(Chunk(cached, block), roof))]
    rows += _told([write_row(tokens) for tokens in WRITTEN])
    print(write_result("paged_prefill", rows, SOURCES))
    return 0


class Chunk:
    """The new tokens of one row of a block table, K and V in blocks of random order, and the same tokens contiguous."""

    def __init__(self, cached: int, block: int) -> None:
        from course_lib.attention import attention_flops, gather_blocks

        self.cached, self.block, self.keys = cached, block, cached + CHUNK
        self.flops = attention_flops(1, CHUNK, self.keys, Q_HEADS, HEAD_DIM, causal=True)
        self.all_flops = attention_flops(1, CHUNK, self.keys, Q_HEADS, HEAD_DIM)
        random = torch.Generator("cuda").manual_seed(cached + block)
        blocks = self.keys // block
        self.q = _normal(random, CHUNK, Q_HEADS, HEAD_DIM)
        self.k, self.v = (_normal(random, blocks, block, KV_HEADS, HEAD_DIM) for _ in range(2))
        self.tables = torch.randperm(blocks, generator=random, device="cuda").to(torch.int32)[None]
        self.cu, self.lengths = (torch.tensor(x, dtype=torch.int32, device="cuda") for x in ([0, CHUNK], [self.keys]))
        self.dense = [gather_blocks(x, self.tables[0], self.keys)[None] for x in (self.k, self.v)]

    def ours(self, tile: Any = None) -> Callable[[], torch.Tensor]:
        from course_lib.attention.paged_prefill import paged_prefill

        out = torch.empty_like(self.q)
        return lambda: paged_prefill(
            self.q, self.cu, self.k, self.v, self.tables, self.lengths, max_q=CHUNK, out=out, impl="triton", tile=tile
        )

    def own_dense(self) -> Callable[[], torch.Tensor]:
        from course_lib.attention import flash_attention

        out = torch.empty_like(self.q)[None]
        return lambda: flash_attention(self.q[None], *self.dense, causal=True, out=out, impl="triton")

    def cudnn(self) -> Callable[[], torch.Tensor]:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention as attend

        q, k, v = (x.transpose(1, 2) for x in (self.q[None], *self.dense))

        def call() -> torch.Tensor:
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                return attend(q, k, v, is_causal=not self.cached, enable_gqa=True)

        return call


def prefill_rows(chunk: Chunk, roof: float) -> list[dict[str, Any]]:
    cudnn = "SDPA cuDNN, without a mask" if chunk.cached else "SDPA cuDNN"
    calls = {"ours": chunk.ours(), "own dense kernel": chunk.own_dense(), cudnn: chunk.cudnn()}
    apart = (calls["ours"]().float() - calls["own dense kernel"]()[0].float()).abs().max().item()
    # each rounds its weights and its result to bf16, and is off by at most 2 ** -7 of the largest value
    assert apart <= 2 * 2**-7 * chunk.v.abs().max().item(), f"paged prefill and the dense kernel differ by {apart}"
    try:
        calls[cudnn]()
    except RuntimeError as error:  # no such kernel for this shape here: there is nothing to compare with
        print(f"{cudnn} does not run: {str(error).splitlines()[0]}")
        del calls[cudnn]
    seconds = in_turns(calls, ROUNDS)
    rates = sorted(chunk.flops / s / 1e12 for s in seconds["ours"])
    ours, found = statistics.median(rates), []
    for name in list(calls)[1:]:
        flops = chunk.all_flops if "without" in name else chunk.flops
        peer = flops / statistics.median(seconds[name]) / 1e12
        found.append(
            {"case": f"prefill of {CHUNK} after {chunk.cached}, block {chunk.block}, against {name}", "unit": "TFLOP/s",
             "ours": ours, "peer": peer, "peer_name": name, "ratio": ours / peer, "roof_share": ours / roof,
             "spread": [rates[0], rates[-1]]}
        )  # fmt: skip
    return found


def write_row(tokens: int, block: int = 16) -> dict[str, Any]:
    """K, V and q turned and written by one launch; the bytes of all of them, read and written, and of cos and sin."""
    from course_lib.attention.paged_write import paged_write

    random = torch.Generator("cuda").manual_seed(tokens)
    q, k, v = (_normal(random, tokens, heads, HEAD_DIM) for heads in (Q_HEADS, KV_HEADS, KV_HEADS))
    pools = [torch.empty(2 * tokens // block, block, KV_HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    slots = torch.randperm(2 * tokens, generator=random, device="cuda")[:tokens]
    cos, sin = torch.rand(2, tokens, HEAD_DIM // 2, generator=random, device="cuda")
    moved = 2 * sum(x.nbytes for x in (q, k, v)) + cos.nbytes + sin.nbytes + slots.nbytes
    source, target = torch.zeros(2, moved // 2, dtype=torch.uint8, device="cuda").random_(generator=random)
    seconds = in_turns(
        {"ours": lambda: paged_write(k, v, *pools, slots, cos=cos, sin=sin, q=q), "copy": lambda: target.copy_(source)}, ROUNDS
    )
    rates = sorted(moved / s / 1e9 for s in seconds["ours"])
    ours, peer = statistics.median(rates), moved / statistics.median(seconds["copy"]) / 1e9
    return {
        "case": f"write of {tokens} tokens at random slots, {moved / 1e6:.1f} MB", "unit": "GB/s", "ours": ours, "peer": peer,
        "peer_name": "a copy of as many bytes", "ratio": ours / peer, "roof_share": None, "spread": [rates[0], rates[-1]],
    }  # fmt: skip


def sweep() -> None:
    """Print TFLOP/s of every variant beside the dense kernel, best first. Each must give what the default gives."""
    from course_lib.attention.paged_prefill import PrefillTile, prefill_tile
    from course_lib.timing import l2_flusher, time_calls

    flush, default = l2_flusher(), prefill_tile(CHUNK, Q_HEADS // KV_HEADS, HEAD_DIM)
    for block, cached in ((16, 0), (16, 16384), (64, 16384)):
        chunk = Chunk(cached, block)
        right, found = chunk.ours()().clone(), []
        calls = {PrefillTile(*four): chunk.ours(PrefillTile(*four)) for four in VARIANTS}
        for tile, call in {"own dense kernel": chunk.own_dense(), **calls}.items():
            try:
                apart = (call() - right).abs().max().item()
                seconds = time_calls(call, repeats=5, warmup=2, before=flush).median_seconds
            except Exception as error:  # a variant that does not fit is a line of the table, not the end of it
                print(f"  {tile}: {type(error).__name__}: {str(error).splitlines()[0][:120]}")
                continue
            words = f"{tile}{'  <- default' if tile == default else ''}{f'  DIFFERS by {apart}' if apart > 0.1 else ''}"
            found.append((chunk.flops / seconds / 1e12, words))
        print(f"{CHUNK} new tokens after {cached}, block {block}")
        for rate, words in sorted(found, reverse=True):
            print(f"  {rate:5.0f} TFLOP/s  {words}", flush=True)


def _normal(random: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device="cuda").normal_(generator=random)


def _told(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    for row in rows:
        share = "" if row["roof_share"] is None else f", {row['roof_share']:.3f} of a large product"
        peer = f"{row['ratio']:.3f} of {row['peer_name']} ({row['peer']:.0f})"
        print(f"{row['case']}: {row['ours']:.0f} {row['unit']}, {peer}{share}", flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
