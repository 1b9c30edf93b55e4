"""Questions on Python, PyTorch and kernels: strides, views, bytes, launches, and a Triton kernel to read."""

from typing import Any

from .question import Question, near

KERNEL = '''\
@triton.jit
def row_sums_kernel(x_ptr, out_ptr, cols, row_stride, BLOCK: tl.constexpr):
    """One program adds up one row, BLOCK values at a time."""
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, cols, BLOCK):
        inside = start + lanes < cols
        total += tl.load(x_ptr + row * row_stride + start + lanes, mask=inside, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))


def row_sums(x):
    """x: [rows, cols] float32 -> [rows]."""
    rows, cols = x.shape
    out = torch.empty(rows, device=x.device)
    row_sums_kernel[(rows,)](x, out, cols, x.stride(0), BLOCK=128)
    return out
'''


def _strides(answer: Any) -> str:
    import torch

    x = torch.arange(24).view(2, 3, 4).transpose(1, 2)
    strides, contiguous = answer
    if tuple(strides) != x.stride():
        return "transpose swaps two strides, as it swaps two sizes, and moves nothing."
    if contiguous is not x.is_contiguous():
        return "The strides are right. Contiguous: the last stride is 1, and every other is the size times the stride behind it."
    return ""


VIEWS = ("x.T", "x[:, ::2]", "x[[0, 2]]", "x.reshape(-1)", "x.T.reshape(-1)", "x + 0")


def _views(answer: Any) -> str:
    import torch

    x, got = torch.arange(12.0).view(3, 4), set(answer)
    if unknown := got - set(VIEWS):
        return f"{sorted(map(str, unknown))[0]!r} is none of the six; write them as they stand there."
    made = (x.T, x[:, ::2], x[[0, 2]], x.reshape(-1), x.T.reshape(-1), x + 0)
    at = x.untyped_storage().data_ptr()
    right = {name for name, y in zip(VIEWS, made, strict=True) if y.untyped_storage().data_ptr() == at}
    if missed := right - got:
        return f"{len(missed)} more share the memory: an offset and strides can describe them."
    return "" if got == right else f"{len(got - right)} of yours have memory of their own: no offset and strides describe them."


def _offset(answer: Any) -> str:
    import torch

    x = torch.zeros(4, 6, dtype=torch.float32)
    right = x[1:, ::2][2, 1].data_ptr() - x.data_ptr()
    if answer * 4 == right:
        return "That is in elements. How many bytes has one?"
    return "" if answer == right else "y[2, 1] is x[?, ?]. Then: row times 6, plus column, times the bytes of one element."


def _asynchronous(answer: Any) -> str:
    from ...workloads.simulated_gpu import simulated_gpu

    gpu, launch, _ = simulated_gpu({"kernel_us": 100.0, "launch_us": 5.0, "return_us": 0.0, "jitter": 0.0})
    begin = gpu.perf_counter()
    for _ in range(4):
        launch()
    queued_us = (gpu.perf_counter() - begin) * 1e6
    gpu.synchronize()
    done_us = (gpu.perf_counter() - begin) * 1e6
    first, second = answer
    if not near(first, queued_us, 0.02):
        return "The first is not right: a launch returns when it is queued, not when the kernel is done."
    if near(second, 400, 0.001):
        return "Almost: when can the first kernel begin?"
    return "" if near(second, done_us, 0.005) else "The first is right. The device runs one kernel after the other."


def kernel_by_hand(rows: int, cols: int, block: int) -> tuple[int, int, int, float]:
    """(programs, rounds of the loop, lanes masked off in the last, out[2]) for x[i, j] = i, lane by lane."""
    rounds, masked, out = 0, 0, [0.0] * rows
    for row in range(rows):
        rounds = 0
        for start in range(0, cols, block):
            inside = [start + lane < cols for lane in range(block)]
            out[row] += sum(float(row) for live in inside if live)
            masked, rounds = inside.count(False), rounds + 1
    return rows, rounds, masked, out[2]


def _kernel(answer: Any) -> str:
    parts = ("number of programs", "number of rounds", "number of masked lanes", "value of out[2]")
    got = [float(value) for value in answer]
    for value, right, part in zip(got, kernel_by_hand(4, 300, 128), parts, strict=True):
        if value != right:
            return f"The {part} is not right."
    return ""


_STRIDES = "PyTorch documentation, torch.Tensor.stride and torch.Tensor.is_contiguous"
_ASYNCHRONOUS = (
    "PyTorch documentation, CUDA semantics, Asynchronous execution; CUDA C++ Programming Guide, Asynchronous Concurrent Execution"
)
QUESTIONS = {
    "strides": Question("((stride, stride, stride), True or False)", _strides, _STRIDES),
    "views": Question("a set of texts", _views, "PyTorch documentation, Tensor Views"),
    "offset": Question("a number", _offset, _STRIDES),
    "asynchronous": Question("(microseconds, microseconds)", _asynchronous, _ASYNCHRONOUS),
    "kernel": Question("(programs, rounds, lanes, value)", _kernel,
                       "Triton documentation, tutorial Vector Addition, and triton.language.load"),
}  # fmt: skip
