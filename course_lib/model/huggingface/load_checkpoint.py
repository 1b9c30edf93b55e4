"""Weights of a released checkpoint into our Decoder: all is checked by the headers first, then tensor after tensor is read.

Memory   The shards are memory-mapped. A tensor that keeps its dtype on the CPU stays a view of the file; any other is
         converted alone, and its pages are let go. So the peak is the model plus one tensor, never the model twice.
         Do not change the files while a model that views them is in use.
"""

from pathlib import Path

import torch
from torch import Tensor

from ..decoder import Decoder
from ..load import DTYPES, device_named, empty, fill, refuse_dtype
from ..parts import Parts
from . import folder as files
from .families import config_of
from .hub import folder_of
from .names import DERIVED, EMBEDDING, HEAD, theirs
from .tokenizer_file import CheckpointTokenizer, end_ids


def load_checkpoint(
    path_or_id: str | Path, *, dtype: torch.dtype | None = None, device: str | torch.device = "cpu",
    parts: Parts | None = None, revision: str | None = None,
) -> tuple[Decoder, CheckpointTokenizer | None]:  # fmt: skip
    """A Llama, Mistral, Qwen2.5 or Qwen3 checkpoint -> (model, tokenizer): no gradients, eval mode.

    path_or_id  a folder with config.json, safetensors and tokenizer.json, or a hub id; `revision` is for the latter
    dtype       None: as the embedding is stored (an 8B model in float32 would need 32 GB)
    tokenizer   None where the folder has no tokenizer.json
    ValueError, by name, for what does not fit; FileNotFoundError for what is missing.
    """
    path = folder_of(path_or_id, revision)
    name = path.resolve().name if Path(path_or_id).expanduser() == path else str(path_or_id)
    data = files.read_json(path / "config.json")
    refuse_dtype(dtype)
    device = device_named(device)
    model = empty(config_of(data, name), parts)
    stored = files.stored_tensors(path)
    wanted = {theirs(ours): ours for ours in model.state_dict()}
    _refuse(stored, wanted, model, path)
    tokenizer = None
    if (path / "tokenizer.json").is_file():
        tokenizer = CheckpointTokenizer.load(path / "tokenizer.json", end_ids(path), vocab_limit=model.config.vocab)
        model.tokenizer_factory = lambda: tokenizer
    fill(model, _read(stored, wanted, dtype or DTYPES[stored[EMBEDDING].dtype], device), path)
    return model, tokenizer


def _refuse(stored: dict[str, files.Stored], wanted: dict[str, str], model: Decoder, path: Path) -> None:
    """ValueError unless the checkpoint has exactly the model's tensors, in its shapes and in a float dtype."""
    missing, config = sorted(wanted.keys() - stored.keys()), model.config
    also = {HEAD} if config.tied else set()  # some releases store the tied head as well; _read compares it
    unexpected = sorted(n for n in stored.keys() - wanted.keys() - also if not DERIVED.fullmatch(n))
    if missing or unexpected:
        told = [f"lacks {files.some(missing)}"] * bool(missing) + [f"has unexpected {files.some(unexpected)}"] * bool(unexpected)
        hint = ""
        if HEAD in missing:
            hint = "; tie_word_embeddings is false in config.json: a checkpoint without a head of its own says true"
        elif config.tied and EMBEDDING in missing:
            hint = "; tie_word_embeddings is true in config.json, and the one tensor that embedding and head share is not there"
        raise ValueError(f"{path} {' and '.join(told)}: it does not fit its config.json{hint}")
    weights = model.state_dict()
    for name in sorted(wanted.keys() | (also & stored.keys())):
        found, shape = stored[name], tuple(weights[wanted.get(name, "embed.weight")].shape)
        if found.shape != shape:
            raise ValueError(f"{found.file}: {name} is {list(found.shape)}, config.json asks for {list(shape)}")
        if found.dtype not in DTYPES:
            raise ValueError(
                f"{found.file}: {name} is stored as {found.dtype}, which has no meaning without its scales; "
                f"only {', '.join(DTYPES)} are converted: take the release in bf16 or fp16"
            )


def _read(
    stored: dict[str, files.Stored], wanted: dict[str, str], dtype: torch.dtype, device: torch.device
) -> dict[str, Tensor]:
    """Shard after shard, tensor after tensor -> our names."""
    read: dict[str, Tensor] = {}
    for file in sorted({tensor.file for tensor in stored.values()}):
        with files.opened(file) as shard:
            for name, tensor in stored.items():
                if tensor.file == file and name in wanted:
                    read[wanted[name]] = _converted(shard.get_tensor(name), dtype, device, f"{file}: {name}")
    if HEAD in stored and HEAD not in wanted:
        _refuse_another_head(stored)
    return read


def _converted(tensor: Tensor, dtype: torch.dtype, device: torch.device, where: str) -> Tensor:
    """On the device first, where converting is fast; the tensor itself when nothing changes."""
    tensor = tensor.to(device)
    if dtype == torch.float16 and tensor.dtype != dtype:
        low, high = tensor.aminmax()
        largest, limit = max(-low.item(), high.item()), torch.finfo(dtype).max
        if largest > limit:
            raise ValueError(f"{where} reaches {largest:g}, and float16 ends at {limit:g}; use bfloat16 or float32")
    return tensor.to(dtype)


def _refuse_another_head(stored: dict[str, files.Stored]) -> None:
    """A tied head that is stored all the same has to be the embedding."""
    with files.opened(stored[HEAD].file) as one, files.opened(stored[EMBEDDING].file) as other:
        differ = (one.get_tensor(HEAD) != other.get_tensor(EMBEDDING)).sum().item()
    if differ:
        raise ValueError(
            f"{stored[HEAD].file}: {HEAD} differs from {EMBEDDING} in {differ} values, and config.json says they are tied; "
            "set tie_word_embeddings to false there, or take a checkpoint that is whole"
        )
