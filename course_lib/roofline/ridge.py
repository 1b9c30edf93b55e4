"""Ridge points: the arithmetic intensity at which a GPU stops waiting for memory and starts waiting for its arithmetic.

Source   S. Williams, A. Waterman, D. Patterson, "Roofline", CACM 52(4), 2009: ridge = peak FLOP/s / peak byte/s.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

TERA, GIGA = 1e12, 1e9


def ridge_points(peak_tflops: "Tensor", hbm_gb_per_s: "Tensor") -> "Tensor":
    """Ridge point of every GPU at every precision, in FLOP per byte.

    peak_tflops   [gpus, precisions] dense peaks in TFLOP/s; NaN where a GPU lacks the precision
    hbm_gb_per_s  [gpus] memory bandwidth in GB/s (1e9 bytes)
    -> [gpus, precisions] float64. H100 SXM, bf16: 989.4e12 / 3350e9 = 295.3. Raises ValueError on other shapes.
    """
    if peak_tflops.dim() != 2 or hbm_gb_per_s.shape != peak_tflops.shape[:1]:
        raise ValueError(
            f"peak_tflops {list(peak_tflops.shape)} and hbm_gb_per_s {list(hbm_gb_per_s.shape)}: "
            "pass [gpus, precisions] and [gpus]"
        )
    return peak_tflops.double() * TERA / (hbm_gb_per_s.double() * GIGA)[:, None]
