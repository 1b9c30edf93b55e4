"""Small decoders of every kind, with weights loud enough that positions, masks and heads matter to the logits."""

import torch

from course_lib.model import Decoder, MlaConfig, ModelConfig, Parts
from course_lib.model.config import Llama3Scaling

SIZE = {"vocab": 97, "hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16, "mlp_hidden": 96}
MLA = MlaConfig(kv_rank=32, rope_dim=8, nope_dim=16, v_dim=12)
SCALING = Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=64)
KINDS = {
    "grouped": {},
    "multi-head, head apart": {"kv_heads": 4, "tied": False},
    "multi-query": {"kv_heads": 1},
    "qwen3": {"qk_norm": True},
    "qwen2.5": {"qkv_bias": True},
    "window": {"sliding_window": 5},
    "llama3 scaling": {"rope_scaling": SCALING},
    "mla": {"mla": MLA},
    "mla, queries compressed": {"mla": MlaConfig(kv_rank=32, rope_dim=8, nope_dim=16, v_dim=12, q_rank=24)},
}


def config(kind="grouped", **more):
    return ModelConfig(name=kind, **(SIZE | KINDS[kind] | more))


def decoder(kind="grouped", *, seed=0, parts=None, dtype=torch.float32, **more):
    torch.manual_seed(seed)
    model = Decoder(config(kind, **more), parts or Parts()).to(dtype).eval().requires_grad_(False)
    model.init_weights(std=0.3)
    for weight in model.parameters():  # norms of 1 and biases of 0 would hide a mistake
        if weight.dim() == 1:
            weight.add_(0.3 * torch.randn_like(weight))
    return model


def tokens(batch, length, seed=1, vocab=SIZE["vocab"]):
    return torch.randint(0, vocab, (batch, length), generator=torch.Generator().manual_seed(seed))
