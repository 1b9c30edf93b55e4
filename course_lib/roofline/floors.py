"""Latency floors of tables of configurations: the least time of a prefill and of a decode step, and who meets a target.

Sources  two all-reduces a layer: Shoeybi et al., "Megatron-LM", arXiv 1909.08053, section 3;
         bandwidth term 2 (n - 1) / n: Patarasuk, Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 69(2), 2009.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

ALLREDUCES_PER_LAYER = 2  # after attention and after the MLP


def step_floor_ms(step: dict[str, "Tensor"], layers: "Tensor", gpu: dict[str, "Tensor"], ranks: "Tensor") -> "Tensor":
    """Least milliseconds of one step, all tensors [configs] float64 -> [configs] float64.

    step  flops, bytes: of the whole model; allreduce_bytes: the message of one all-reduce
    gpu   peak_tflops: dense, NaN where the GPU lacks the precision; hbm_gb_per_s; link_gb_per_s: one direction; alpha_us

    Arithmetic and memory go on at once, an all-reduce goes on alone: the longer of two times, plus the all-reduces.
    Llama-3-8B, batch 32, context 2048, one H100: max(5.15e11 / 989.4e12, 23.6e9 / 3350e9) s = max(0.52, 7.05) ms.
    """
    import torch

    compute = step["flops"] / (gpu["peak_tflops"] * 1e12) / ranks
    memory = step["bytes"] / (gpu["hbm_gb_per_s"] * 1e9) / ranks
    wire = 2 * (ranks - 1) / ranks * step["allreduce_bytes"] / (gpu["link_gb_per_s"] * 1e9)
    allreduces = ALLREDUCES_PER_LAYER * layers * (gpu["alpha_us"] * 1e-6 + wire)
    alone = torch.zeros_like(allreduces)  # one rank has nobody to wait for
    return 1e3 * (torch.maximum(compute, memory) + torch.where(ranks > 1, allreduces, alone))


def latency_floors(
    model: dict[str, Any], gpu: dict[str, "Tensor"], ranks: "Tensor", itl_target_ms: float
) -> dict[str, "Tensor"]:
    """Floors of every configuration, and whether it meets the target for the time between tokens.

    model  layers, resident_bytes: [configs]; prefill, decode: a step each (see step_floor_ms)
    gpu    as in step_floor_ms, and hbm_gb: capacity of one GPU
    -> ttft_ms, tpot_ms: [configs] float64, NaN where the GPU lacks the precision; meets_itl: [configs] bool

    A configuration meets the target when it is fast enough and fits, each with equality:
    target 40 ms: 40.00 meets it, 40.01 does not; capacity 80 GB: 80.00 GB a rank fit, 80.01 do not.
    """
    ttft_ms, tpot_ms = (step_floor_ms(model[kind], model["layers"], gpu, ranks) for kind in ("prefill", "decode"))
    fits = model["resident_bytes"] / ranks <= gpu["hbm_gb"] * 1e9
    return {"ttft_ms": ttft_ms, "tpot_ms": tpot_ms, "meets_itl": (tpot_ms <= itl_target_ms) & fits}
