"""Which row of gpus.toml is the GPU in this machine.

A name alone is not enough. MIG slices, cards sold with fewer units under the same name and cards with other memory have other
figures, so the number of SMs and the capacity must agree as well. What agrees with no row is None: no figure is better than a
wrong one.
"""

from .specs import GpuSpec, all_specs


def gpu_from(name: str, sms: int | None = None, memory_bytes: int | None = None) -> GpuSpec | None:
    """The row that a device belongs to, or None.

    name          as the driver prints it, with or without "NVIDIA "; compared in full, never in part: "NVIDIA H200 NVL" and
                  "NVIDIA GH200 480GB" are no "NVIDIA H200"
    sms           streaming multiprocessors (AMD: compute units); must be the row's, where given
    memory_bytes  capacity as the driver reports it, where given. Sheets print a number of GB that stands for up to 2**30 bytes
                  each, and the driver keeps some: "80 GB" is 85.0e9 bytes on an H100, "16 GB" 15.6e9 on a T4
    """
    wanted = name.strip().removeprefix("NVIDIA ").strip()
    fits = [gpu for gpu in all_specs().values() if wanted in gpu.names and _agrees(gpu, sms, memory_bytes)]
    return fits[0] if len(fits) == 1 else None


def this_gpu() -> GpuSpec | None:
    """The row of the CUDA device in use; None without one, or for one that gpus.toml does not know."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    return gpu_from(device.name, device.multi_processor_count, device.total_memory)


def _agrees(gpu: GpuSpec, sms: int | None, memory_bytes: int | None) -> bool:
    if sms is not None and sms != gpu.sms:
        return False
    return memory_bytes is None or 0.9 * gpu.hbm_gb * 1e9 <= memory_bytes <= gpu.hbm_gb * 2**30
