"""Small cases of the Hopper kernel for a sanitizer, which makes a kernel a hundred times slower. Exit code 0 where all are right.

    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool memcheck python -m tests.gpu.hopper_small
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 compute-sanitizer --tool racecheck python -m tests.gpu.hopper_small
    TRITON_INSTRUMENTATION_MODE=consan python -m tests.gpu.hopper_small 2     (Triton's own: barriers, TMA, wgmma; two cases: each
                                                                             takes a minute or more to compile)
"""

import sys

import torch
import triton

from course_lib.attention import attention_reference, hopper_launch, packed_reference
from course_lib.attention.hopper_forward import hopper_attention, hopper_attention_packed
from course_lib.attention.hopper_ladder import Ladder
from tests.attention.flash_cases import random_qkv


def main() -> int:
    hopper_launch.processors_of = lambda device: 3  # blocks go round several times
    wrong = 0
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))  # consan's
    cases = [(128, True, Ladder()), (128, True, Ladder.up_to("specialised")), (128, False, Ladder()), (64, True, Ladder())]
    cases += [(256, True, Ladder()), (128, True, Ladder.up_to("plain"))]
    for head_dim, causal, steps in cases[: int(sys.argv[1]) if sys.argv[1:] else None]:
        q, k, v = random_qkv(1, 300, 333, 4, 2, head_dim, torch.bfloat16, 0, "cuda")
        out, lse = hopper_attention(q, k, v, causal=causal, steps=steps, return_lse=True, out=torch.full_like(q, torch.nan))
        wrong += _differ(f"head_dim {head_dim}, {'causal' if causal else 'full'}, {steps}", out, lse, *_expected(q, k, v, causal))
    if sys.argv[1:]:
        return wrong
    q, k, v = (x[0] for x in random_qkv(1, 500, 600, 4, 2, 128, torch.bfloat16, 0, "cuda"))
    cu_q, cu_k = (torch.tensor(starts, dtype=torch.int32, device="cuda") for starts in ([0, 200, 201, 500], [0, 10, 300, 600]))
    found = hopper_attention_packed(q, k, v, cu_q, cu_k, max_q=299, max_k=300, causal=True, return_lse=True)
    return wrong + _differ("packed", *found, *packed_reference(q, k, v, cu_q, cu_k, causal=True))


def _expected(q, k, v, causal):
    return attention_reference(q, k, v, causal=causal)


def _differ(words, out, lse, expected, expected_lse) -> bool:
    apart = (out.double() - expected).abs().max().item()
    seen = ~expected_lse.isneginf()
    lse_apart = (lse[seen].double() - expected_lse[seen]).abs().max().item()
    print(f"{words}: out is off by {apart:.2e}, lse by {lse_apart:.2e}", flush=True)
    return not (apart < 0.04 and lse_apart < 1e-3)


if __name__ == "__main__":
    sys.exit(main())
