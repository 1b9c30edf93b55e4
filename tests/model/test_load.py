"""Weights on disk: the same model comes back, and nothing is loaded halfway."""

import json
import re
import sys

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from course_lib.model import load, save
from course_lib.model.load import empty, fill

from .tiny import KINDS, config, decoder, tokens


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_comes_back(kind, tmp_path):
    model = decoder(kind).bfloat16()
    path = save(model, tmp_path / "m.safetensors")
    back = load(path, dtype=torch.bfloat16)
    assert back.config == model.config
    assert back.state_dict().keys() == model.state_dict().keys()
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), back.state_dict().values(), strict=True))
    assert torch.equal(model(tokens(1, 6)), back(tokens(1, 6)))
    assert not back.training
    assert not any(weight.requires_grad for weight in back.parameters())


def test_a_cpu_gets_float32_and_the_file_is_bf16(tmp_path):
    path = save(decoder(), tmp_path / "m.safetensors")
    assert load(path).dtype == torch.float32
    with safe_open(path, "pt") as file:
        assert {file.get_tensor(name).dtype for name in file.keys()} == {torch.bfloat16}  # noqa: SIM118
    assert load(save(decoder(), path, dtype=torch.float32)).state_dict()["embed.weight"].equal(decoder().embed.weight)


def rewrite(path, change, metadata=None):
    tensors = load_file(path)
    with safe_open(path, "pt") as file:
        header = file.metadata()
    change(tensors)
    save_file(tensors, path, metadata=header if metadata is None else metadata)


@pytest.mark.parametrize(("change", "words"), [
    (lambda t: t.pop("layers.1.up.weight"), "lacks layers.1.up.weight"),
    (lambda t: t.update({"layers.0.q.bias": torch.ones(1)}), "has unexpected layers.0.q.bias"),
    (lambda t: t.update({"up": t.pop("layers.1.up.weight")}), "lacks layers.1.up.weight and has unexpected up"),
    (lambda t: [t.pop(f"layers.0.{n}.weight") for n in ("q", "k", "v", "o", "up")], "layers.0.up.weight and 1 more"),
    (lambda t: t.update({"final_norm.weight": torch.ones(65)}), "final_norm.weight is [65], the config wants [64]"),
])  # fmt: skip
def test_tensors_that_do_not_fit_are_refused_by_name(change, words, tmp_path):
    path = save(decoder(), tmp_path / "m.safetensors")
    rewrite(path, change)
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        load(path)
    assert str(path) in str(error.value)


def test_a_tied_head_is_not_stored_and_an_untied_one_must_be(tmp_path):
    path = save(decoder(), tmp_path / "m.safetensors")
    assert "head.weight" not in load_file(path)
    untied = json.dumps(config(tied=False).to_dict())
    rewrite(path, lambda t: None, {"config": untied})
    with pytest.raises(ValueError, match=r"lacks head\.weight"):
        load(path)


