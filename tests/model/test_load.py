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
    with pytest.raises(FileNotFoundError, match=r"no weights '.*course-nothing\.safetensors'; this copy of the course has: "):
        load("course-nothing")


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
