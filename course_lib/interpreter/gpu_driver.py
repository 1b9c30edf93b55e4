"""Can a GPU be used here? Asked of files and of the driver library, never of torch: `import course_lib` must stay cheap.

Why not ask the driver itself (cuInit)? It takes up to seconds, it freezes CUDA_VISIBLE_DEVICES, and a process that has done it
can no longer fork children that use CUDA. So a driver library that loads is believed when there is something that it could
drive: its device files, or an NVIDIA card on the PCI bus. The library alone, as in a CUDA container on a machine without a
GPU, is no GPU. A driver that is there and does not work (too old for this torch, say) is only found by torch: `settle`
in entry.py asks it later, when torch is loaded anyway. In doubt the answer is "a GPU", so that a GPU machine is never changed.
"""

import contextlib
import os
import sys

NVIDIA_FILES = (
    "/dev/nvidiactl",  # Linux, and containers with a GPU handed in
    "/dev/dxg",  # WSL2
    "/dev/nvmap",  # Jetson
    "/proc/driver/nvidia/gpus",  # the kernel module runs; the files in /dev are made at the first use
)
AMD_FILES = ("/dev/kfd",)
PCI = "/sys/bus/pci/devices"
PCI_NVIDIA = "0x10de"


def why_no_cuda() -> str:
    """A sentence without its full stop when no CUDA device can be used, "" when nothing speaks against one."""
    if hidden := _hidden("CUDA_VISIBLE_DEVICES"):
        return hidden
    if sys.platform == "linux" and not any(map(os.path.exists, NVIDIA_FILES)) and not _nvidia_on_pci():
        return "there is no NVIDIA GPU"
    if not _driver_loads():
        return "no CUDA driver library can be loaded"
    return ""


def why_no_rocm() -> str:
    """The same for AMD. Its libraries travel inside torch, so the driver is seen by the file that it opens."""
    for name in ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
        if hidden := _hidden(name):
            return hidden
    if any(map(os.path.exists, AMD_FILES)):
        return ""
    if os.path.exists("/dev/dxg") and os.path.exists("/opt/rocm"):  # WSL2, where both vendors share one file
        return ""
    return "there is no ROCm driver"


def torch_build() -> str:
    """What the installed torch was built for: "cuda", "rocm" or "cpu"; "" without torch, or when it does not say.

    Read from the text of torch/version.py: importing torch takes a second and may load Triton.
    """
    import re
    from importlib.util import find_spec

    try:
        folders = getattr(find_spec("torch"), "submodule_search_locations", None) or ()
        paths = [os.path.join(folder, "version.py") for folder in folders]
        text = "".join(open(path, encoding="utf-8").read() for path in paths if os.path.exists(path))  # noqa: SIM115
    except (ImportError, ValueError, OSError):  # blocked, half imported, or not readable
        return ""
    built = dict(re.findall(r"^(cuda|hip)\b[^=\n]*=\s*(\S+)", text, re.MULTILINE))
    if "cuda" not in built:
        return ""
    if built.get("hip", "None") != "None":
        return "rocm"
    return "cpu" if built["cuda"] == "None" else "cuda"


def _hidden(variable: str) -> str:
    """CUDA stops reading its list at the first entry that is neither a number nor the id of a device; so do we."""
    value = os.environ.get(variable)
    if value is None:
        return ""
    first = value.split(",")[0].strip()
    if first.isdigit() or first.startswith(("GPU-", "MIG-")):
        return ""
    return f"{variable}={value!r} hides every GPU"


def _nvidia_on_pci() -> bool:
    """A card whose driver is not in use yet: its files appear when the first program calls the driver."""
    with contextlib.suppress(OSError):
        for device in os.listdir(PCI):
            with contextlib.suppress(OSError), open(os.path.join(PCI, device, "vendor")) as file:
                if file.read().strip() == PCI_NVIDIA:
                    return True
    return False


def _driver_loads() -> bool:
    import ctypes

    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False
    return True
