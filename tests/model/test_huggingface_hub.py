"""A path never touches the network; a hub id does, and says in one sentence why it could not."""

import builtins
import importlib
import re
import socket
from pathlib import Path

import huggingface_hub
import pytest
from huggingface_hub import errors

from course_lib.model.huggingface import load_checkpoint
from course_lib.model.huggingface.hub import FILES, folder_of

from .checkpoints import reference

ID = "Qwen/Qwen3-0.6B"
http = importlib.import_module(errors.HfHubHTTPError.__mro__[1].__module__.split(".")[0])  # httpx, or httpx2 since hub 2


@pytest.fixture
def no_network(monkeypatch):
    def touched(*args, **kwargs):
        raise AssertionError(f"a network access: {args}")

    monkeypatch.setattr(socket.socket, "connect", touched)
    monkeypatch.setattr(socket, "getaddrinfo", touched)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", touched)


@pytest.mark.usefixtures("no_network")
def test_a_path_is_only_looked_up(tmp_path, monkeypatch):
    folder = reference("llama 3")[1]
    model, _ = load_checkpoint(folder)
    assert model.config.name == "llama-3"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    wrong = ["models/qwen", "./Qwen/x", "../Qwen", "/nowhere/x", "~/no-such-folder-here", "nothing", "a/b/c"]
    for path in (tmp_path / "nothing", Path(ID), *wrong):
        with pytest.raises(FileNotFoundError, match=r"no folder .*; give one that has config\.json, or a hub id"):
            load_checkpoint(path)
    with pytest.raises(FileNotFoundError, match=r"no config\.json in "):
        load_checkpoint("models")
    (tmp_path / "models" / "model.safetensors").write_bytes(b"")
    with pytest.raises(ValueError, match="is a file; give its folder"):
        load_checkpoint("models/model.safetensors")


def test_an_id_is_fetched_with_what_we_read_and_names_the_model(monkeypatch, capfd):
    asked = []

    def fetch(repo_id, *, revision, allow_patterns, tqdm_class):
        asked.append((repo_id, revision, allow_patterns))
        with tqdm_class(total=2, desc="weights") as bar:
            bar.update(2)
        return str(reference("llama 3")[1])

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetch)
    reference("llama 3")
    capfd.readouterr()
    model, _ = load_checkpoint(ID, revision="main")
    assert asked == [(ID, "main", FILES)]
    assert model.config.name == ID
    shown = capfd.readouterr()
    assert "weights" in shown.out
    assert shown.err == ""


def response(status):
    return http.Response(status, request=http.Request("GET", "https://hub.invalid/x"))


@pytest.mark.parametrize(("error", "kind", "words"), [
    (errors.LocalEntryNotFoundError("Cannot find the files.\nMore lines"), ConnectionError, "the hub cannot be reached"),
    (errors.OfflineModeIsEnabled("HF_HUB_OFFLINE is set"), ConnectionError, "(HF_HUB_OFFLINE is set); check the network"),
    (http.ConnectError("refused"), ConnectionError, f"reached for {ID}, and its cache here is not complete (refused)"),
    (errors.HfHubHTTPError("500 Server Error", response=response(500)), ConnectionError, "(500 Server Error)"),
    (errors.RepositoryNotFoundError("404", response=response(404)), FileNotFoundError, f"the hub has no {ID} that you may see"),
    (errors.GatedRepoError("403", response=response(403)), PermissionError, "asks for its terms to be accepted"),
    (errors.RevisionNotFoundError("404", response=response(404)), FileNotFoundError, "has no revision 'v9'"),
    (ZeroDivisionError("a mistake of ours"), ZeroDivisionError, "a mistake of ours"),
])  # fmt: skip
def test_what_goes_wrong_is_said_in_a_sentence(error, kind, words, monkeypatch):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(kind, match=re.escape(words)) as told:
        load_checkpoint(ID, revision="v9")
    assert "\n" not in str(told.value)


def test_a_machine_without_huggingface_hub_is_told_what_to_do(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name.startswith("huggingface_hub"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=rf"{ID} is a hub id, and huggingface_hub is not installed; pip install"):
        folder_of(ID)
