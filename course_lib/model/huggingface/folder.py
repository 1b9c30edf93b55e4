"""What lies in a checkpoint's folder: its JSON files, and which tensor is in which shard, with shape and dtype.

Only the headers of the shards are read here, so a checkpoint that does not fit is refused before any weight is touched.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
POINTER = b"version https://git-lfs"
PICKLED = ("pytorch_model*.bin", "*.pth", "consolidated*.pth", "*.gguf")


@dataclass(frozen=True, slots=True)
class Stored:
    """A tensor on disk. dtype: safetensors' name, "BF16"."""

    file: Path
    shape: tuple[int, ...]
    dtype: str


def read_json(path: Path) -> dict[str, Any]:
    """FileNotFoundError or ValueError, with the next step, for a file that is missing or no JSON object."""
    if not path.is_file():
        raise FileNotFoundError(f"no {path.name} in {path.parent}; fetch it from where the checkpoint came from")
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}); fetch it again{_pointer(path)}") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path} holds a {type(data).__name__}, not an object with fields; fetch it again")
    return data


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """Every tensor of the checkpoint by its name. Errors name the shard or tensor that is missing, damaged or not expected."""
    files, index = _shards(folder)
    found: dict[str, Stored] = {}
    for file in files:
        with opened(file) as shard:
            for name in shard.keys():  # noqa: SIM118
                if index is not None and index.get(name) != file.name:
                    where = f"in {index[name]}" if name in index else "nowhere"
                    raise ValueError(f"{file} has unexpected {name}: {INDEX} puts it {where}; fetch both files again")
                piece = shard.get_slice(name)
                found[name] = Stored(file, tuple(piece.get_shape()), piece.get_dtype())
    if lost := sorted((index or {}).keys() - found.keys()):
        raise ValueError(f"{folder / index[lost[0]]} lacks {some(lost)}, which {INDEX} puts there; fetch both files again")
    return found


@contextmanager
def opened(file: Path) -> Iterator[Any]:
    """A shard, memory-mapped. ValueError for one that is cut short, damaged, or only a pointer of Git LFS."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="pt") as shard:
            yield shard
    except SafetensorError as error:
        raise ValueError(f"{file} ({file.stat().st_size} bytes) is cut short or damaged ({error}); fetch it again"
                         f"{_pointer(file)}") from None  # fmt: skip


def _shards(folder: Path) -> tuple[list[Path], dict[str, str] | None]:
    """The files with weights, and the index (tensor -> file name) where there is one. The order of `transformers`."""
    if (folder / WHOLE).is_file():
        return [folder / WHOLE], None
    if (folder / INDEX).is_file():
        index = read_json(folder / INDEX).get("weight_map")
        if not isinstance(index, dict) or not index:
            raise ValueError(f"{folder / INDEX} has no weight_map (tensor -> file); fetch it again")
        if odd := [name for name in index.values() if not isinstance(name, str) or not name.endswith(".safetensors")]:
            raise ValueError(f"{folder / INDEX} names {odd[0]!r}, which is no safetensors file; fetch the index again")
        names = sorted(set(index.values()))
        if odd := [name for name in names if Path(name).name != name]:
            raise ValueError(f"{folder / INDEX} names {odd[0]!r}, outside the folder; an index names files beside it")
        if missing := [name for name in names if not (folder / name).is_file()]:
            raise FileNotFoundError(
                f"{folder} lacks {some(missing)}, {len(missing)} of the {len(names)} shards that {INDEX} names; "
                "fetch what is missing"
            )
        return [folder / name for name in names], index
    single = sorted(folder.glob("*.safetensors"))
    if len(single) == 1:
        return single, None
    if single:
        raise FileNotFoundError(f"{folder} has {len(single)} shards and no {INDEX}: a lost one would not show; fetch the index")
    for pattern in PICKLED:
        if other := sorted(folder.glob(pattern)):
            raise FileNotFoundError(
                f"{folder} has {other[0].name} and no safetensors file; only those are read: take a release with them, "
                "or convert this one with transformers and save_pretrained"
            )
    raise FileNotFoundError(f"{folder} has no safetensors file; a checkpoint has {WHOLE}, or shards with {INDEX}")


def some(names: list[str]) -> str:
    """The first few of many names."""
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _pointer(file: Path) -> str:
    with file.open("rb") as content:
        return ", by `git lfs pull`: it is a pointer" if content.read(len(POINTER)) == POINTER else ""