def test_files_that_are_no_checkpoint_of_ours_are_refused(tmp_path):
    path = save(decoder(), tmp_path / "m.safetensors")
    whole = path.read_bytes()
    for part in (whole[:-100], b"version https://git-lfs.github.com/spec/v1\n", b""):
        path.write_bytes(part)
        with pytest.raises(ValueError, match="is cut short or no safetensors file"):
            load(path)
    save_file({"a": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="no 'config' in its header"):
        load(path)
    with pytest.raises(FileNotFoundError, match=r"no weights 'course-nothing'; this copy of the course has: "):
        load("course-nothing")


@pytest.mark.parametrize("name", [
    "", ".", "..", "../weights/course-target", "course-target.safetensors", "course-target ", "COURSE-TARGET", "/etc/passwd",
    "course-target-outliers-outliers", "-outliers", "~/no-such.safetensors", "x" * 5000,
])  # fmt: skip
def test_what_is_neither_a_name_nor_a_file_is_named(name):
    with pytest.raises(FileNotFoundError, match=re.escape(f"no weights {name!r}; this copy of the course has: course-draft, ")):
        load(name)


def test_a_path_with_blanks_letters_of_all_kinds_and_no_right_to_write_is_read(tmp_path):
    folder = tmp_path / "mit Leerzeichen, ü, 日本"
    folder.mkdir()
    path = save(decoder(), folder / "a b.safetensors")
    path.chmod(0o444)
    before = path.read_bytes()
    model = load(path, dtype=torch.bfloat16)
    with torch.no_grad():
        model.embed.weight.add_(1)  # the file is mapped, and what is written goes into memory
    assert path.read_bytes() == before
    assert not torch.equal(load(path, dtype=torch.bfloat16).embed.weight, model.embed.weight)


@pytest.mark.parametrize(("config_text", "words"), [
    ("{", "Expecting property name"), ("[1]", "a model's config is [1]; it has to be a mapping"),
    ({"hidden": None}, "hidden is None; use a whole number from 1 on"), ({"hidden": "64"}, "hidden is '64'; use a whole number"),
    ({"layers": 2.0}, "layers is 2.0; use a whole number"), ({"layers": True}, "is True"), ({"layers": -3}, "layers is -3"),
    ({"context": 0}, "context is 0; use at least 1, or None for none"), ({"rope_theta": 0}, "rope_theta is 0; use a finite"),
    ({"rms_eps": "1e-5"}, "rms_eps is '1e-5'"), ({"mla": {"rank": 1}}, "unknown fields ['rank'] in mla of a model's config"),
    ({"mla": {"kv_rank": 1, "rope_dim": 2}}, "mla of a model's config lacks ['nope_dim', 'v_dim']"),
    ({"mla": {"kv_rank": 0, "rope_dim": 2, "nope_dim": 1, "v_dim": 1}}, "mla: kv_rank is 0; use at least 1"),
    ({"rope_scaling": {"factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 4.0, "original_context": 64}},
     "low_freq_factor 4.0 is not below high_freq_factor 4.0"),
    ({"rope_scaling": {"factor": 0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_context": 64}}, "factor is 0"),
])  # fmt: skip
def test_a_header_whose_config_is_none_is_refused_with_the_file_and_the_field(config_text, words, tmp_path):
    path = save(decoder(), tmp_path / "m.safetensors")
    text = config_text if isinstance(config_text, str) else json.dumps(config().to_dict() | config_text)
    rewrite(path, lambda t: None, {"config": text})
    with pytest.raises(ValueError, match=re.escape(words)) as error:
        load(path)
    assert str(error.value).startswith(f"{path} has a 'config' in its header that is none (")


def test_a_config_that_lacks_a_field_names_it(tmp_path):
    path = save(decoder(), tmp_path / "m.safetensors")
    short = config().to_dict()
    del short["hidden"], short["vocab"]
    rewrite(path, lambda t: None, {"config": json.dumps(short)})
    with pytest.raises(ValueError, match=r"a model's config lacks \['hidden', 'vocab'\]"):
        load(path)


@pytest.mark.parametrize(("dtype", "name"), [(torch.int16, "I16"), (torch.float8_e4m3fn, "F8_E4M3"), (torch.bool, "BOOL")])
def test_weights_stored_as_what_means_nothing_without_scales_are_refused(dtype, name, tmp_path):
    path = save(decoder(), tmp_path / "m.safetensors")
    rewrite(path, lambda t: t.update({"layers.0.q.weight": t["layers.0.q.weight"].to(dtype)}))
    with pytest.raises(ValueError, match=re.escape(f"{path}: layers.0.q.weight is stored as {name}; weights are F64, F32, ")):
        load(path)


@pytest.mark.parametrize("dtype", [torch.int8, torch.float8_e4m3fn, torch.complex64, "bfloat16", "fp16", float])
def test_a_dtype_that_weights_are_not_converted_to_is_refused(dtype, tmp_path):
    for call in (lambda: load("course-draft", dtype=dtype), lambda: save(decoder(), tmp_path / "m.safetensors", dtype=dtype)):
        with pytest.raises(ValueError, match=r"weights are not converted to .*; use one of torch\.float64"):
            call()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("device", ["gpu", "cuda:99", "", None])
def test_a_device_that_there_is_not_is_named(device):
    with pytest.raises(ValueError, match=re.escape(f"device {device!r}: this machine has 'cpu' and ")):
        load("course-draft", device=device)


def test_where_a_file_cannot_lie_is_said_before_anything_is_written(tmp_path):
    with pytest.raises(ValueError, match=r"'.*weights' does not end in \.safetensors; .* call it weights\.safetensors"):
        save(decoder(), tmp_path / "weights")
    with pytest.raises(FileNotFoundError, match=r"no folder '.*nowhere' for m\.safetensors; make it first"):
        save(decoder(), tmp_path / "nowhere" / "m.safetensors")


def test_who_has_no_weights_is_told_what_there_is_instead(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules["course_lib.model.load"], "WEIGHTS", tmp_path)
    with pytest.raises(FileNotFoundError, match="has: none") as error:
        load("course-target")
    for step in ("and course-mla", "git restore", "Decoder(preset(name))", "huggingface.load_checkpoint"):
        assert step in str(error.value)


def test_equal_models_give_equal_files(tmp_path):
    files = {save(decoder(), tmp_path / f"{copy}.safetensors").read_bytes() for copy in range(8)}
    assert len(files) == 1


def test_a_failed_save_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = save(decoder(), tmp_path / "m.safetensors")
    before = path.read_bytes()
    monkeypatch.setattr("os.replace", lambda *a: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        save(decoder(seed=5), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["m.safetensors"]


def test_filling_takes_the_tensors_uncopied_or_changes_nothing():
    weights, model = decoder().state_dict(), empty(config())
    with pytest.raises(ValueError, match=r"a test lacks embed\.weight"):
        fill(model, {name: w for name, w in weights.items() if name != "embed.weight"}, "a test")
    assert model.final_norm.weight.is_meta
    fill(model, weights, "a test")
    assert model.embed.weight.data_ptr() == weights["embed.weight"].data_ptr()
    assert torch.equal(model(tokens(1, 4)), decoder()(tokens(1, 4)))


def test_a_model_without_a_tokenizer_says_so():
    with pytest.raises(ValueError, match="grouped came without a tokenizer"):
        decoder().tokenizer()


def test_a_name_gives_the_courses_weights_their_tokenizer_and_the_twin(tmp_path, monkeypatch):
    from course_lib.model.tokenizer import Tokenizer

    monkeypatch.setattr(sys.modules["course_lib.model.load"], "WEIGHTS", tmp_path)
    save(decoder(), tmp_path / "small.safetensors")
    model, twin = load("small"), load("small-outliers")
    assert model.tokenizer_factory == twin.tokenizer_factory == Tokenizer.load
    loud = twin.layers[0].mlp_norm.weight / model.layers[0].mlp_norm.weight
    assert sorted(set(loud.tolist())) == [1, 16, 32, 64]
    assert torch.equal(model(tokens(1, 6)), twin(tokens(1, 6)))
    with pytest.raises(FileNotFoundError, match="this copy of the course has: small"):
        load("large")
