"""FP8 attention on Hopper beside our bf16 kernel and FlashAttention-3's FP8, and what FP8 costs in precision.

16,384 tokens in all, 16 heads of 128, cold L2, in turns in one process; FLOPs halved when causal. Quantised, transposed ahead.
Precision: root mean square error to float64 where one entry in a thousand is an outlier (table 3 of arXiv 2407.08608).
"""

import sys
from collections.abc import Callable
from typing import Any

import torch

from course_lib.attention import attention_reference
from course_lib.attention.hopper_forward import hopper_attention
from course_lib.attention.hopper_fp8 import hopper_attention_fp8, quantise_heads, rotated, transpose_values

from ._flash_setup import SOURCES as SETUP_SOURCES
from ._flash_setup import Case, in_turns, tflops
from ._result import write_result

FILES = ("consumer", "eight", "fp8", "kernel", "launch", "order", "producer", "schedule", "softmax", "tiles", "weights")
SOURCES = (
    "benchmarks/hopper_fp8.py", *SETUP_SOURCES,
    *(f"course_lib/attention/hopper_{name}.py" for name in FILES),
)  # fmt: skip


def main() -> int:
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
        print("blocked: needs a Hopper GPU")
        return 1
    rows = precision_rows()
    for sequence in (512, 2048, 8192, 16384):
        for causal in (False, True):
            rows += speed_rows(Case(128, sequence, causal))
    print(write_result("hopper_fp8", rows, SOURCES))
    return 0


def speed_rows(case: Case) -> list[dict[str, Any]]:
    q, k, v = case.inputs()
    (q8, qs), (k8, ks), (v8, vs) = (quantise_heads(x) for x in (q, k, v))
    vt = transpose_values(v8)
    calls: dict[str, Callable[[], Any]] = {
        "FP8": lambda: hopper_attention_fp8(q8, k8, vt, qs, ks, vs, causal=case.causal),
        "our bf16": lambda: hopper_attention(q, k, v, causal=case.causal),
    }
    right = calls["our bf16"]().float()
    error = ((calls["FP8"]().float() - right).norm() / right.norm()).item()
    if fa3 := _fa3(q8, k8, v8, qs, ks, vs, case.causal):
        calls["fa3-fwd FP8"] = fa3
    seconds = in_turns(calls)
    ours, low, high = tflops(case, seconds["FP8"])
    rows = []
    for name in list(calls)[1:]:
        peer = tflops(case, seconds[name])[0]
        print(f"{case.words}: FP8 {ours:.0f} TFLOP/s, {ours / peer:.3f} of {name} ({peer:.0f}); {error:.3f} off bf16", flush=True)
        rows.append({
            "case": f"{case.words}, FP8 against {name}", "unit": "TFLOP/s", "ours": ours, "peer": peer, "peer_name": name,
            "ratio": ours / peer, "roof_share": None, "spread": [low, high],
        })  # fmt: skip
    return rows


def precision_rows() -> list[dict[str, Any]]:
    generator = torch.Generator("cuda").manual_seed(0)

    def made() -> torch.Tensor:
        x = torch.randn(1, 4096, 4, 128, generator=generator, device="cuda")
        outliers = torch.rand(x.shape, generator=generator, device="cuda") < 0.001
        return x + outliers * torch.randn(x.shape, generator=generator, device="cuda") * 10

    q, k, v = made(), made(), made()
    right = attention_reference(q, k, v)[0]

    def eight(turn: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        (q8, qs), (k8, ks), (v8, vs) = (quantise_heads(x) for x in (turn(q), turn(k), v))
        return hopper_attention_fp8(q8, k8, transpose_values(v8), qs, ks, vs)

    outs = {"bf16": hopper_attention(q.bfloat16(), k.bfloat16(), v.bfloat16())}
    outs |= {"FP8": eight(lambda x: x), "FP8, rotated": eight(rotated)}
    rows = []
    for name, out in outs.items():
        error = (out.double() - right).pow(2).mean().sqrt().item()
        print(f"root mean square error to float64, outliers: {name} {error:.3e}", flush=True)
        rows.append({
            "case": f"error to float64 with outliers, {name}", "unit": "RMSE * 1e6", "ours": error * 1e6, "peer": None,
            "peer_name": None, "ratio": None, "roof_share": None, "spread": None,
        })  # fmt: skip
    return rows


def _fa3(*tensors: Any) -> Callable[[], Any] | None:
    try:
        from fa3_fwd_interface import flash_attn_func
    except (ImportError, OSError):
        return None
    q, k, v, qs, ks, vs, causal = tensors

    def call() -> Any:
        return flash_attn_func(q, k, v, causal=causal, q_descale=qs, k_descale=ks, v_descale=vs)

    try:
        call()
    except Exception as error:  # another version of its interface
        print(f"fa3-fwd FP8 does not run: {type(error).__name__}: {str(error).splitlines()[0][:150]}", flush=True)
        return None
    return call


if __name__ == "__main__":
    sys.exit(main())
