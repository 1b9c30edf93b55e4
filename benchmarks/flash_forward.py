"""FlashAttention forward against cuDNN's and FlashAttention-2's in torch, and against FlashAttention-3 where its wheel is.

bf16, 16,384 tokens in all, hidden size 2048, random data, cold L2, in turns in one process. FLOPs are halved when causal; the
roof is a large bf16 product. flash_variants.py tries other tiles.
"""

import sys
from collections.abc import Iterator

import torch

from ._flash_setup import SOURCES as SETUP_SOURCES
from ._flash_setup import TOKENS, Case, contenders
from ._peers import PRODUCT_SOURCES, Row, in_turns, rows_beside, run
from ._points import product_tflops

SOURCES = ("benchmarks/flash_forward.py", *SETUP_SOURCES, *PRODUCT_SOURCES)
HEAD_DIMS, SEQUENCES = (64, 128, 256), (512, 1024, 2048, 4096, 8192, 16384)
BARS = {  # (head_dim, causal, peer) -> ratio that is asked for
    (64, False, "SDPA cuDNN"): 0.88, (64, True, "SDPA cuDNN"): 0.88,
    (128, False, "SDPA cuDNN"): 0.75, (128, True, "SDPA cuDNN"): 0.86,
    (128, False, "SDPA flash"): 1.3, (128, True, "SDPA flash"): 1.3,
}  # fmt: skip


def cases() -> list[Case]:
    assert all(TOKENS % sequence == 0 for sequence in SEQUENCES)
    return [Case(d, sequence, causal) for d in HEAD_DIMS for causal in (False, True) for sequence in SEQUENCES]


def measure() -> Iterator[Row]:
    roof = product_tflops()
    print(f"large bf16 product: {roof:.0f} TFLOP/s", flush=True)
    for case in cases():
        seconds = in_turns(contenders(case))
        torch.cuda.empty_cache()
        yield from rows_beside(case.words, "TFLOP/s", case.flops / 1e12, seconds, roof=roof, bars=bars_of(case))


def bars_of(case: Case) -> dict[str, float]:
    return {peer: bar for (head_dim, causal, peer), bar in BARS.items() if (head_dim, causal) == (case.head_dim, case.causal)}


if __name__ == "__main__":
    sys.exit(run("flash_forward", SOURCES, measure))
