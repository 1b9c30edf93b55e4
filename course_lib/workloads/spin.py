"""Keep a GPU busy without any work: one block that looks at the clock. A "utilisation" calls that 100%."""

import torch

MAX_SECONDS = 60.0  # a kernel cannot be interrupted


def spin(seconds: float) -> torch.Tensor:
    """Launch one block of one warp that spins for `seconds`; returns at once -> int64 [1] on the device, the turns of its loop.

    The tensor is written when the kernel ends. Raises ValueError for a time outside 0..60 s, RuntimeError without a CUDA device.
    """
    if not 0 < seconds <= MAX_SECONDS:
        raise ValueError(f"spin takes more than 0 and at most {MAX_SECONDS:g} seconds, got {seconds!r}; nobody can stop a kernel")
    if not torch.cuda.is_available():
        raise RuntimeError("spin needs a CUDA device, and this machine shows none; see recorded('telemetry_loops') for an H200's")
    from .spin_kernel import spin_kernel

    turns = torch.zeros(1, dtype=torch.int64, device="cuda")
    spin_kernel[(1,)](turns, int(seconds * 1e9), num_warps=1)
    return turns
