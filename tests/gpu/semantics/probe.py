"""A probe: one launch whose outputs say what Triton does, and how closely another way of running it has to agree.

The same list runs compiled on a device, where its outputs are recorded, and interpreted on a CPU, where they are compared.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .bits import FLOATS, Bits, storage

POISON = 0xA5  # each byte of an output before the launch: an element that nobody writes stays visible


@dataclass(frozen=True)
class Exact:
    """Bit for bit; the NaNs of a type of 16 bits or more count as one (which fp8 code is written for a NaN counts).

    where  inputs -> bool for each element: the others are recorded, not compared, and `why` says why
    """

    where: Callable[[Sequence[Bits]], np.ndarray] | None = None
    why: str = ""


@dataclass(frozen=True)
class Ulp:
    """NaN and inf where the device has them, else within `ulp` units in the last place of the output's type or within `floor`."""

    ulp: int
    floor: float = 0.0


@dataclass(frozen=True)
class Within:
    """|difference| <= eps * scale, with scale the magnitudes that went into each element; NaN and inf where the device's are.

    A sum's rounding is proportional to what was added, not to what is left of it.
    """

    eps: float
    scale: Callable[[Sequence[Bits]], np.ndarray]


@dataclass(frozen=True)
class Open:
    """Recorded, not compared: neither Triton nor PTX promises an outcome, and `why` says so."""

    why: str


Rule = Exact | Ulp | Within | Open


@dataclass(frozen=True)
class Probe:
    """`kernel[grid](*inputs, *outputs, **meta)`.

    outputs  each (dtype, shape), filled with POISON, or the Bits that it holds before the launch (atomics)
    truth    inputs -> float64, what exact arithmetic gives: only to measure how far a device is from it
    """

    name: str
    kernel: Any
    inputs: Callable[[], Sequence[Bits]]
    outputs: Sequence[tuple[str, tuple[int, ...]] | Bits]
    meta: dict[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] = (1,)
    rule: Rule = field(default_factory=Exact)
    truth: Callable[[Sequence[Bits]], np.ndarray] | None = None
    scalars: tuple[Any, ...] = ()  # numbers passed after the outputs


def run(probe: Probe, device: str) -> list[Bits]:
    """Launch it on tensors of this device -> its outputs."""
    if probe.kernel.__class__.__name__ == "JITFunction":
        _allocator(device)
    tensors = [tensor(bits, device) for bits in probe.inputs()]
    starts = [start if isinstance(start, Bits) else poisoned(*start) for start in probe.outputs]
    outputs = [tensor(bits, device) for bits in starts]
    probe.kernel[probe.grid](*tensors, *outputs, *probe.scalars, **probe.meta)
    return [Bits(start.dtype, bits_of(out).view(start.data.dtype)) for start, out in zip(starts, outputs, strict=True)]


def poisoned(dtype: str, shape: tuple[int, ...]) -> Bits:
    return Bits(dtype, np.full((*shape, storage(dtype).itemsize), POISON, np.uint8).view(storage(dtype))[..., 0])


def tensor(bits: Bits, device: str) -> Any:
    """Bits -> a torch tensor of the type, without any conversion of numbers."""
    import torch

    names = {"fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "int1": "bool",
             "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2"}  # fmt: skip
    signed = np.ascontiguousarray(bits.data).view(f"i{bits.data.itemsize}").copy()
    return torch.from_numpy(signed).view(getattr(torch, names.get(bits.dtype, bits.dtype))).to(device)


def bits_of(value: Any) -> np.ndarray:
    import torch

    whole = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[value.element_size()]
    return value.cpu().view(whole).numpy()


def beside(probe: Probe) -> np.ndarray | None:
    """What the rule takes from the inputs, one for each element of an output: the scale of Within, the mask of Exact."""
    if isinstance(probe.rule, Within):
        return np.asarray(probe.rule.scale(probe.inputs())).ravel()
    if isinstance(probe.rule, Exact) and probe.rule.where is not None:
        return np.asarray(probe.rule.where(probe.inputs()), bool).ravel()
    return None


def difference(rule: Rule, want: Bits, got: Bits, along: np.ndarray | None = None) -> str:
    """ "" where `got` agrees with the device's `want`, else a sentence with the first element that does not. along: `beside`."""
    if isinstance(rule, Open):
        return ""
    a, b = want.canonical().ravel(), got.canonical().ravel()
    if a.shape != b.shape:
        return f"{b.size} elements in place of {a.size}"
    wrong = a != b
    if not isinstance(rule, Exact) and want.dtype in FLOATS:
        wrong &= ~_near(rule, Bits(want.dtype, a), Bits(want.dtype, b), along)
    elif isinstance(rule, Exact) and rule.where is not None and along is not None:
        wrong &= along.ravel()
    if not wrong.any():
        return ""
    at = int(np.flatnonzero(wrong)[0])
    w, g = want.values().ravel()[at], got.values().ravel()[at]
    digits = 2 * a.itemsize
    where = f"[{at}]: device {w} ({int(a[at]):#0{digits + 2}x}), here {g} ({int(b[at]):#0{digits + 2}x})"
    return f"{int(wrong.sum())} of {a.size} elements differ, first {where}"


def _near(rule: Ulp | Within, want: Bits, got: Bits, scale: np.ndarray | None) -> np.ndarray:
    w, g = want.values(), got.values()
    finite = np.isfinite(w) & np.isfinite(g)
    with np.errstate(invalid="ignore"):
        gap = np.where(finite, np.abs(w - g), np.inf)
    if isinstance(rule, Within):
        return finite & (gap <= rule.eps * np.abs(scale).ravel())
    return finite & ((ulps(want, got) <= rule.ulp) | (gap <= rule.floor))


def ulps(want: Bits, got: Bits) -> np.ndarray:
    """How many codes of the type lie between the two, zero being one code."""
    ordered = []
    for bits in (want, got):
        code = bits.data.astype(np.int64)
        top = 1 << (8 * bits.data.itemsize - 1)
        ordered.append(np.where(code & top, top - code, code) if top < 1 << 62 else code)
    return np.abs(ordered[0] - ordered[1])


def _allocator(device: str) -> None:
    """Descriptors made inside a kernel live in memory that the host provides."""
    import torch
    import triton

    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=device))
