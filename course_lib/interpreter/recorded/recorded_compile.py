"""What the kernels of recordings compile to for real GPUs: each distinct kernel and launch once, by compiled/."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..compiled import CompileReport, Launch, compile_reports
from ..compiled.arguments import describe
from ..text.kernel_source import KernelSource, Segment
from ..text.kernel_text import check_text, constant
from .recorded_arguments import described
from .told import field_names


def compile_recordings(
    tapes: Sequence[Mapping[str, Any]], targets: Sequence[str], *, cached: bool, where: str = ""
) -> list[list[CompileReport]]:
    """For each tape, the reports of its different launches, in order.

    cached  take finished reports from the user's cache; False where they must not be trusted
    where   the file that messages name in place of the kernels' own
    Raises RefusedText for a text that is not run here, TypeError for arguments that no launch could have.
    """
    launches: dict[str, Launch] = {}
    keys: list[list[str]] = []
    for tape in tapes:
        found = [_launch(tape, launch, targets, where) for launch in tape["launches"]]
        launches |= dict(found)
        keys.append(list(dict.fromkeys(key for key, _ in found)))
    reports = dict(zip(launches, compile_reports(list(launches.values()), cached=cached), strict=True))
    return [[reports[key] for key in mine] for mine in keys]


def _launch(tape: Mapping[str, Any], launch: Mapping[str, Any], targets: Sequence[str], where: str) -> tuple[str, Launch]:
    """(a key that is equal for launches that compile alike, the launch)."""
    kernel = tape["kernels"][launch["kernel"]]
    check_text(kernel["text"], field_names(tape))
    segments = tuple(Segment(at, count, where or file, line) for at, count, file, line in kernel["segments"])
    names = {"text": kernel["text"], "name": kernel["name"], "file": where or kernel["file"]}
    source = KernelSource(**names, first_line=kernel["first_line"], segments=segments, gluon=kernel["gluon"])
    arguments = {name: _argument(name, arg, tape["storages"]) for name, arg in launch["arguments"].items()}
    options = dict(launch["options"])
    key = json.dumps([source.text, source.name, describe(source, arguments, ()), options], sort_keys=True)
    return key, Launch(source, (), arguments | options, targets)


def _argument(name: str, arg: Mapping[str, Any], storages: Sequence[int]) -> Any:
    """A stand-in without memory: of a tensor only type, alignment and size matter to the compiler."""
    kind = arg["kind"]
    if kind == "tensor":
        return _tensor(arg, storages)
    if kind == "number":
        return arg["value"]
    if kind == "constant":
        return constant(arg["expression"])
    if kind == "tuple":
        return tuple(_argument(name, item, storages) for item in arg["items"])
    if kind == "descriptor":
        return described(_tensor(arg["base"], storages), arg)
    raise TypeError(f"argument {name} is a {kind}; call the function by its name in the kernel, so that it can be compiled apart")


def _tensor(arg: Mapping[str, Any], storages: Sequence[int]) -> Any:
    import torch

    dtype = getattr(torch, arg["dtype"])
    whole = torch.empty(storages[arg["storage"]] // dtype.itemsize, dtype=dtype, device="meta")
    tensor = whole.as_strided(arg["size"], arg["stride"], arg["offset"])
    if not arg["as"]:
        return tensor
    from triton import reinterpret

    return reinterpret(tensor, constant(arg["as"]))
