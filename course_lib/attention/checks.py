"""What attention asks of its inputs, and errors that name the value, the limit and the next step."""

import itertools
import math
from contextlib import AbstractContextManager, nullcontext
from numbers import Real

import torch
from torch import Tensor

from .tiles import has_tile

HEAD_DIMS = (64, 80, 96, 128, 256)  # of the kernels; 80 and 96 are padded to 128 inside a tile
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
IMPLEMENTATIONS = ("auto", "triton", "dense")


def check_inputs(q: Tensor, k: Tensor, v: Tensor, *, packed: bool) -> None:
    """Shapes, heads, dtypes, devices and strides of q, k, v. Raises ValueError or TypeError; changes nothing."""
    axes = ("rows", "heads", "head_dim") if packed else ("batch", "rows", "heads", "head_dim")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != len(axes):
            raise ValueError(f"{name} must be [{', '.join(axes)}], got {[*tensor.shape]}")
    if k.shape != v.shape:
        raise ValueError(f"k and v must have one shape, got {[*k.shape]} and {[*v.shape]}")
    if not packed and q.shape[0] != k.shape[0]:
        raise ValueError(f"q holds a batch of {q.shape[0]} and k one of {k.shape[0]}; they must be equal")
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"q has head_dim {q.shape[-1]} and k has {k.shape[-1]}; they must be equal")
    if not q.shape[-1]:
        raise ValueError(f"q, k and v have head_dim 0, got {[*q.shape]}; a score needs 1 at least")
    q_heads, kv_heads = q.shape[-2], k.shape[-2]
    if kv_heads == 0 or q_heads % kv_heads:
        raise ValueError(f"{q_heads} query heads do not share {kv_heads} KV heads evenly; make q_heads a multiple of kv_heads")
    check_alike(q, k, v)


def check_alike(q: Tensor, k: Tensor, v: Tensor) -> None:
    """One dtype that attention takes, one device. K and V of a paged cache too."""
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(f"q, k and v must have one dtype, got {q.dtype}, {k.dtype} and {v.dtype}; cast them to one")
    if q.dtype not in DTYPES:
        raise TypeError(f"attention takes {', '.join(map(str, DTYPES))}, got {q.dtype}; cast q, k and v")
    if not q.device == k.device == v.device:
        raise ValueError(f"q, k and v must be on one device, got {q.device}, {k.device} and {v.device}; move them with .to()")


def check_strides(**tensors: Tensor) -> None:
    """The kernels read whole vectors: the last axis has stride 1. Batch, rows and heads may lie anywhere."""
    for name, tensor in tensors.items():
        if tensor.stride(-1) != 1 and tensor.shape[-1] > 1 and tensor.numel():
            raise ValueError(
                f"{name} has strides {tensor.stride()}, and its last one must be 1: a kernel reads vectors of "
                f"{tensor.shape[-1]} elements that lie side by side; pass {name}.contiguous()"
            )


def check_out(out: Tensor | None, q: Tensor, k: Tensor, v: Tensor, *, dtype: torch.dtype | None = None) -> None:
    """`out`, where a caller owns the result: q's shape, dtype and device, last stride 1, and memory that nobody else reads.

    dtype   in place of q's
    """
    if out is None:
        return
    if out.shape != q.shape or out.dtype != (dtype or q.dtype) or out.device != q.device:
        raise ValueError(
            f"out must be {[*q.shape]} {q.dtype} on {q.device}, as q is; got {[*out.shape]} {out.dtype} on {out.device}"
        )
    check_strides(out=out)
    check_memory(out, q, k, v)


def check_memory(out: Tensor, q: Tensor, k: Tensor, v: Tensor) -> None:
    """Every element of `out` in a place of its own, none of it in k or v. `out` may be q itself: who writes a row has read it."""
    if any(stride == 0 and size > 1 for stride, size in zip(out.stride(), out.shape, strict=True)):
        raise ValueError(f"out has strides {out.stride()}: several of its rows are one place in memory; pass a tensor of its own")
    for name, read in (("q", q), ("k", k), ("v", v)):
        itself = name == "q" and (out.data_ptr(), out.stride()) == (read.data_ptr(), read.stride())
        (first, end), (read_first, read_end) = _memory(out), _memory(read)
        if not itself and first < read_end and read_first < end:
            raise ValueError(f"out and {name} share memory, and {name} is read while out is written; pass another out")


def _memory(x: Tensor) -> tuple[int, int]:
    """First byte and end of what x spans; nothing for one without elements or data."""
    if not x.numel() or x.device.type == "meta":
        return 0, 0
    last = sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (last + 1) * x.element_size()


