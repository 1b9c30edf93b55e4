"""What cases of exercises share: draws that a seed decides, and the data sheets for a kernel that is timed."""

from typing import Any


def generator(seed: int) -> Any:
    import torch

    return torch.Generator().manual_seed(seed)


def data_sheets(figure: str) -> list[dict[str, Any]]:
    """Of each GPU in hardware/gpus.toml its names and this figure, "hbm_gb_per_s" say."""
    from ..hardware import all_specs

    return [{"names": list(gpu.names), figure: getattr(gpu, figure)} for gpu in all_specs().values()]
