"""Measure the roofs of the CUDA device in use. Each is the best of a few ways of doing the work; data are random, never zeros."""

import datetime
import math
import statistics
from collections.abc import Callable, Iterable
from importlib import metadata
from typing import Any

from ..timing import time_calls
from .roofs import Roof, Roofs, size_words

STREAM_BYTES = 2**30  # far beyond any L2
REPEATS = 15
BLOCKS = ((1024, 4), (2048, 4), (4096, 4), (4096, 8), (8192, 8), (16384, 8))  # int32 per program, warps
SHAPES = ((8192, 8192, 8192), (4096, 8192, 8192), (8192, 16384, 8192), (16384, 8192, 8192))  # M, N, K
FINE_UNTIL = 64 * 2**20

Tell = Callable[[str], None]
Way = tuple[str, Callable[[], Any]]  # (how, a call that does the work once)


def curve_sizes(largest_bytes: int = STREAM_BYTES) -> list[int]:
    """4 KiB to the largest: 1, 1.25 and 1.5 times each power of two up to 64 MiB, as far as multiples of 4 KiB, then powers."""
    sizes = []
    for power in range(12, largest_bytes.bit_length()):
        steps = (4, 5, 6) if 2**power < FINE_UNTIL else (4,)
        sizes += [size for step in steps if (size := 2**power * step // 4) % 4096 == 0 and size <= largest_bytes]
    return sizes


def setting() -> dict[str, str | None]:
    """What roofs belong to: device, driver, torch and Triton."""
    import torch

    return {
        "device": torch.cuda.get_device_name(),
        "driver": _nvml(lambda nvml, _: nvml.nvmlSystemGetDriverVersion()),
        "torch": str(torch.__version__),
        "triton": _version("triton"),
    }


def measure_roofs(tell: Tell | None = print) -> Roofs:
    """Measure all of them, with a line of progress for each. Raises RuntimeError without a CUDA device."""
    import torch

    from ..workloads.read_curve import measure_read_curve

    if not torch.cuda.is_available():
        raise RuntimeError("roofs are measured on a CUDA device, and this machine shows none")
    tell, notes = tell or (lambda line: None), []
    here = setting()
    tell(f"measuring the roofs of {here['device']}, once; they are kept for the next time")
    copy = _streams("copy", _copies(), 2, tell)
    read = _streams("read", _reads(), 1, tell)
    products = {}
    for kind in ("bf16", "fp16", "fp8"):
        products[kind] = _product(kind, tell, notes)
    clocks = _clocks_under_load()
    torch.cuda.empty_cache()
    # the curve keeps two places for its largest read in a quarter of the free memory
    room = 2 ** int(math.log2(torch.cuda.mem_get_info()[0] // 8))
    curve = measure_read_curve(curve_sizes(min(STREAM_BYTES, room)))
    small, large = curve["seconds"][0], curve["gb_per_s"][-1]
    largest = size_words(int(curve["bytes"][-1]))
    tell(f"read curve    {small * 1e6:7.2f} us for 4 KiB ... {large:7.0f} GB/s for {largest}, {len(curve['bytes'])} sizes")
    return Roofs(
        **here,
        date=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        clocks=clocks,
        copy_gb_per_s=copy,
        read_gb_per_s=read,
        **{f"{kind}_tflops": roof for kind, roof in products.items()},
        read_curve=tuple((int(size), seconds) for size, seconds in zip(curve["bytes"], curve["seconds"], strict=True)),
        read_spread=tuple((low, high) for low, high in curve["spread"]),
        notes=tuple(notes),
    )


def best_roof(ways: Iterable[Way], work: float, measure: Callable[[Callable[[], Any]], tuple[float, ...]]) -> Roof:
    """The way with the highest median rate. work: bytes in GB or FLOPs in TFLOP of one call; measure: seconds of each repeat."""
    found = []
    for how, call in ways:
        rates = [work / seconds for seconds in measure(call)]
        found.append(Roof(statistics.median(rates), min(rates), max(rates), how))
    return max(found, key=lambda roof: roof.median)


def _seconds(call: Callable[[], Any]) -> tuple[float, ...]:
    return time_calls(call, repeats=REPEATS).seconds


def _stream_words() -> int:
    """int32 of the tensor that is copied or read: 1 GiB, or an eighth of the free memory where that is less."""
    import torch

    return min(STREAM_BYTES, torch.cuda.mem_get_info()[0] // 8) // 4 // 16384 * 16384


def _streams(name: str, ways: tuple[int, list[Way]], passes: int, tell: Tell) -> Roof:
    """A copy passes each byte twice, a read once."""
    moved_bytes, calls = ways
    roof = best_roof(calls, passes * moved_bytes / 1e9, _seconds)
    tell(f"{name:<14}{roof.median:7.0f} GB/s ({roof.low:.0f} to {roof.high:.0f}), {roof.how}")
    return roof


def _copies() -> tuple[int, list[Way]]:
    import torch

    from .roofs_kernels import copy_words_kernel

    words = _stream_words()
    source = torch.randint(-(2**31), 2**31 - 1, (words,), device="cuda", dtype=torch.int32)
    target = torch.empty_like(source)

    def copy(block: int, warps: int) -> Callable[[], Any]:
        return lambda: copy_words_kernel[(-(-words // block),)](source, target, words, BLOCK=block, num_warps=warps)

    ways = [(f"Triton, {block} int32 per block, {warps} warps", copy(block, warps)) for block, warps in BLOCKS]
    return 4 * words, [("torch copy_", lambda: target.copy_(source)), *ways]


def _reads() -> tuple[int, list[Way]]:
    import torch

    from ..workloads.read_curve_kernel import read_kernel

    words = _stream_words()
    source = torch.randint(-(2**31), 2**31 - 1, (words,), device="cuda", dtype=torch.int32)
    sums = torch.empty(-(-words // BLOCKS[0][0]), device="cuda", dtype=torch.int32)

    def read(block: int, warps: int) -> Callable[[], Any]:
        return lambda: read_kernel[(-(-words // block),)](source, sums, words, BLOCK=block, num_warps=warps)

    return 4 * words, [(f"Triton, {block} int32 per block, {warps} warps", read(block, warps)) for block, warps in BLOCKS]


def _product(kind: str, tell: Tell, notes: list[str]) -> Roof | None:
    """The best of a few shapes, or None and a note."""
    lacking = _lacks(kind)
    if not lacking:
        try:
            roofs = [best_roof(_ways(kind, *shape), 2 * math.prod(shape) / 1e12, _seconds) for shape in SHAPES]
        except RuntimeError as error:  # an old cuBLAS, too little memory
            lacking = f"the {kind} product failed: {str(error).splitlines()[0][:120]}"
    if lacking:
        notes.append(lacking)
        tell(f"{kind} product  not measured: {lacking}")
        return None
    roof = max(roofs, key=lambda one: one.median)
    name = f"{kind} product"
    tell(f"{name:<14}{roof.median:7.0f} TFLOP/s ({roof.low:.0f} to {roof.high:.0f}), {roof.how}")
    return roof


def _lacks(kind: str) -> str:
    """Why the device cannot multiply this type with its matrix units, or ""."""
    import torch

    least = {"bf16": (8, 0), "fp16": (7, 0), "fp8": (8, 9)}[kind]
    if torch.version.hip or torch.cuda.get_device_capability() >= least:
        return ""
    return f"{torch.cuda.get_device_name()} has no {kind} arithmetic"


def _ways(kind: str, m: int, n: int, k: int) -> list[Way]:
    import torch

    if kind != "fp8":
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[kind]
        a, b = torch.randn(m, k, device="cuda", dtype=dtype), torch.randn(k, n, device="cuda", dtype=dtype)
        out = torch.empty(m, n, device="cuda", dtype=dtype)
        return [(f"torch.matmul {m} x {n} x {k}", lambda: torch.matmul(a, b, out=out))]
    arch = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "gcnArchName", "")
    fp8 = torch.float8_e4m3fnuz if arch.startswith("gfx94") else torch.float8_e4m3fn
    a = torch.randn(m, k, device="cuda", dtype=torch.bfloat16).to(fp8)
    b = torch.randn(n, k, device="cuda", dtype=torch.bfloat16).to(fp8).t()  # the library wants columns in a row
    one = torch.ones((), device="cuda")

    def scaled(fast: bool) -> Callable[[], Any]:
        return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast)

    name = f"torch._scaled_mm {m} x {n} x {k}"
    return [(f"{name}, fast accumulation", scaled(True)), (f"{name}, fp32 accumulation", scaled(False))]


def _clocks_under_load() -> dict[str, int] | None:
    """MHz of SMs and memory while products run, and the most that each may be; None where NVML does not say."""
    import torch

    a = torch.randn(4096, 4096, device="cuda", dtype=torch.float16)
    for _ in range(60):
        torch.matmul(a, a)

    def read(nvml: Any, handle: Any) -> dict[str, int]:
        sm, memory = nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM
        return {
            "sm_mhz": nvml.nvmlDeviceGetClockInfo(handle, sm),
            "memory_mhz": nvml.nvmlDeviceGetClockInfo(handle, memory),
            "sm_max_mhz": nvml.nvmlDeviceGetMaxClockInfo(handle, sm),
            "memory_max_mhz": nvml.nvmlDeviceGetMaxClockInfo(handle, memory),
        }

    clocks = _nvml(read)
    torch.cuda.synchronize()
    return clocks


def _nvml(ask: Callable[[Any, Any], Any]) -> Any:
    """What ask(pynvml, handle of the current device) gives, or None: NVML is a help here, not a condition."""
    from ..telemetry import handle_of, session

    try:
        with session() as nvml:
            return ask(nvml, handle_of(nvml))
    except Exception:
        return None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
