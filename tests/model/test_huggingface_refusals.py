"""What does not fit is refused before a weight is read, by name, with what was found and what to do."""

import json
import re
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file

from course_lib.model.huggingface import load_checkpoint
from course_lib.model.huggingface.names import EMBEDDING, HEAD

from .checkpoints import change_json, reference

INDEX = "model.safetensors.index.json"
Q = "model.layers.1.self_attn.q_proj.weight"


@pytest.fixture
def checkpoint(tmp_path):
    """Copies of the reference checkpoints, to be spoilt."""

    def copy(kind="llama 3"):
        return shutil.copytree(reference(kind)[1], tmp_path / "spoilt")

    return copy


def refused(folder, words, kind=ValueError, **options):
    with pytest.raises(kind, match=re.escape(words)) as error:
        load_checkpoint(folder, **options)
    return str(error.value)


def shard_of(folder, name):
    return folder / json.loads((folder / INDEX).read_text())["weight_map"][name]


def rewrite(folder, name, change):
    """Change the tensors of the shard that holds `name`, and the index with it."""
    shard = shard_of(folder, name)
    tensors = load_file(shard)
    change(tensors)
    save_file(tensors, shard)
    index = json.loads((folder / INDEX).read_text())
    kept = {tensor: file for tensor, file in index["weight_map"].items() if file != shard.name}
    (folder / INDEX).write_text(json.dumps({"weight_map": kept | dict.fromkeys(tensors, shard.name)}))


@pytest.mark.parametrize(("fields", "words"), [
    ({"model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"]},
     "model_type 'gemma2' (Gemma2ForCausalLM) is not implemented; llama, mistral, qwen2, qwen3 are"),
    ({"model_type": None, "architectures": None}, "model_type None is not implemented"),
    ({"architectures": ["LlamaForSequenceClassification"]}, "architecture LlamaForSequenceClassification is not implemented"),
    ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "is quantised (quant_method 'gptq')"),
    ({"quantization": {"group_size": 64, "bits": 4}}, "is quantised (quant_method 'unnamed')"),
    ({"hidden_act": "gelu"}, "hidden_act 'gelu' is not implemented"),
    ({"attention_bias": True}, "attention_bias is True, a bias on o"),
    ({"mlp_bias": True}, "mlp_bias is True"),
    ({"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}}, "partial_rotary_factor is 0.5"),
    ({"rope_parameters": {"rope_type": "default", "rope_theta": -1}}, "rope_theta -1; it has to be a number above 0"),
    ({"rope_parameters": "default"}, "config.json has rope_parameters 'default'; it has to be an object"),
    ({"rms_norm_eps": "1e-6"}, "config.json has rms_norm_eps '1e-6'"),
    ({"hidden_size": None}, "config.json has hidden_size None; it has to be a whole number from 1 on"),
    ({"num_hidden_layers": "2"}, "num_hidden_layers '2'"),
    ({"num_attention_heads": 0}, "num_attention_heads 0"),
    ({"num_key_value_heads": 3}, "4 heads do not share 3 KV heads; use one of [1, 2, 4]"),
    ({"head_dim": None, "num_attention_heads": 6}, "hidden_size 64 does not split over 6 heads; add head_dim"),
    ({"architectures": "LlamaForCausalLM"}, "config.json has architectures 'LlamaForCausalLM'; it has to be a list"),
    ({"model_type": ["llama"]}, "model_type ['llama'] (LlamaForCausalLM) is not implemented"),
    ({"tie_word_embeddings": "false"}, "config.json has tie_word_embeddings 'false'; it has to be true or false"),
    ({"rms_norm_eps": float("inf")}, "rms_eps is inf; use a finite number above 0"),
])  # fmt: skip
def test_a_config_that_we_do_not_compute(fields, words, checkpoint):
    folder = checkpoint()
    change_json(folder / "config.json", **fields)
    assert refused(folder, words).startswith("spoilt")


@pytest.mark.parametrize("kind", ["yarn", "dynamic", "longrope", "linear", "su", "mrope"])
@pytest.mark.parametrize("form", ["rope_parameters", "rope_scaling"])
def test_a_rope_scaling_that_is_not_implemented(kind, form, checkpoint):
    folder = checkpoint("qwen2.5")
    scaling = {"rope_parameters": {"rope_type": kind, "rope_theta": 1e6}, "rope_scaling": {"type": kind, "factor": 4.0}}[form]
    change_json(folder / "config.json", **{"rope_parameters": None, form: scaling})
    refused(folder, f"spoilt: rope scaling '{kind}' is not implemented; 'llama3' is")


