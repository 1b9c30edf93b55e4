"""Checkpoints written by `transformers` give the same logits here, and are read without holding the model twice."""

import ast
import json
import shutil
import weakref
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import course_lib
from course_lib.model.huggingface import load_checkpoint
from course_lib.model.huggingface.families import config_of
from course_lib.model.huggingface.names import NAMES, theirs

from .checkpoints import KINDS, change_json, reference

TOLERANCE = {"rtol": 0, "atol": 1e-4}  # logits of about 10 in float32, sums in another order


def tokens(batch, length):
    return torch.randint(0, 97, (batch, length), generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("kind", KINDS)
def test_logits_agree_with_transformers(kind):
    theirs, folder = reference(kind)
    assert len(list(folder.glob("*.safetensors"))) > 3
    model, tokenizer = load_checkpoint(folder)
    assert tokenizer is None
    assert model.config.params == sum(weight.numel() for weight in theirs.parameters())
    assert not model.training
    assert not any(weight.requires_grad for weight in model.parameters())
    for length in (1, 7, 33, 130):
        expected = theirs(tokens(2, length)).logits
        assert expected.std() > 1
        torch.testing.assert_close(model(tokens(2, length)), expected, **TOLERANCE)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_agree_through_the_kv_cache(kind):
    theirs, folder = reference(kind)
    model, _ = load_checkpoint(folder)
    text = tokens(2, 80)  # beyond the window, and beyond llama3's original context
    expected, cache = theirs(text).logits, model.new_cache(2, 80)
    torch.testing.assert_close(model(text[:, :70], cache), expected[:, :70], **TOLERANCE)
    for place in range(70, 80):
        torch.testing.assert_close(model(text[:, place, None], cache)[:, 0], expected[:, place], **TOLERANCE)


def without_scaling(data):
    data["rope_parameters"] = {"rope_theta": data["rope_parameters"]["rope_theta"], "rope_type": "default"}


@pytest.mark.parametrize(("kind", "change"), [
    ("llama 3", lambda data: data.update(rope_parameters={"rope_theta": 10000.0, "rope_type": "default"})),
    ("llama 3.1, scaled", without_scaling),
    ("llama 3.1, scaled", lambda data: data["rope_parameters"].update(factor=4.0)),
    ("qwen2.5", lambda data: data.update(rms_norm_eps=0.1)),
    ("qwen2.5, window", lambda data: data.update(use_sliding_window=False)),
    ("mistral, window", lambda data: data.update(sliding_window=6)),
])  # fmt: skip
def test_every_number_of_the_config_counts(kind, change, tmp_path):
    """The twin of the tests above: they would see it if one were not read."""
    theirs, folder = reference(kind)
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    data = json.loads((tmp_path / "config.json").read_text())
    change(data)
    (tmp_path / "config.json").write_text(json.dumps(data))
    model, _ = load_checkpoint(tmp_path)
    assert (model(tokens(2, 130)) - theirs(tokens(2, 130)).logits).abs().max() > 1e-2


@pytest.mark.parametrize("kind", ["llama 3.1, scaled", "qwen2.5", "mistral, window"])
def test_a_config_as_releases_before_transformers_5_wrote_it_means_the_same(kind, tmp_path):
    folder = reference(kind)[1]
    (tmp_path / folder.name).mkdir()
    old = Path(shutil.copytree(folder, tmp_path / folder.name, dirs_exist_ok=True))
    rope = json.loads((old / "config.json").read_text())["rope_parameters"]
    theta = rope.pop("rope_theta")
    scaling = {"rope_scaling": rope} if rope["rope_type"] == "llama3" else {}
    change_json(old / "config.json", rope_parameters=None, rope_theta=theta, layer_types=None, head_dim=None, **scaling)
    assert load_checkpoint(old)[0].config == load_checkpoint(folder)[0].config


def test_rope_scaling_wins_where_rope_parameters_are_given_too():
    sizes = {"vocab_size": 9, "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 8}
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 64}  # fmt: skip
    both = {"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}, "rope_scaling": llama3}
    config = config_of(sizes | {"model_type": "llama"} | both, "x")
    assert (config.rope_theta, config.rope_scaling.factor) == (5e5, 8.0)


def test_what_config_json_leaves_out_has_the_familys_usual_value():
    sizes = {"vocab_size": 9, "hidden_size": 64, "num_hidden_layers": 30, "num_attention_heads": 4, "intermediate_size": 8}
    kinds = ("llama", "mistral", "qwen2", "qwen3")
    llama, mistral, qwen2, qwen3 = (config_of(sizes | {"model_type": kind}, "x") for kind in kinds)
    assert {c.rope_theta for c in (llama, mistral, qwen2, qwen3)} == {10000.0}
    assert [c.sliding_window for c in (llama, mistral, qwen2, qwen3)] == [None, 4096, None, None]
    assert [c.head_dim for c in (llama, mistral, qwen2, qwen3)] == [16, 16, 16, 128]
    assert (llama.kv_heads, llama.tied, llama.rms_eps, llama.context) == (4, False, 1e-6, None)
    late = sizes | {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 7}
    assert config_of(late | {"max_window_layers": 30}, "x").sliding_window is None
    assert config_of(late | {"layer_types": ["sliding_attention"] * 30}, "x").sliding_window == 7
    assert config_of(late | {"layer_types": ["full_attention"] * 30}, "x").sliding_window is None
    assert config_of(sizes | {"model_type": "llama", "sliding_window": 7}, "x").sliding_window is None


def test_a_dtype_is_what_was_asked_for_or_what_is_stored(tmp_path):
    theirs_model, folder = reference("qwen2.5, tied")
    assert load_checkpoint(folder)[0].dtype == torch.float32
    half, _ = load_checkpoint(folder, dtype=torch.bfloat16)
    for ours, weight in half.state_dict().items():
        assert torch.equal(weight, theirs_model.state_dict()[theirs(ours)].bfloat16()), ours
    shutil.copy(folder / "config.json", tmp_path)
    save_file({theirs(name): weight for name, weight in half.state_dict().items()}, tmp_path / "model.safetensors")
    back, _ = load_checkpoint(tmp_path)
    assert {weight.dtype for weight in back.parameters()} == {torch.bfloat16}
    assert torch.equal(load_checkpoint(tmp_path, dtype=torch.float64)[0].embed.weight, half.embed.weight.double())
    assert torch.equal(back(tokens(1, 5)), half(tokens(1, 5)))


def test_a_tied_head_may_be_stored_as_well_and_rotary_tables_are_left_alone(tmp_path):
    folder = reference("qwen3, tied")[1]
    shutil.copy(folder / "config.json", tmp_path)
    tensors = {}
    for shard in folder.glob("*.safetensors"):
        tensors |= load_file(shard)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    tensors["model.layers.1.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    save_file(tensors, tmp_path / "weights.safetensors")  # one file, whatever its name
    model, _ = load_checkpoint(tmp_path)
    assert model.head is None
    assert torch.equal(model(tokens(1, 5)), load_checkpoint(folder)[0](tokens(1, 5)))


def test_every_parameter_of_a_family_has_its_name():
    model, _ = load_checkpoint(reference("qwen3, heads wider than hidden")[1])
    used = {name.split(".")[-2] for name in model.state_dict()} | {"q_norm", "k_norm"}
    assert used == NAMES.keys()


def mapped_ranges(name):
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    return [[int(end, 16) for end in line[0].split("-")] for line in lines if line[-1].endswith(name)]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="Linux shows what is mapped")
def test_weights_that_keep_their_dtype_stay_in_the_mapped_file_and_others_do_not():
    folder = reference("llama 3")[1]
    model, _ = load_checkpoint(folder)
    inside = mapped_ranges(".safetensors")
    assert all(any(low <= w.data_ptr() < high for low, high in inside) for w in model.parameters())
    model.embed.weight.zero_()  # a private mapping: the file does not change
    assert load_checkpoint(folder)[0].embed.weight.abs().sum() > 0
    del model
    kept = load_checkpoint(folder, dtype=torch.bfloat16)
    assert mapped_ranges(".safetensors") == []
    del kept


def test_converting_holds_one_stored_tensor_at_a_time(monkeypatch):
    import safetensors

    live, peak = {}, []

    class Counting:
        def __init__(self, file, **options):
            self.handle = safe_open(file, **options)

        def __enter__(self):
            self.handle.__enter__()
            return self

        def __exit__(self, *args):
            return self.handle.__exit__(*args)

        def __getattr__(self, name):
            return getattr(self.handle, name)

        def get_tensor(self, name):
            tensor = self.handle.get_tensor(name)
            live[name] = tensor.nbytes
            weakref.finalize(tensor, live.pop, name)
            peak.append(len(live))
            return tensor

    folder = reference("llama 3")[1]
    monkeypatch.setattr(safetensors, "safe_open", Counting)
    model, _ = load_checkpoint(folder, dtype=torch.bfloat16)
    assert len(peak) == len(model.state_dict())  # each tensor is read once
    assert max(peak) == 1
    assert not live


def imports(path):
    """(names imported when the file is loaded, names imported later)."""
    at_once, later = set(), set()
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        (at_once if node in tree.body else later).update(name.split(".")[0] for name in names)
    return at_once, later


def test_transformers_is_never_imported_and_the_others_only_when_a_checkpoint_is_loaded():
    paths = list(Path(course_lib.__file__).parent.rglob("*.py"))
    naming = [path for path in paths if "transformers" in path.read_text()]
    assert naming
    assert not [path for path in naming if "transformers" in set.union(*imports(path))]
    ours = [imports(path) for path in paths if path.parent.name == "huggingface"]
    lazy = {"safetensors", "tokenizers", "huggingface_hub"}
    assert lazy <= set.union(*(later for _, later in ours))
    assert not lazy & set.union(*(at_once for at_once, _ in ours))
