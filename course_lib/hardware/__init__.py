"""What a GPU can do: data sheet figures, and which of them is in this machine."""

from .detect import gpu_from, this_gpu
from .specs import GpuSpec, all_specs, find_spec, gpu_named, spec

__all__ = ["GpuSpec", "all_specs", "find_spec", "gpu_from", "gpu_named", "spec", "this_gpu"]