def needs_gradient(*tensors: Tensor) -> bool:
    """Whether autograd would want to go back through these."""
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def check_gradient(*tensors: Tensor) -> None:
    """The kernels write results that autograd knows nothing of: a gradient would be missing without a word."""
    if needs_gradient(*tensors):
        raise RuntimeError(
            "the kernels have no backward pass, and q, k or v requires a gradient; use torch.no_grad(), or impl='dense'"
        )


def check_scale(scale: float | None, head_dim: int) -> float:
    """The scale of the scores: by default head_dim ** -0.5. The kernels look for the largest raw score, so it is positive."""
    if scale is None:
        return head_dim**-0.5
    if isinstance(scale, bool) or not (isinstance(scale, Real) and math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale must be a finite number above 0, got {scale!r}; None means head_dim ** -0.5")
    return float(scale)


def check_impl(impl: str, q: Tensor, k: Tensor, v: Tensor, *, also: tuple[str, ...] = ()) -> str:
    """For "auto": "triton" on a GPU with tensor cores for the dtype, else "dense". What is forced and cannot run raises.

    The kernels have no backward pass, so what requires a gradient goes to "dense".
    also  further names that the caller knows, given back as they are
    """
    if impl not in (*IMPLEMENTATIONS, *also):
        raise ValueError(f"impl must be one of {', '.join((*IMPLEMENTATIONS, *also))}, got {impl!r}")
    if impl == "auto":
        return "triton" if _has_kernels(q) and not needs_gradient(q, k, v) else "dense"
    if impl == "triton":
        check_gradient(q, k, v)
        if q.shape[-1] not in HEAD_DIMS:
            raise ValueError(f"the kernels take head_dim {', '.join(map(str, HEAD_DIMS))}, got {q.shape[-1]}; use impl='dense'")
        if q.dtype == torch.float32 and q.is_cuda:
            raise TypeError("on a GPU the kernels take bfloat16 and float16, got float32; cast q, k and v, or use impl='dense'")
    return impl


def check_launch(kernel: object, q: Tensor) -> None:
    """A compiled kernel cannot read CPU tensors. RuntimeError says so before Triton's own message does."""
    if not q.is_cuda and type(kernel).__name__ == "JITFunction":
        raise RuntimeError(
            f"impl='triton' runs on CPU tensors only in Triton's interpreter, which is off; q is on {q.device}. "
            "Make `from course_lib import lab` the first import on a machine without a GPU, or use impl='dense'"
        )


def check_lengths(cu: Tensor, name: str, rows: int, longest: int, device: torch.device) -> None:
    """cu: int32 [batch + 1], where each sequence starts. Values are looked at on the CPU only: on a GPU that would be a wait."""
    if cu.dtype != torch.int32 or cu.dim() != 1 or cu.numel() == 0:
        raise TypeError(f"{name} must be int32 [batch + 1], got {cu.dtype} {[*cu.shape]}")
    if cu.device != device:
        raise ValueError(f"{name} is on {cu.device} and q on {device}; move it there")
    if cu.device.type != "cpu":
        return
    starts = cu.tolist()
    lengths = [after - before for before, after in itertools.pairwise(starts)]
    if starts[0] < 0 or starts[-1] > rows or any(length < 0 for length in lengths):
        raise ValueError(f"{name} must rise from 0 to at most {rows}, the rows there are; got {starts}")
    if lengths and max(lengths) > longest:
        raise ValueError(f"{name} holds a sequence of {max(lengths)} rows, and the longest was given as {longest}")


def _has_kernels(q: Tensor) -> bool:
    """Tensor cores for the dtype, and a tile: head_dim 256 has none on an A100."""
    if not q.is_cuda or q.dtype == torch.float32 or q.shape[-1] not in HEAD_DIMS:
        return False
    return has_tensor_cores(q.device) and has_tile(q.shape[-1], capability_of(q))


def launching_on(x: Tensor) -> AbstractContextManager[object]:
    """The device of x made current: Triton launches on the current device, wherever the tensors are."""
    return torch.cuda.device(x.device) if x.is_cuda else nullcontext()


def has_tensor_cores(device: torch.device) -> bool:
    """That Triton uses: from an A100 on. On a T4 a product of tiles would become scalar multiply-adds."""
    return device.type == "cuda" and _capability(device) >= (8, 0)


def capability_of(q: Tensor) -> tuple[int, int]:
    """Of q's device."""
    return _capability(q.device)


def _capability(device: torch.device) -> tuple[int, int]:
    """AMD's numbers mean something else: its GPUs take the tiles of an A100."""
    return torch.cuda.get_device_capability(device) if torch.version.hip is None else (8, 0)
