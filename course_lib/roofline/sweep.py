"""A batch sweep on paper: step times predicted from measured curves of time against size, and where batching ends.

Why not one bandwidth   a step is a row of kernels, each of its own size. A small one does not reach the bandwidth of a large one,
                        and none takes less than a launch. Each kernel is therefore looked up at its own size.
Why two curves          a product streams its weight, and does more with it than a plain read: it has a curve of its own.
Source of the limit     the intensity of a decode step tends to 2 N / (S kv) + group as the batch grows; solved for the ridge.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def curve_seconds(curve: dict[str, "Tensor"], size_bytes: "Tensor") -> "Tensor":
    """Seconds that a read of each size takes. size_bytes: any shape, float64 -> the same shape, float64.

    curve  bytes, seconds: [points], bytes ascending
    Between two points log(seconds) is a straight line over log(bytes). Below the first point its seconds hold, for 0 bytes too:
    nothing is faster than a launch. Beyond the last one its rate, bytes per second, holds.
    """
    import torch

    sizes, seconds = curve["bytes"], curve["seconds"]
    inside = size_bytes.clamp(float(sizes[0]), float(sizes[-1]))
    if len(sizes) == 1:
        within = seconds.expand(size_bytes.shape)
    else:
        right = torch.searchsorted(sizes, inside.contiguous()).clamp(1, len(sizes) - 1)
        left = right - 1
        share = torch.log(inside / sizes[left]) / torch.log(sizes[right] / sizes[left])
        within = seconds[left] * (seconds[right] / seconds[left]) ** share
    return within * (size_bytes / sizes[-1]).clamp(min=1.0)


def predict_sweep(
    kernels: dict[str, "Tensor"], curves: dict, peak_tflops: float, limits: dict[str, "Tensor"]
) -> dict[str, "Tensor"]:
    """Step times of a sweep over batches, what they are worth, and the context beyond which batching never reaches the ridge.

    kernels  batch: [batches]; flops, bytes: [batches, kernels], of one call; count: [batches, kernels], calls in a step;
             is_product: [kernels] bool
    curves   "read" and "product", each a curve as curve_seconds takes it; or one curve alone, for every kernel
    limits   weights, kv_bytes, group, ridge: [models]; see context_limits
    -> step_seconds, floor_seconds, gap, tokens_per_second, tokens_per_second_per_user: [batches]; context_limit: [models]

    A kernel takes the longer of its arithmetic and its memory, and a step the sum over its calls. The floor knows the totals
    only, and the rate of the last point of the reads.
    """
    import torch

    read = curves.get("read", curves)
    memory = curve_seconds(read, kernels["bytes"])
    if "product" in curves:
        memory = torch.where(kernels["is_product"], curve_seconds(curves["product"], kernels["bytes"]), memory)
    flops_per_second = peak_tflops * 1e12
    bytes_per_second = read["bytes"][-1] / read["seconds"][-1]
    step = (kernels["count"] * torch.maximum(kernels["flops"] / flops_per_second, memory)).sum(1)
    flops, moved = ((kernels["count"] * kernels[name]).sum(1) for name in ("flops", "bytes"))
    floor = torch.maximum(flops / flops_per_second, moved / bytes_per_second)
    return {
        "step_seconds": step,
        "floor_seconds": floor,
        "gap": step / floor,
        "tokens_per_second": kernels["batch"] / step,
        "tokens_per_second_per_user": 1 / step,
        "context_limit": context_limits(**limits),
    }


def context_limits(weights: "Tensor", kv_bytes: "Tensor", group: "Tensor", ridge: "Tensor") -> "Tensor":
    """Context in tokens beyond which no batch brings a decode step to the ridge; [models] float64, inf where there is none.

    weights   of the products and the head, bf16;  kv_bytes: keys and values of one token, all layers, bf16
    group     query heads to a KV head: the intensity of attention itself;  ridge: FLOP per byte
    Llama-3-8B on an H100: 2 * 7504658432 / (131072 * (295.34 - 4)) = 393. Attention at or above the ridge has no limit:
    group 8, ridge 8 -> inf; ridge 8.01 -> a finite one.
    """
    import torch

    limit = 2 * weights / (kv_bytes * (ridge - group))
    return limit.where(ridge > group, torch.inf)
