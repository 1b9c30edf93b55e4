"""Small random checkpoints of every family, written by `transformers` itself, which also says what their logits are."""

import atexit
import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

SIZE = {
    "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 512, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
KINDS = {
    "llama 3": ("Llama", {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    "llama 3.1, scaled": ("Llama", {"rope_parameters": LLAMA3}),
    "llama 3.2, scaled and tied": ("Llama", {"rope_parameters": LLAMA3 | {"factor": 32.0}, "tie_word_embeddings": True}),
    "llama 2, multi-head": ("Llama", {"num_key_value_heads": None}),
    "qwen2.5": ("Qwen2", {"rms_norm_eps": 1e-3}),
    "qwen2.5, tied": ("Qwen2", {"tie_word_embeddings": True, "num_key_value_heads": 1}),
    "qwen2.5, window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0}),
    "qwen3, heads wider than hidden": ("Qwen3", {"head_dim": 32}),
    "qwen3, tied": ("Qwen3", {"head_dim": 16, "tie_word_embeddings": True}),
    "mistral, window": ("Mistral", {"sliding_window": 5}),
    "mistral, no window, narrow heads": ("Mistral", {"sliding_window": None, "head_dim": 8}),
}
_KEPT = TemporaryDirectory()
atexit.register(_KEPT.cleanup)


@cache
def reference(kind):
    """(transformers' model, its folder). Loud weights: norms of 1 and biases of 0 would hide a mistake."""
    transformers = pytest.importorskip("transformers")
    family, options = KINDS[kind]
    torch.manual_seed(list(KINDS).index(kind))
    config = getattr(transformers, f"{family}Config")(**(SIZE | options))
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval().requires_grad_(False)
    for name, weight in model.named_parameters():
        weight.normal_(std=0.2)
        if "norm" in name:
            weight.add_(1)
    folder = Path(_KEPT.name) / kind.replace(" ", "-")
    model.save_pretrained(folder, max_shard_size="40KB")
    return model, folder


def change_json(path, **fields):
    """Set fields; None removes one."""
    data = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({key: value for key, value in data.items() if value is not None}))
