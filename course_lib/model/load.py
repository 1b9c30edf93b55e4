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
TWIN, SUFFIX = "-outliers", ".safetensors"
CONFIG = "config"  # its key in the header
DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
"""What weights are read from, by safetensors' names, and converted to."""
NEXT_STEP = (
    "course-target, course-draft and course-mla are in git and in the wheel: `git restore course_lib/model/weights`, or "
    "installing the course again, brings back a file that is gone. A file of your own is given by its path, which ends in "
    ".safetensors. Decoder(preset(name)) has a shape with random weights, huggingface.load_checkpoint loads released models"
)


def load(
    name: str | Path, *, dtype: torch.dtype | None = None, device: str | torch.device = "cpu", parts: Parts | None = None
) -> Decoder:
    """A trained model, ready to run: no gradients, eval mode.

    name    one of the course's ("course-target"), that name with "-outliers" for its outlier twin (outliers.py), or the path of
            a .safetensors file that `save` wrote
    dtype   None: float32 on a CPU, as stored elsewhere
    """
    name = str(name)
    there = sorted(file.stem for file in WEIGHTS.glob("*.safetensors"))
    if name.endswith(SUFFIX):
        path = Path(name).expanduser()
    else:
        path = WEIGHTS / f"{name.removesuffix(TWIN)}{SUFFIX}" if name.removesuffix(TWIN) in there else None
    if path is None or not path.is_file():
        raise FileNotFoundError(f"no weights {name!r}; this copy of the course has: {', '.join(there) or 'none'}. {NEXT_STEP}")
    refuse_dtype(dtype)
    device = device_named(device)
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

    again = "git restore brings it back" if path.parent == WEIGHTS else "fetch it again, or write it again by save"
    try:
        with safe_open(path, framework="pt") as file:
            header = file.metadata() or {}
            if CONFIG not in header:
                raise ValueError(f"{path} has no {CONFIG!r} in its header; files written by course_lib.model.save have it")
            try:
                config = ModelConfig.from_dict(json.loads(header[CONFIG]))
            except ValueError as error:
                raise ValueError(f"{path} has a {CONFIG!r} in its header that is none ({error}); {again}") from None
            model = empty(config, parts)
            refuse_strangers(model, file.keys(), path)
            for name in file.keys():  # noqa: SIM118
                if (stored := file.get_slice(name).get_dtype()) not in DTYPES:
                    raise ValueError(f"{path}: {name} is stored as {stored}; weights are {', '.join(DTYPES)}: {again}")
            fill(model, {name: file.get_tensor(name).to(device=device, dtype=dtype) for name in file.keys()}, path)  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is cut short or no safetensors file ({error}); {again}") from error
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

    path = Path(path).expanduser()
    refuse_dtype(dtype)
    if path.suffix != SUFFIX:
        raise ValueError(f"{str(path)!r} does not end in {SUFFIX}; load takes it for a name: call it {path.name}{SUFFIX}")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"no folder {str(path.parent)!r} for {path.name}; make it first")
    tensors = {name: weight.detach().to("cpu", dtype).contiguous() for name, weight in model.state_dict().items()}
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        # one entry only: safetensors writes several in random order, and equal models would give unequal files
        save_file(tensors, beside, metadata={CONFIG: json.dumps(model.config.to_dict())})
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)
    return path


def refuse_dtype(dtype: torch.dtype | None) -> None:
    """ValueError for what weights are not converted to: whole numbers and 8-bit floats mean nothing without scales."""
    if dtype is not None and dtype not in DTYPES.values():
        raise ValueError(f"weights are not converted to {dtype!r}; use one of {', '.join(map(str, DTYPES.values()))}")


def device_named(device: str | torch.device) -> torch.device:
    """ValueError for a device that there is not, before anything is read."""
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        found = None
    if found is None or (found.type == "cuda" and not (found.index or 0) < torch.cuda.device_count()):
        count = torch.cuda.device_count()
        raise ValueError(f"device {device!r}: this machine has 'cpu' and {count} CUDA devices; use one of them")
    return found


def _few(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
