"""A session with NVML, the driver's management library, opened once and closed once, and its errors as sentences.

Importing this never fails. NVML answers only between nvmlInit and nvmlShutdown; sessions may be nested, and only the outermost
one opens and closes it.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_SENTENCES = {  # NVML's return codes (nvml.h, nvmlReturn_enum), with what to do
    1: "NVML was asked before nvmlInit; open a session first",
    3: "this device or driver does not give it",
    4: "the permission is missing; ask whoever runs the machine or the container for access to the GPU's counters",
    6: "NVML does not find this device",
    9: "the NVIDIA driver is not loaded; check that nvidia-smi runs",
    12: "libnvidia-ml.so.1 is not here; it comes with the NVIDIA driver (a container needs the driver capability 'utility')",
    13: "this driver is too old for it",
    15: "the GPU has fallen off the bus; the machine must be restarted",
    16: "the GPU needs a reset",
    17: "the operating system forbids it; look at the rights on /dev/nvidia*",
    18: "the driver and its NVML library have different versions; restart after the driver's update",
}
_lock = threading.Lock()
_open_sessions = 0


class NvmlUnavailableError(RuntimeError):
    """NVML cannot be used here; the message says why and what to do."""


def binding() -> Any:
    """The module pynvml (package nvidia-ml-py). Raises NvmlUnavailableError."""
    try:
        import pynvml
    except ImportError as error:
        raise NvmlUnavailableError("NVML's Python binding is not installed; pip install nvidia-ml-py") from error
    return pynvml


def sentence(error: Exception) -> str:
    """An NVMLError in plain words: what NVML said and what to do."""
    code = getattr(error, "value", None)
    said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    if code in _SENTENCES:
        return f"NVML says {said!r}: {_SENTENCES[code]}"
    return f"NVML says {said!r}" + (f" (code {code})" if code is not None else "")


@contextmanager
def session() -> Iterator[Any]:
    """with session() as nvml: the binding, initialised. Raises NvmlUnavailableError where NVML cannot start."""
    global _open_sessions
    nvml = binding()
    with _lock:
        if _open_sessions == 0:
            try:
                nvml.nvmlInit()
            except nvml.NVMLError as error:
                raise NvmlUnavailableError(sentence(error)) from error
        _open_sessions += 1
    try:
        yield nvml
    finally:
        with _lock:
            _open_sessions -= 1
            if _open_sessions == 0:
                with suppress(nvml.NVMLError):  # the driver may have gone away; then nothing is left to close
                    nvml.nvmlShutdown()


def ask(nvml: Any, call: Callable[..., Any], *arguments: Any) -> tuple[Any, str]:
    """(what the call returns, "") or (None, why not): one counter that is missing must not cost the others."""
    try:
        return call(*arguments), ""
    except nvml.NVMLError as error:
        return None, sentence(error)


def handle_of(nvml: Any, device: int | str | None = None) -> Any:
    """NVML's handle of a device: an index of NVML's, a UUID ("GPU-..."), or None for the CUDA device that torch uses.

    CUDA_VISIBLE_DEVICES renumbers what CUDA sees and not what NVML sees, so torch's device is found by its UUID.
    Raises NvmlUnavailableError.
    """
    wanted = _uuid_in_use() if device is None else device
    try:
        if isinstance(wanted, str):
            return nvml.nvmlDeviceGetHandleByUUID(wanted)
        return nvml.nvmlDeviceGetHandleByIndex(wanted)
    except nvml.NVMLError as error:
        raise NvmlUnavailableError(f"device {wanted!r}: {sentence(error)}") from error


def _uuid_in_use() -> str | int:
    """UUID of torch's current CUDA device; NVML's device 0 where torch is not loaded or sees none."""
    import sys

    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return 0
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    if uuid is None:
        return torch.cuda.current_device()
    text = str(uuid)
    return text if text.startswith(("GPU-", "MIG-")) else f"GPU-{text}"
