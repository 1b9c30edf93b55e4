"""Prefill over a paged cache, a chunk of 2048 new tokens after 0, 2048 or 16,384 that are cached, and the write of new K and V.

Peers of prefill: our dense kernel on contiguous K and V (the same queries and keys), and cuDNN's attention in torch. cuDNN's mask
is aligned at the top left there, so after cached tokens it gets none, and its rate counts the products that it then makes.
The peer of the write is a copy of as many bytes. 32 query heads over 8 KV heads of 128, bf16, random data, cold L2, in turns; the
roof is a large bf16 product. paged_prefill_variants.py tries other tiles.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ._peers import PRODUCT_SOURCES, SDPA, Row, budget_of, check_alike, first_result, in_turns, rows_beside, run, sdpa
from ._peers import SOURCES as PEERS_SOURCES
from ._points import product_tflops

CHUNK_SOURCES = (  # of what the variants time as well
    "benchmarks/paged_prefill.py", *PEERS_SOURCES, *PRODUCT_SOURCES,
    *(f"course_lib/attention/{name}.py" for name in (
        "paged_prefill", "paged_prefill_kernel", "decode_kernel", "forward", "forward_kernel", "tiles", "cost",
    )),
)  # fmt: skip
SOURCES = (*CHUNK_SOURCES, "course_lib/attention/paged_write.py", "course_lib/attention/paged_write_kernel.py")
Q_HEADS, KV_HEADS, HEAD_DIM = 32, 8, 128
CHUNK, CACHED, BLOCKS = 2048, (0, 2048, 16384), (16, 64)
WRITTEN = (64, 8192)  # tokens
ROUNDS, REPEATS = 5, 5


def measure() -> Iterator[Row]:
    roof = product_tflops()
    print(f"large bf16 product: {roof:.0f} TFLOP/s", flush=True)
    for block in BLOCKS:
        for cached in CACHED:
            yield from prefill_rows(Chunk(cached, block), roof)
    for tokens in WRITTEN:
        yield from write_rows(tokens)


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

    @property
    def words(self) -> str:
        return f"prefill of {CHUNK} after {self.cached}, block {self.block}"

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
        q, k, v = (x.transpose(1, 2) for x in (self.q[None], *self.dense))
        return sdpa(SDPA["SDPA cuDNN"], q, k, v, is_causal=not self.cached, enable_gqa=True)


def prefill_rows(chunk: Chunk, roof: float) -> list[Row]:
    cudnn = "SDPA cuDNN, without a mask" if chunk.cached else "SDPA cuDNN"
    calls = {"ours": chunk.ours(), "own dense kernel": chunk.own_dense()}
    check_alike("paged prefill and the dense kernel", calls["ours"](), calls["own dense kernel"]()[0], budget_of(chunk.v))
    call = chunk.cudnn()
    if first_result(f"{chunk.words}: {cudnn}", call) is not None:
        calls[cudnn] = call
    work, peer_work = chunk.flops / 1e12, {cudnn: chunk.all_flops / 1e12} if chunk.cached else {}
    return rows_beside(chunk.words, "TFLOP/s", work, in_turns(calls, ROUNDS, REPEATS), roof=roof, peer_work=peer_work)


def write_rows(tokens: int, block: int = 16) -> list[Row]:
    """K, V and q turned and written by one launch; the bytes of all of them, read and written, and of cos and sin."""
    from course_lib.attention.paged_write import paged_write

    random = torch.Generator("cuda").manual_seed(tokens)
    q, k, v = (_normal(random, tokens, heads, HEAD_DIM) for heads in (Q_HEADS, KV_HEADS, KV_HEADS))
    pools = [torch.empty(2 * tokens // block, block, KV_HEADS, HEAD_DIM, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
    slots = torch.randperm(2 * tokens, generator=random, device="cuda")[:tokens]
    cos, sin = torch.rand(2, tokens, HEAD_DIM // 2, generator=random, device="cuda")
    moved = 2 * sum(x.nbytes for x in (q, k, v)) + cos.nbytes + sin.nbytes + slots.nbytes
    source, target = torch.zeros(2, moved // 2, dtype=torch.uint8, device="cuda").random_(generator=random)
    calls = {
        "ours": lambda: paged_write(k, v, *pools, slots, cos=cos, sin=sin, q=q),
        "a copy of as many bytes": lambda: target.copy_(source),
    }
    words = f"write of {tokens} tokens at random slots, {moved / 1e6:.1f} MB"
    return rows_beside(words, "GB/s", moved / 1e9, in_turns(calls, ROUNDS, REPEATS))


def _normal(random: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.bfloat16, device="cuda").normal_(generator=random)


if __name__ == "__main__":
    sys.exit(run("paged_prefill", SOURCES, measure))
