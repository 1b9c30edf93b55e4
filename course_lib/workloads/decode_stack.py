"""A decode step with a real model's shapes and random weights: what is measured where no checkpoint is at hand.

The layers are those of Llama: RMSNorm, grouped-query attention with RoPE, SwiGLU. Weights are random, so its tokens mean
nothing; bytes and FLOPs are a real model's. It is written as an engine would write it: norms take the residual along, q, k and v
are one product, gate and up another: nine kernels a layer (two norms, four products, RoPE, attention, SwiGLU).

Layout   weights [out, in] bf16; k_cache, v_cache [batch, kv_heads, context + 1, head_dim] a layer; residual [batch, hidden]
Not here what the step should take (course_lib.roofline.kernels names its kernels one by one).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .captured import captured

if TYPE_CHECKING:
    from torch import Tensor

EPS, ROPE_BASE = 1e-5, 500_000.0
SKINNY_TOKENS, SKINNY_ROWS, SKINNY_DEPTH = 16, 64, 128  # up to 16 tokens our own product is the faster one
LLAMA_3_8B_NUMBERS = {
    "layers": 32, "hidden": 4096, "mlp_hidden": 14336, "heads": 32, "kv_heads": 8, "head_dim": 128, "vocab": 128256
}  # fmt: skip


def stack_bytes(model: Mapping[str, int], layers: int, batch: int, context: int) -> int:
    """Bytes of a stack's weights and KV caches. 8B, 32 layers, batch 1, context 1024: 15.1e9."""
    qkv = (model["heads"] + 2 * model["kv_heads"]) * model["head_dim"]
    layer = model["hidden"] * (qkv + model["heads"] * model["head_dim"] + 3 * model["mlp_hidden"])
    kv = 2 * batch * (context + 1) * model["kv_heads"] * model["head_dim"]
    return 2 * (layers * (layer + kv) + model["vocab"] * model["hidden"])


@dataclass(frozen=True, slots=True)
class StackWeights:
    """Random bf16 weights, which stacks of several batches can share. Each row has a length of about 1."""

    layers: list[dict[str, "Tensor"]]
    head: "Tensor"

    @classmethod
    def random(cls, model: Mapping[str, int], layers: int, device: str = "cuda", seed: int = 0) -> "StackWeights":
        import torch

        draw = torch.Generator(device).manual_seed(seed)
        hidden, mlp, width = model["hidden"], model["mlp_hidden"], model["heads"] * model["head_dim"]

        def weight(out: int, inner: int) -> Any:
            made = torch.randn(out, inner, device=device, dtype=torch.bfloat16, generator=draw)
            return made.mul_(inner**-0.5)

        def layer() -> dict[str, Any]:
            qkv = weight(width + 2 * model["kv_heads"] * model["head_dim"], hidden)
            ones = torch.ones(2, hidden, device=device, dtype=torch.bfloat16)
            return {"norm1": ones[0], "qkv": qkv, "out": weight(hidden, width), "norm2": ones[1],
                    "gate_up": weight(2 * mlp, hidden), "down": weight(hidden, mlp)}  # fmt: skip

        return cls([layer() for _ in range(layers)], weight(model["vocab"], hidden))


