"""What paged attention refuses, with the numbers: shapes, dtypes, strides, lengths and block tables.

Shapes, dtypes and strides stand on the host and are checked in every call. Lengths and block tables are values: to look at them
on a GPU is to wait for it, so `check_lengths` and `check_tables` run where the values are on the host already (in a plan, on the
CPU), and for callers who ask.
"""

from typing import Any

from .checks import (
    HEAD_DIMS,
    IMPLEMENTATIONS,
    check_alike,
    check_gradient,
    check_launch,
    check_out,
    check_scale,
    has_tensor_cores,
    needs_gradient,
)

__all__ = ["check_gradient", "check_out", "check_scale"]  # the same for every kind of attention
BLOCK_SIZES = (16, 32, 64)


def choose_impl(impl: str, q: Any, block_size: int, *others: Any) -> str:
    """ "auto" -> "triton" on a GPU with tensor cores for what the kernel takes, else "dense" -> one of the two.

    "triton" on a CPU runs in the interpreter; RuntimeError where that is off, or where q or one of the others needs a gradient.
    """
    import torch

    if impl not in IMPLEMENTATIONS:
        raise ValueError(f"impl is 'auto', 'triton' or 'dense', got {impl!r}")
    if impl == "auto":
        takes = q.dtype in (torch.bfloat16, torch.float16) and q.shape[-1] in HEAD_DIMS and block_size in BLOCK_SIZES
        return "triton" if takes and has_tensor_cores(q.device) and not needs_gradient(q, *others) else "dense"
    if impl == "triton":
        check_gradient(q, *others)
    if impl == "triton" and not q.is_cuda:
        from .decode_kernel import decode_kernel

        check_launch(decode_kernel, q)
    return impl


def check_heads(q_heads: int, kv_heads: int) -> None:
    if kv_heads < 1 or q_heads < 1 or q_heads % kv_heads:
        fits = [n for n in range(1, q_heads + 1) if q_heads % n == 0]
        raise ValueError(f"{q_heads} query heads do not divide over {kv_heads} KV heads; with {q_heads} use one of {fits}")


def check_sizes(head_dim: int, block_size: int | None) -> None:
    if head_dim not in HEAD_DIMS:
        raise ValueError(f"head_dim {head_dim} is not supported by the kernel; use one of {HEAD_DIMS}, or impl='dense'")
    if block_size is not None and block_size not in BLOCK_SIZES:
        raise ValueError(f"block_size {block_size} is not supported by the kernel; use one of {BLOCK_SIZES}, or impl='dense'")


def check_group(group: int, head_dim: int) -> None:
    """All query heads of a KV head are rows of one tile."""
    from .decode_tile import most_rows

    if group > most_rows(head_dim):
        limit = f"at most {most_rows(head_dim)} with head_dim {head_dim}"
        raise ValueError(f"the kernel takes {limit} query heads for each KV head, got {group}; use impl='dense'")


def check_dtype(dtype: Any, device: Any) -> None:
    import torch

    if dtype not in (torch.bfloat16, torch.float16) and not (dtype is torch.float32 and device.type == "cpu"):
        takes = "bfloat16 and float16 (float32 in the interpreter)"
        raise TypeError(f"the kernel takes {takes}, got {dtype} on {device}; cast, or impl='dense'")


def check_cache(q: Any, k: Any, v: Any, tables: Any | None) -> None:
    """q [..., q_heads, head_dim] with a pool [num_blocks, block_size, kv_heads, head_dim] and tables [rows, max_blocks]."""
    import torch

    if k.ndim != 4 or k.shape != v.shape:
        shape = "[num_blocks, block_size, kv_heads, head_dim]"
        raise ValueError(f"K and V are both {shape}, got {tuple(k.shape)} and {tuple(v.shape)}")
    if q.shape[-1] != k.shape[3]:
        raise ValueError(f"head_dim of q is {q.shape[-1]}, that of K and V {k.shape[3]}; they must be the same")
    check_heads(q.shape[-2], k.shape[2])
    check_alike(q, k, v)
    if k.stride(3) != 1 or k.stride() != v.stride():
        raise ValueError(
            f"K and V are read with a head_dim stride of 1 and the same strides, got {k.stride()} and {v.stride()}; "
            "keep the cache contiguous (a transposed view is none)"
        )
    if q.stride(-1) != 1:
        raise ValueError(f"q is read with a head_dim stride of 1, got strides {q.stride()}; pass q.contiguous()")
    if tables is None:
        return
    if tables.ndim != 2 or tables.dtype != torch.int32 or tables.device != q.device:
        raise ValueError(
            f"block tables are int32 [rows, max_blocks] on {q.device}, "
            f"got {tables.dtype} {tuple(tables.shape)} on {tables.device}"
        )
    if tables.shape[1] > 1 and tables.stride(1) != 1:
        raise ValueError(f"block tables are read with a column stride of 1, got {tables.stride()}; pass tables.contiguous()")


def host_lengths(lengths: Any) -> Any:
    """Lengths as numpy int64 [rows]. A tensor on a GPU is copied, which waits for the GPU."""
    import numpy as np
    import torch

    if isinstance(lengths, torch.Tensor):
        lengths = lengths.cpu().numpy()
    found = np.asarray(lengths)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ValueError(f"kv_lengths are whole numbers [rows], got {found.dtype} {found.shape}")
    return found.astype(np.int64)


def check_lengths(lengths: Any, rows: int, capacity: int, what: str) -> None:
    """lengths: numpy [n]. capacity: tokens that a row can hold; what: why ("128 blocks of 16")."""
    if len(lengths) != rows:
        raise ValueError(f"{len(lengths)} kv_lengths for {rows} rows; give one for each row")
    if not len(lengths):
        return
    row = int(lengths.argmax())
    if lengths[row] > capacity:
        raise ValueError(f"row {row} has {lengths[row]} tokens, and its table holds {capacity} ({what}); give longer tables")
    row = int(lengths.argmin())
    if lengths[row] < 0:
        raise ValueError(f"row {row} has {lengths[row]} tokens; a length is 0 or more")


def check_tables(block_tables: Any, kv_lengths: Any, num_blocks: int, block_size: int) -> None:
    """Raise ValueError for the first live entry that names no block of the pool. On a GPU this waits for the GPU.

    Entries past a row's last token may hold anything: 33 tokens in blocks of 16 have 3 live entries.
    """
    import numpy as np

    tables = block_tables.cpu().numpy()
    lengths = host_lengths(kv_lengths)
    check_lengths(lengths, tables.shape[0], tables.shape[1] * block_size, f"{tables.shape[1]} blocks of {block_size}")
    live = np.arange(tables.shape[1])[None, :] < -(-lengths // block_size)[:, None]
    wrong = np.argwhere(live & ((tables < 0) | (tables >= num_blocks)))
    if len(wrong):
        row, column = (int(x) for x in wrong[0])
        raise ValueError(
            f"block table row {row}, entry {column} is {int(tables[row, column])}, and the pool has blocks 0..{num_blocks - 1}; "
            f"the row's {int(lengths[row])} tokens need {-(-int(lengths[row]) // block_size)} blocks of {block_size}"
        )
