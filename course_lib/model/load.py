"""Weights from and to disk: one safetensors file in bf16, whose header carries the config.

The file is memory-mapped, and a model is built without memory of its own first, so that each weight is touched once: when it is
read. Nothing is loaded halfway: a missing, an unexpected or a misshapen tensor is refused by name.
"""

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from .config import ModelConfig
from .decoder import Decoder
from .parts import Parts

WEIGHTS = Path(__file__).parent / "weights"
TWIN = "-outliers"
CONFIG = "config"  # its key in the header
NEXT_STEP = (
    "course-target, course-draft and course-mla are in git and in the wheel: `git restore course_lib/model/weights`, or "
    "installing the course again, brings back a file that is gone. Decoder(preset(name)) has a shape with random weights, "
    "huggingface.load_checkpoint loads released models"
)


def load(
    name: str | Path, *, dtype: torch.dtype | None = None, device: str | torch.device = "cpu", parts: Parts | None = None
) -> Decoder:
    """A trained model, ready to run: no gradients, eval mode.

    name    one of the course's ("course-target"), that name with "-outliers" for its outlier twin (outliers.py), or a file's path
    dtype   None: float32 on a CPU, as stored elsewhere
    """
    name = str(name)
    path = Path(name) if name.endswith(".safetensors") else WEIGHTS / f"{name.removesuffix(TWIN)}.safetensors"
    if not path.is_file():
        there = ", ".join(sorted(file.stem for file in WEIGHTS.glob("*.safetensors"))) or "none"
        raise FileNotFoundError(f"no weights {str(path)!r}; this copy of the course has: {there}. {NEXT_STEP}")
    device = torch.device(device)
    if dtype is None and device.type == "cpu":
        dtype = torch.float32
    model = read(path, dtype=dtype, device=device, parts=parts)
    if path.parent == WEIGHTS:
        from .tokenizer import Tokenizer

        model.tokenizer_factory = Tokenizer.load
    if name.endswith(TWIN):
        from .outliers import outlier_twin

        model = outlier_twin(model)
    return model


def read(path: Path, *, dtype: torch.dtype | None, device: torch.device, parts: Parts | None = None) -> Decoder:
    """The model in one file. ValueError for a file that is no checkpoint of ours."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if CONFIG not in header:
                raise ValueError(f"{path} has no {CONFIG!r} in its header; files written by course_lib.model.save have it")
            model = empty(ModelConfig.from_dict(json.loads(header[CONFIG])), parts)
            refuse_strangers(model, file.keys(), path)
            fill(model, {name: file.get_tensor(name).to(device=device, dtype=dtype) for name in file.keys()}, path)  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is cut short or no safetensors file ({error}); fetch it again, by git restore") from error
    return model


def empty(config: ModelConfig, parts: Parts | None = None) -> Decoder:
    """A decoder whose parameters have shapes and no memory; `fill` gives them values."""
    with torch.device("meta"):
        return Decoder(config, parts)


def refuse_strangers(model: Decoder, found: Iterable[str], source: object) -> None:
    """ValueError, with the names, unless `found` are exactly the model's parameters."""
    wanted, found = set(model.state_dict()), set(found)
    missing, unexpected = sorted(wanted - found), sorted(found - wanted)
    told = [f"lacks {_few(missing)}"] * bool(missing) + [f"has unexpected {_few(unexpected)}"] * bool(unexpected)
    if told:
        raise ValueError(f"{source} {' and '.join(told)}: it does not fit the config of {model.config.name!r}")


def fill(model: Decoder, tensors: Mapping[str, Tensor], source: object) -> Decoder:
    """Make the tensors the model's parameters, uncopied. ValueError for wrong names or shapes; the model is then as before."""
    refuse_strangers(model, tensors, source)
    for name, weight in model.state_dict().items():
        if weight.shape != tensors[name].shape:
            raise ValueError(f"{source}: {name} is {list(tensors[name].shape)}, the config wants {list(weight.shape)}")
    model.load_state_dict(tensors, assign=True)
    return model.eval().requires_grad_(False)


def save(model: Decoder, path: str | Path, dtype: torch.dtype = torch.bfloat16) -> Path:
    """Write weights and config to one file -> its path. A file already there stays until the new one is whole."""
    from safetensors.torch import save_file

    path = Path(path)
    tensors = {name: weight.detach().to("cpu", dtype).contiguous() for name, weight in model.state_dict().items()}
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # one entry only: safetensors writes several in random order, and equal models would give unequal files
        save_file(tensors, beside, metadata={CONFIG: json.dumps(model.config.to_dict())})
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