def test_a_llama3_scaling_that_is_not_whole(checkpoint):
    folder = checkpoint("llama 3.1, scaled")
    change_json(folder / "config.json", rope_parameters={"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0})
    refused(folder, "rope scaling 'llama3' lacks ['low_freq_factor', 'high_freq_factor', 'original_max_position_embeddings']")


@pytest.mark.parametrize(("fields", "words"), [
    ({"factor": "8"}, "factor is '8'; use a finite number above 0"), ({"factor": float("nan")}, "factor is nan"),
    ({"low_freq_factor": 4.0}, "low_freq_factor 4.0 is not below high_freq_factor 4.0"),
    ({"original_max_position_embeddings": None}, "original_context is None"),
])  # fmt: skip
def test_a_llama3_scaling_that_would_give_no_numbers(fields, words, checkpoint):
    """Equal factors divide 0 by 0."""
    folder = checkpoint("llama 3.1, scaled")
    scaling = json.loads((folder / "config.json").read_text())["rope_parameters"]
    change_json(folder / "config.json", rope_parameters=scaling | fields)
    refused(folder, f"spoilt: rope scaling 'llama3': {words}")


@pytest.mark.parametrize("fields", [{"layer_types": "x"}, {"layer_types": ["sliding_attention"]}, {"layer_types": ["y", "y"]}])
def test_layer_types_that_do_not_say_it_for_each_layer(fields, checkpoint):
    folder = checkpoint("qwen2.5, window")
    change_json(folder / "config.json", **fields)
    refused(folder, f"config.json has layer_types {fields['layer_types']!r}; it has to be a list with 'full_attention' or ")


@pytest.mark.parametrize("fields", [
    {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1, "layer_types": None},
    {"use_sliding_window": True, "sliding_window": 5, "layer_types": ["full_attention", "sliding_attention"]},
])  # fmt: skip
def test_a_window_of_some_layers_only(fields, checkpoint):
    folder = checkpoint("qwen2.5")
    change_json(folder / "config.json", **fields)
    refused(folder, "1 of 2 layers have a sliding window, and a window holds here for all layers or none")


def test_missing_and_unexpected_tensors(checkpoint):
    folder = checkpoint()
    rewrite(folder, Q, lambda tensors: tensors.pop(Q))
    refused(folder, f"lacks {Q}: it does not fit its config.json")
    other = shard_of(folder, EMBEDDING)
    rewrite(folder, EMBEDDING, lambda tensors: tensors.update({"score.weight": torch.ones(2)}))
    assert other.is_file()
    refused(folder, f"lacks {Q} and has unexpected score.weight")


def test_biases_that_the_family_does_not_have_or_ought_to_have(checkpoint, tmp_path):
    folder = checkpoint("qwen2.5")
    change_json(folder / "config.json", model_type="mistral", architectures=["MistralForCausalLM"])
    refused(folder, "has unexpected model.layers.0.self_attn.k_proj.bias")
    other = shutil.copytree(reference("llama 3")[1], tmp_path / "other")
    change_json(other / "config.json", model_type="qwen2", architectures=["Qwen2ForCausalLM"])
    refused(other, "lacks model.layers.0.self_attn.k_proj.bias")


def test_more_layers_than_the_config_says(checkpoint):
    folder = checkpoint()
    change_json(folder / "config.json", num_hidden_layers=1)
    refused(folder, "has unexpected model.layers.1.input_layernorm.weight, ")


def test_tied_weights_that_are_absent(checkpoint):
    folder = checkpoint("llama 3.2, scaled and tied")
    change_json(folder / "config.json", tie_word_embeddings=False)
    refused(folder, f"lacks {HEAD}: it does not fit its config.json; tie_word_embeddings is false in config.json")
    change_json(folder / "config.json", tie_word_embeddings=True)
    rewrite(folder, EMBEDDING, lambda tensors: tensors.update({HEAD: tensors.pop(EMBEDDING)}))
    refused(folder, f"lacks {EMBEDDING}: it does not fit its config.json; tie_word_embeddings is true")


def test_a_tied_head_that_is_another_than_the_embedding(checkpoint):
    folder = checkpoint("qwen2.5, tied")
    rewrite(folder, EMBEDDING, lambda tensors: tensors.update({HEAD: tensors[EMBEDDING].index_fill(0, torch.tensor(3), 7.0)}))
    refused(folder, f"{HEAD} differs from {EMBEDDING} in 64 values, and config.json says they are tied")


def test_a_shape_that_the_config_does_not_ask_for(checkpoint):
    folder = checkpoint()
    change_json(folder / "config.json", vocab_size=96)
    refused(folder, "lm_head.weight is [97, 64], config.json asks for [96, 64]")
    change_json(folder / "config.json", vocab_size=97, head_dim=32)
    refused(folder, "k_proj.weight is [32, 64], config.json asks for [64, 64]")


@pytest.mark.parametrize(("spoil", "words"), [
    (lambda content: content[:-100], "is cut short or damaged"),
    (lambda content: content[:20], "(20 bytes) is cut short or damaged"),
    (lambda content: b"", "(0 bytes) is cut short or damaged"),
    (lambda content: content[:30] + b"\0\0\0" + content[33:], "is cut short or damaged"),
    (lambda content: b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "by `git lfs pull`: it is a pointer"),
])  # fmt: skip
def test_a_damaged_shard(spoil, words, checkpoint):
    folder = checkpoint()
    shard = shard_of(folder, Q)
    shard.write_bytes(spoil(shard.read_bytes()))
    assert str(shard) in refused(folder, words)


def test_shards_and_index_that_disagree(checkpoint):
    folder = checkpoint()
    first, second = shard_of(folder, Q), shard_of(folder, EMBEDDING)
    index = json.loads((folder / INDEX).read_text())["weight_map"]
    (folder / INDEX).write_text(json.dumps({"weight_map": index | {Q: second.name}}))
    refused(folder, f"has unexpected {Q}: {INDEX} puts it in {second.name}")
    (folder / INDEX).write_text(json.dumps({"weight_map": index | {"more.weight": first.name}}))
    refused(folder, f"{first.name} lacks more.weight, which {INDEX} puts there")
    (folder / INDEX).write_text(json.dumps({"weight_map": {name: file for name, file in index.items() if name != Q}}))
    refused(folder, f"{first.name} has unexpected {Q}: {INDEX} puts it nowhere")
    (folder / INDEX).write_text(json.dumps({"weight_map": index | {Q: "../elsewhere.safetensors"}}))
    refused(folder, "names '../elsewhere.safetensors', outside the folder")
    for other in (5, None, "..", "pytorch_model.bin"):
        (folder / INDEX).write_text(json.dumps({"weight_map": index | {Q: other}}))
        refused(folder, f"{INDEX} names {other!r}, which is no safetensors file")
    (folder / INDEX).write_text("{}")
    refused(folder, "has no weight_map")


def test_files_that_are_missing(checkpoint, tmp_path):
    folder = checkpoint()
    shard, count = shard_of(folder, Q), len(list(folder.glob("*.safetensors")))
    shard.unlink()
    refused(folder, f"lacks {shard.name}, 1 of the {count} shards that {INDEX} names", FileNotFoundError)
    (folder / INDEX).unlink()
    refused(folder, f"has {count - 1} shards and no {INDEX}", FileNotFoundError)
    for left in folder.glob("*.safetensors"):
        left.unlink()
    refused(folder, "has no safetensors file; a checkpoint has model.safetensors", FileNotFoundError)
    (folder / "pytorch_model.bin").write_bytes(b"")
    refused(folder, "has pytorch_model.bin and no safetensors file", FileNotFoundError)
    (folder / "config.json").write_text("{'a': 1}")
    refused(folder, "is no JSON")
    (folder / "config.json").write_text("[1]")
    refused(folder, "holds a list, not an object")
    (folder / "config.json").unlink()
    refused(folder, "no config.json in ", FileNotFoundError)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.complex64])
