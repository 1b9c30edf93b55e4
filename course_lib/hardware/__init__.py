"""What a GPU can do: data sheet figures, which of them is in this machine, and the roofs that it reaches."""

from .detect import gpu_from, this_gpu
from .roofs import Roof, Roofs, measured_roofs, roofs_from_recorded
from .specs import GpuSpec, all_specs, find_spec, gpu_named, spec

__all__ = [
    "GpuSpec", "Roof", "Roofs", "all_specs", "find_spec", "gpu_from", "gpu_named", "measured_roofs", "roofs_from_recorded",
    "spec", "this_gpu",
]  # fmt: skip
