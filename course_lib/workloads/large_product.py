"""The rate of one large matrix product: what measurements take for the peak of the device in use."""

from typing import Any

from .event_seconds import event_seconds

SIZE = 8192


def large_product_tflops(dtype: Any = None, *, repeats: int = 20) -> list[float]:
    """TFLOP/s of each of some products [8192, 8192] x [8192, 8192]. dtype: by default torch.bfloat16.

    The data are random: zeros draw less power and run faster. Raises RuntimeError without a CUDA device.
    """
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("a product's rate is measured on a CUDA device, and this machine shows none; see `labs doctor`")
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=dtype or torch.bfloat16) for _ in range(2))
    out = torch.empty_like(a)
    return [2 * SIZE**3 / seconds / 1e12 for seconds in event_seconds(lambda: torch.matmul(a, b, out=out), repeats=repeats)]