def test_a_dtype_that_weights_are_not_converted_to(dtype, checkpoint):
    refused(checkpoint(), f"weights are not converted to {dtype}; use one of torch.float64, torch.float32", dtype=dtype)


def test_a_device_that_there_is_not(checkpoint):
    refused(checkpoint(), "device 'gpu': this machine has 'cpu' and ", device="gpu")


@pytest.mark.parametrize(("dtype", "name"), [(torch.float8_e4m3fn, "F8_E4M3"), (torch.int8, "I8"), (torch.uint8, "U8")])
def test_a_dtype_that_weights_are_not_converted_from(dtype, name, checkpoint):
    folder = checkpoint()
    rewrite(folder, Q, lambda tensors: tensors.update({Q: tensors[Q].to(dtype)}))
    refused(folder, f"{Q} is stored as {name}, which has no meaning without its scales")


def test_values_beyond_float16(checkpoint):
    folder = checkpoint()
    load_checkpoint(folder, dtype=torch.float16)
    rewrite(folder, Q, lambda tensors: tensors[Q].__setitem__((3, 4), -70000.0))
    refused(folder, f"{Q} reaches 70000, and float16 ends at 65504; use bfloat16 or float32", dtype=torch.float16)
    load_checkpoint(folder, dtype=torch.bfloat16)
