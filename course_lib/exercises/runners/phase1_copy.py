"""Exercise 1.4: calls of the learner's copy kernel, and what it does with a gigabyte on a GPU.

Where there is a GPU the tensors lie on it, so that the kernel is compiled; elsewhere it is interpreted.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__course_runner__ = True  # messages name the learner's line, not one of this file

COPY_BYTES = 2**30  # far beyond any L2: reading it again finds nothing in the cache
FAR = 2**31  # elements; one byte each
TAIL_BYTES = 2**16


def copy_into(entry: Any, case: dict) -> Any:
    """The learner's copy, into a buffer of the judge's."""
    if torch.cuda.is_available():
        case["x"], case["out"] = case["x"].cuda(), case["out"].cuda()
    return entry(case["x"], case["out"])


def copy_between_neighbours(entry: Any, case: dict) -> dict:
    """x and out are views in the middle of longer buffers, whose other elements hold case["poison"]."""
    x, before, poison = case["x"], case["before"], case["poison"]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    source, target = (torch.full((before + x.numel() + case["after"],), poison, dtype=x.dtype, device=device) for _ in range(2))
    place = slice(before, before + x.numel())
    source[place] = x
    with _Writes(target) as writes:
        returned = entry(source[place], target[place])
    parts = {"out": target[place], "before": target[:before], "after": target[place.stop :]}
    return {"returned": returned, "torch_wrote": sorted(writes.names), **parts}


class _Writes(TorchDispatchMode):
    """Names of the torch operations that write values to the memory of `target` while it is entered."""

    def __init__(self, target: torch.Tensor) -> None:
        super().__init__()
        self.names: set[str] = set()
        self._memory = target.untyped_storage().data_ptr()

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, name = kwargs or {}, operation.overloadpacket.__name__
        if name not in ("zero_", "fill_"):
            declared = enumerate(operation._schema.arguments)
            places = [(i, a.name) for i, a in declared if a.alias_info is not None and a.alias_info.is_write]
            written = [kwargs.get(named, args[i] if i < len(args) else None) for i, named in places]
            self.names.update(name for tensor in written if self._holds(tensor))
        return operation(*args, **kwargs)

    def _holds(self, written: Any) -> bool:
        if isinstance(written, (list, tuple)):
            return any(map(self._holds, written))
        return isinstance(written, torch.Tensor) and written.untyped_storage().data_ptr() == self._memory


def copy_refused(entry: Any, case: dict) -> dict:
    """What the learner's function says about tensors that it is to refuse; None when it copied.

    "instead" is what came up in the place of a ValueError: an assertion, or the KernelMistake of a kernel that was launched.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    x, out = (_laid_out(case[name].to(device), case["layout"].get(name, "")) for name in ("x", "out"))
    try:
        entry(x, out)
    except ValueError as error:
        return {"refused": str(error), "instead": ""}
    except Exception as error:
        if isinstance(error, AssertionError) or hasattr(error, "place"):
            return {"refused": None, "instead": f"{type(error).__name__}: {error}"}
        raise
    return {"refused": None, "instead": ""}


def _laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    if layout == "every second":
        return tensor[::2]
    return tensor.T if layout == "transposed" else tensor


def copy_on_this_device(entry: Any, case: dict) -> dict:
    """Time the learner's copy of 1 GiB against torch's, in turns; x has fresh content before each and is compared after it."""
    from course_lib.workloads.beside_peer import Peer, beside_peer

    peer = Peer("torch's copy_", 2 * COPY_BYTES / 1e9, "GB/s", "hbm_gb_per_s")
    evidence = beside_peer(case, peer, lambda: _turns(entry))
    return evidence if "blocked" in evidence else evidence | {"far": _beyond_int32(entry)}


def _turns(entry: Any) -> Any:
    from course_lib.workloads.beside_peer import take_turns

    x = torch.empty(COPY_BYTES // 4, dtype=torch.int32, device="cuda").random_()
    ours, theirs = torch.empty_like(x), torch.empty_like(x)

    def fresh() -> None:
        ours.zero_()
        x.random_()

    return take_turns(
        lambda: entry(x, ours), lambda: theirs.copy_(x), fresh=fresh, is_right=lambda: torch.equal(x, ours)
    )


def _beyond_int32(entry: Any) -> str:
    """Copy a little more than 2**31 bytes -> "right", "wrong", or why it was not tried.

    Before each tensor lie 2**31 bytes of ours: an offset that wraps around to a negative one meets memory that is there.
    """
    n = FAR + TAIL_BYTES
    if torch.cuda.mem_get_info()[0] < 2 * (FAR + n) + 2**30:
        return f"not tried: {(2 * (FAR + n) + 2**30) / 1e9:.1f} GB must be free"
    source, target = (torch.zeros(FAR + n, dtype=torch.int8, device="cuda") for _ in range(2))
    x, out = source[FAR:], target[FAR:]
    x.random_(1, 100)
    entry(x, out)
    torch.cuda.synchronize()
    parts = [slice(first, first + 2**28) for first in range(0, n, 2**28)]
    return "right" if all(torch.equal(x[part], out[part]) for part in parts) and not target[:FAR].any() else "wrong"
