"""Empty the L2 cache between two calls, so that a kernel reads from memory what it would read from memory in a model."""

from collections.abc import Callable

TIMES_L2 = 4  # caches replace by guess, not strictly the oldest line: once over is not enough
INFINITY_CACHE_BYTES = 256 * 2**20  # of AMD's MI300 chips, behind an L2 that ROCm reports as 4 MiB


def l2_flusher(cache_bytes: int | None = None, device: str = "cuda") -> Callable[[], None]:
    """A call that pushes everything else out of L2. It queues two kernels on the current stream and changes no other
    tensor.

    cache_bytes  size of the cache; by default what the driver reports for the current device

    The buffer, 4 times the cache, is written; then its first half is read, because lines that were written still have to go to
    memory, and the timed kernel would pay for them.
    """
    import torch

    if cache_bytes is None:
        if not torch.cuda.is_available():
            raise RuntimeError("there is no CUDA device whose L2 could be flushed; give cache_bytes, or see `labs doctor`")
        cache_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
        if torch.version.hip:
            cache_bytes = max(cache_bytes, INFINITY_CACHE_BYTES)
    if cache_bytes <= 0:
        raise ValueError(f"cache_bytes must be positive, got {cache_bytes}; give the size of the cache in bytes")
    words = -(-TIMES_L2 * cache_bytes // 4)
    buffer = torch.empty(words, dtype=torch.float32, device=device)
    half, largest = buffer[: words // 2], torch.empty((), dtype=torch.float32, device=device)

    def flush() -> None:
        buffer.zero_()
        torch.amax(half, 0, out=largest)

    return flush
