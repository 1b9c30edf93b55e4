"""The kernels of a decode step one by one: what each computes and moves. `course_lib.workloads.decode_stack` runs exactly these.

A step's totals hide that its kernels have sizes of their own: a product of 235 MB streams near the bandwidth of the memory, a
norm of 33 kB takes as long as it takes to start a kernel.
"""

from dataclasses import dataclass

from .models import ModelShape

BF16_BYTES = 2


@dataclass(frozen=True, slots=True)
class KernelCost:
    """FLOPs and least bytes of one call, and how many times a step calls it."""

    name: str
    flops: float
    bytes_moved: float
    count: int
    is_product: bool = False  # a matrix product streams a weight, and reads it at another rate than a plain read


def decode_kernels(model: ModelShape, batch: int, context: int, layers: int | None = None) -> list[KernelCost]:
    """The kernels of one bf16 decode step: `batch` sequences that hold `context` tokens, one new token each.

    layers  all of the model's, unless fewer are measured; the head is there once
    A product of [batch, k] with a weight [n, k] does 2 * batch * n * k FLOPs and moves 2 * (n * k + batch * (n + k)) bytes.
    Llama-3-8B, batch 1: gate and up are 2 * 28672 * 4096 = 235 MB, the norm before it is 4 * 4096 * 2 = 33 kB.
    """
    layers = model.layers if layers is None else layers
    hidden, mlp = model.hidden, model.mlp_hidden
    width = model.heads * model.head_dim
    qkv = width + 2 * model.kv_heads * model.head_dim
    attended = context + 1  # the new token looks at itself too

    def product(name: str, inner: int, out: int, count: int) -> KernelCost:
        moved = BF16_BYTES * (inner * out + batch * (inner + out))
        return KernelCost(name, 2 * batch * inner * out, moved, count, is_product=True)

    def elementwise(name: str, values: int, count: int) -> KernelCost:
        """values: read or written, for each token"""
        return KernelCost(name, 0, BF16_BYTES * batch * values, count)

    kv = 2 * attended * model.kv_heads * model.head_dim
    attention = KernelCost("attention", 4 * batch * width * attended, BF16_BYTES * batch * (kv + 2 * width), layers)
    return [
        elementwise("add and norm", 4 * hidden, 2 * layers + 1),
        product("q, k, v", hidden, qkv, layers),
        elementwise("RoPE and append", 2 * qkv, layers),
        attention,
        product("output", width, hidden, layers),
        product("gate and up", hidden, 2 * mlp, layers),
        elementwise("SwiGLU", 3 * mlp, layers),
        product("down", mlp, hidden, layers),
        product("head", hidden, model.vocab, 1),
    ]
