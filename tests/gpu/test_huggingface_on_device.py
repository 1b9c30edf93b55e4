"""A checkpoint goes from its shards to a CUDA device in the dtype asked for, holding no second copy of the model."""

import json

import pytest
import torch

from course_lib.model.huggingface import load_checkpoint
from course_lib.model.huggingface.names import theirs
from tests.model.tiny import decoder, tokens

pytestmark = pytest.mark.gpu
QWEN3 = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "vocab_size": 97, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}  # fmt: skip


def write(folder, weights, config, *, per_shard):
    """Shards of so many tensors, and their index."""
    from safetensors.torch import save_file

    names, places = list(weights), {}
    for start in range(0, len(names), per_shard):
        part, file = names[start : start + per_shard], f"model-{start:05}.safetensors"
        save_file({theirs(name): weights[name] for name in part}, folder / file)
        places |= dict.fromkeys(map(theirs, part), file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_weights_on_the_device_are_those_of_the_shards(dtype, tmp_path):
    ours, ids = decoder("qwen3"), tokens(2, 13)
    write(tmp_path, ours.state_dict(), QWEN3, per_shard=4)
    model, _ = load_checkpoint(tmp_path, dtype=dtype, device="cuda")
    for name, weight in model.state_dict().items():
        assert weight.is_cuda, name
        assert torch.equal(weight.cpu(), ours.state_dict()[name].to(dtype)), name
    logits = model(ids.cuda()).cpu()
    if dtype == torch.float32:  # tf32 is off unless asked for
        assert (logits - ours(ids)).abs().max() < 1e-3
    assert logits.isfinite().all()


def test_the_peak_is_the_model_and_one_tensor(tmp_path):
    sizes = {"hidden": 512, "layers": 4, "heads": 8, "kv_heads": 8, "head_dim": 64, "mlp_hidden": 2048, "vocab": 8192}
    data = QWEN3 | {
        "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64,
        "intermediate_size": 2048, "vocab_size": 8192,
    }  # fmt: skip
    ours = decoder("qwen3", **sizes)
    write(tmp_path, ours.state_dict(), data, per_shard=9)
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    model, _ = load_checkpoint(tmp_path, dtype=torch.bfloat16, device="cuda")
    used, largest = torch.cuda.max_memory_allocated() - before, max(weight.nbytes for weight in ours.parameters())
    assert used < 1.05 * sum(weight.nbytes for weight in model.parameters()) + largest
