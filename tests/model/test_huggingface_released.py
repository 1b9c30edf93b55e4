"""The config.json of released weights gives the shape that we know them by, and as many parameters as they have.

Source   config.json and the safetensors metadata ("Model size") of the repositories on huggingface.co that each row names.
"""

import dataclasses

import pytest

from course_lib.model import preset
from course_lib.model.config import Llama3Scaling
from course_lib.model.huggingface.families import config_of
from course_lib.model.huggingface.names import theirs
from course_lib.model.load import empty


def config_json(kind, hidden, mlp, layers, heads, kv_heads, vocab, context, eps=1e-5, tied=False, **more):
    architecture = f"{kind.capitalize()}ForCausalLM"
    return {
        "architectures": [architecture], "model_type": kind, "hidden_act": "silu", "hidden_size": hidden, "rms_norm_eps": eps,
        "intermediate_size": mlp, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "vocab_size": vocab, "max_position_embeddings": context, "tie_word_embeddings": tied, "torch_dtype": "bfloat16",
    } | more  # fmt: skip


def scaling(factor):
    fields = {"factor": factor, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192}
    return {"rope_theta": 500000.0, "rope_scaling": fields | {"rope_type": "llama3"}, "attention_bias": False, "mlp_bias": False}


def qwen(window_from, **more):
    return {"rope_theta": 1000000, "rope_scaling": None, "use_sliding_window": False, "max_window_layers": window_from, **more}


RELEASED = {
    "meta-llama/Meta-Llama-3-8B": (
        config_json("llama", 4096, 14336, 32, 32, 8, 128256, 8192, rope_theta=500000.0, rope_scaling=None), 8_030_261_248),
    "meta-llama/Llama-3.1-8B": (
        config_json("llama", 4096, 14336, 32, 32, 8, 128256, 131072, **scaling(8.0)), 8_030_261_248),
    "meta-llama/Llama-3.2-1B": (
        config_json("llama", 2048, 8192, 16, 32, 8, 128256, 131072, tied=True, head_dim=64, **scaling(32.0)), 1_235_814_400),
    "Qwen/Qwen2.5-0.5B": (
        config_json("qwen2", 896, 4864, 24, 14, 2, 151936, 32768, 1e-6, True, **qwen(24, sliding_window=32768)), 494_032_768),
    "Qwen/Qwen2.5-7B": (
        config_json("qwen2", 3584, 18944, 28, 28, 4, 152064, 131072, 1e-6, **qwen(28, sliding_window=131072)), 7_615_616_512),
    "Qwen/Qwen3-0.6B": (
        config_json("qwen3", 1024, 3072, 28, 16, 8, 151936, 40960, 1e-6, True, **qwen(28, head_dim=128, sliding_window=None)),
        596_049_920),
    "Qwen/Qwen3-8B": (
        config_json("qwen3", 4096, 12288, 36, 32, 8, 151936, 40960, 1e-6, **qwen(36, head_dim=128, sliding_window=None)),
        8_190_735_360),
    "mistralai/Mistral-7B-v0.1": (
        config_json("mistral", 4096, 14336, 32, 32, 8, 32000, 32768, rope_theta=10000.0, sliding_window=4096), 7_241_732_096),
    "mistralai/Mistral-7B-v0.3": (
        config_json("mistral", 4096, 14336, 32, 32, 8, 32768, 32768, rope_theta=1000000.0, sliding_window=None), 7_248_023_552),
    "mistralai/Mistral-Nemo-Base-2407": (
        config_json("mistral", 5120, 14336, 40, 32, 8, 131072, 128000, rope_theta=1000000.0, head_dim=128, sliding_window=None),
        12_247_782_400),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASED)
def test_a_released_config_has_the_parameters_of_its_weights(name):
    data, params = RELEASED[name]
    config = config_of(data, name)
    assert config.params == params
    model = empty(config)
    assert sum(weight.numel() for weight in model.parameters()) == params
    names = {theirs(ours) for ours in model.state_dict()}
    assert len(names) == len(model.state_dict())
    assert {name for name in names if not name.startswith("model.")} == (set() if config.tied else {"lm_head.weight"})


@pytest.mark.parametrize(("repo", "known"), [
    ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"), ("Qwen/Qwen3-0.6B", "qwen3-0.6b"), ("Qwen/Qwen3-8B", "qwen3-8b"),
    ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
])  # fmt: skip
def test_it_is_the_preset(repo, known):
    assert dataclasses.replace(config_of(RELEASED[repo][0], repo), name=known) == preset(known)


def test_scaling_windows_and_biases_are_those_of_the_release():
    configs = {name: config_of(data, name) for name, (data, _) in RELEASED.items()}
    scaled = {name: config.rope_scaling.factor for name, config in configs.items() if config.rope_scaling}
    assert scaled == {"meta-llama/Llama-3.1-8B": 8.0, "meta-llama/Llama-3.2-1B": 32.0}
    known = Llama3Scaling(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_context=8192)
    assert configs["meta-llama/Llama-3.1-8B"].rope_scaling == known
    assert [name for name, config in configs.items() if config.sliding_window] == ["mistralai/Mistral-7B-v0.1"]
    assert [name for name, config in configs.items() if config.qkv_bias] == ["Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B"]