def product(x: "Tensor", weight: "Tensor", out: "Tensor") -> None:
    """out [tokens, width] = x [tokens, inner] @ weight [width, inner].T, by our kernel for few tokens, else by torch."""
    import torch

    (tokens, inner), width = x.shape, weight.shape[0]
    if tokens > SKINNY_TOKENS or width % SKINNY_ROWS or inner % SKINNY_DEPTH:
        torch.mm(x, weight.T, out=out)
        return
    from .decode_stack_kernels import skinny_product_kernel

    skinny_product_kernel[(width // SKINNY_ROWS,)](
        x, weight, out, tokens, inner, width,
        TOKENS=SKINNY_TOKENS, ROWS=SKINNY_ROWS, DEPTH=SKINNY_DEPTH, STAGES=6, num_warps=4,
    )  # fmt: skip


class DecodeStack:
    """One decode step of `layers` layers and the head, for `batch` sequences that hold `context` tokens each."""

    def __init__(
        self, model: Mapping[str, int], layers: int, batch: int, context: int, *,
        device: str = "cuda", weights: StackWeights | None = None,
    ) -> None:  # fmt: skip
        """model: the numbers of LLAMA_3_8B_NUMBERS. Raises ValueError for weights of another number of layers."""
        import torch

        self.model, self.batch, self.context = dict(model), batch, context
        self.weights = weights or StackWeights.random(model, layers, device)
        if len(self.weights.layers) != layers:
            raise ValueError(f"the weights have {len(self.weights.layers)} layers, not {layers}; make StackWeights with {layers}")
        hidden, heads, kv_heads, dim = (model[name] for name in ("hidden", "heads", "kv_heads", "head_dim"))

        def empty(*shape: int) -> Any:
            return torch.empty(*shape, device=device, dtype=torch.bfloat16)

        caches = [torch.randn(2, batch, kv_heads, context + 1, dim, device=device, dtype=torch.bfloat16) for _ in range(layers)]
        self.caches = [(cache[0], cache[1]) for cache in caches]
        self.embedded = torch.randn(batch, hidden, device=device, dtype=torch.bfloat16)
        self.x, self.normed, self.delta = (torch.zeros_like(self.embedded) for _ in range(3))
        self.qkv, self.q = empty(batch, (heads + 2 * kv_heads) * dim), empty(batch, heads, 1, dim)
        self.gate_up, self.mlp = empty(batch, 2 * model["mlp_hidden"]), empty(batch, model["mlp_hidden"])
        self.logits = empty(batch, model["vocab"])
        angle = context * ROPE_BASE ** (-torch.arange(0, dim, 2, device=device, dtype=torch.float64) / dim)
        self.cos, self.sin = angle.cos().float(), angle.sin().float()

    def step(self) -> "Tensor":
        """Run the step -> logits [batch, vocab] bf16, in a buffer that the next step overwrites."""
        self.x.copy_(self.embedded)
        self.delta.zero_()
        for layer, (k_cache, v_cache) in zip(self.weights.layers, self.caches, strict=True):
            self._add_norm(layer["norm1"])
            product(self.normed, layer["qkv"], self.qkv)
            self._rope_append(k_cache, v_cache)
            attended = self._attention(k_cache, v_cache).view(self.batch, -1)
            product(attended, layer["out"], self.delta)
            self._add_norm(layer["norm2"])
            product(self.normed, layer["gate_up"], self.gate_up)
            self._silu_product()
            product(self.mlp, layer["down"], self.delta)
        self._add_norm(self.weights.layers[0]["norm1"])
        product(self.normed, self.weights.head, self.logits)
        return self.logits

    def graph(self) -> Callable[[], None]:
        """Capture the step in a CUDA graph -> a call that replays it."""
        return captured(self.step)

    def _add_norm(self, weight: "Tensor") -> None:
        from .decode_stack_kernels import add_rms_norm_kernel

        width = self.model["hidden"]
        block = 1 << (width - 1).bit_length()
        add_rms_norm_kernel[(self.batch,)](
            self.x, self.delta, weight, self.normed, EPS, WIDTH=width, BLOCK=block, num_warps=16 if block >= 4096 else 4
        )

    def _rope_append(self, k_cache: "Tensor", v_cache: "Tensor") -> None:
        from .decode_stack_kernels import rope_append_kernel

        heads, kv_heads, half = self.model["heads"], self.model["kv_heads"], self.model["head_dim"] // 2
        rope_append_kernel[(self.batch, heads + 2 * kv_heads)](
            self.qkv, self.q, k_cache, v_cache, self.cos, self.sin, self.context, self.context + 1,
            HEADS=heads, KV_HEADS=kv_heads, HALF=half, num_warps=1,
        )  # fmt: skip

    def _attention(self, k_cache: "Tensor", v_cache: "Tensor") -> "Tensor":
        """One query a head over the whole cache -> [batch, heads, 1, head_dim]. cuDNN's kernel is the fastest of torch's here."""
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        order = [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        with sdpa_kernel(order, set_priority=True):
            return scaled_dot_product_attention(self.q, k_cache, v_cache, enable_gqa=True)

    def _silu_product(self) -> None:
        from .decode_stack_kernels import silu_product_kernel

        width = self.model["mlp_hidden"]
        silu_product_kernel[(self.batch, -(-width // 1024))](self.gate_up, self.mlp, width, BLOCK=1024, num_warps=4)
