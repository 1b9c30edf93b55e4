"""Runs in the clean process: takes a recording's launches one after the other through the interpreter, with the ledger on.

`python -c "...; main(FOLDER)"`: FOLDER/request holds a list of {"tape", "answer", "inputs", "buffers", "metadata",
"pictures"}; for each
one FOLDER/result_N is written at once, so that the parent knows how far a process came that died.
Result   {"reason", "launches": [LaunchLedger], "counts", "answer": replay.py's structure}; reason is "" for a clean replay.
"""

import contextlib
import hashlib
import importlib.util
import sys
from collections import namedtuple
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..counts.books import LaunchLedger, Ledger
from ..mistakes.faults import KernelMistake
from ..text.kernel_text import RefusedText, check_text, constant
from . import plain
from .recorded_arguments import described
from .replay_memory import Damaged, ReplayMemory, Unexplained
from .told import Told, field_names, limit

MAX_NUMBERS = 256  # in one launch's arguments; a kernel with more is given data as numbers
MAX_FLOATS = 16


def main(folder: str) -> None:
    import torch  # noqa: F401 - before `enable`, which plants the canary in torch's new memory

    from .. import switch

    root = Path(folder)
    if refusal := switch.enable():
        plain.save(root / "unfit", refusal)
        return
    requests = plain.load(root / "request")
    (root / "started").touch()
    for number, request in enumerate(requests):
        plain.save(root / f"result_{number}", _result(root, request))


def _result(root: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    book = Ledger()
    try:
        answer = _replayed(root, request, book)
    except (Unexplained, RefusedText, KernelMistake) as error:
        return {"reason": str(error), "launches": [], "counts": {}, "answer": None}
    except Exception as error:  # a forged recording has any shape, and ends this recording, not the process
        reason = f"the recording cannot be replayed ({type(error).__name__}: {str(error)[:200]})"
        return {"reason": reason, "launches": [], "counts": {}, "answer": None}
    if not request["pictures"]:
        for launch in book.launches:
            launch.touched = {}
    return {"reason": "", "launches": book.launches, "counts": _counts(book), "answer": answer}


def _counts(book: Ledger) -> dict[str, int]:
    nothing = LaunchLedger("", (0, 0, 0)).counts() | {"launches": 0}
    return {**nothing, **book.counts()}


def _replayed(root: Path, request: Mapping[str, Any], book: Ledger) -> Any:
    """Run every launch -> the answer's tensors."""
    from ..switch import ledger

    tape = request["tape"]
    memory, told = ReplayMemory(tape["storages"], request["inputs"], request["buffers"]), Told()
    kernels = [_kernel(root, kernel, field_names(tape)) for kernel in tape["kernels"]]
    for kernel in tape["kernels"]:
        told.text(kernel["text"])
    for number, launch in enumerate(tape["launches"], start=1):
        module, kernel = kernels[launch["kernel"]]
        what = f"launch {number} ({tape['kernels'][launch['kernel']]['name']})"
        for change in launch["found"]:
            memory.find(change)
        tensors = list(tensors_of(launch["arguments"]))
        told.launch(launch)
        try:
            _refuse_data_as_numbers(launch["arguments"])
            kept_out = _kept_out(memory, tensors, request["metadata"])
            arguments = {name: _argument(arg, memory, module) for name, arg in launch["arguments"].items()}
            with ledger(pictures=True) as mine, _without_reads_of(kept_out, dict(tensors), mine):
                kernel[tuple(launch["grid"])](**arguments)
        except Unexplained as error:
            raise Unexplained(f"{what}: {error}") from None
        mine.launches[-1].config = str(launch["config"])
        book.launches += mine.launches
        for name, arg in tensors:
            if touched := mine.launches[-1].touched.get(name):
                memory.wrote(arg, touched.stores)
    answer = _answer(request["answer"], memory)
    if answer is not None:
        _refuse_told(told.bits + memory.told_bits, limit(answer))
    return answer


def _kept_out(memory: ReplayMemory, tensors: list, metadata: list[str]) -> dict[str, Unexplained]:
    """Let in what can be explained -> why the rest of each argument stays out of the memory."""
    found = {}
    for name, arg in tensors:
        try:
            memory.explain(f"argument {name}", arg, name in metadata)
        except Unexplained as error:
            found[name] = error
    return found


@contextlib.contextmanager
def _without_reads_of(kept_out: Mapping[str, Unexplained], tensors: Mapping[str, Any], book: Ledger) -> Iterator[None]:
    """One launch: it may write where unexplained values were; one that reads there, or stumbles over what it read, raises."""
    try:
        yield
    except KernelMistake as mistake:
        _refuse_reads(kept_out, tensors, book)
        if mistake.kind == "unwritten" and mistake.argument in kept_out:  # an atomic reads and counts as a write
            raise kept_out[mistake.argument] from None
        raise
    _refuse_reads(kept_out, tensors, book)


def _refuse_reads(kept_out: Mapping[str, Unexplained], tensors: Mapping[str, Any], book: Ledger) -> None:
    for name, why in kept_out.items():
        touched = book.launches[-1].touched.get(name) if book.launches else None
        places = np.asarray(why.at) - tensors[name]["offset"]
        if touched is not None and touched.loads[places[places < touched.loads.size]].any():
            raise why from None


def _refuse_told(bits: int, most: int) -> None:
    if bits > most:
        raise Unexplained(
            f"your launches are told {bits:,} bits besides the inputs, in numbers, constants, texts, fills and offsets; for an "
            f"answer of this size the limit is {most:,}, because a result must not travel so: pass data as tensors"
        )


def _kernel(root: Path, source: Mapping[str, Any], fields: set[str]) -> tuple[Any, Any]:
    """(module, kernel) of a recorded text, written to a file because Triton reads a kernel from its file."""
    if source["gluon"]:
        raise RefusedText(f"{source['name']} is a Gluon kernel, which only a GPU runs; it cannot be replayed")
    check_text(source["text"], fields)
    name = "recorded_" + hashlib.sha256(source["text"].encode()).hexdigest()[:20]
    path = root / f"{name}.py"
    if name not in sys.modules:
        path.write_text(source["text"], encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    _name_lines(str(path), source["segments"])
    return sys.modules[name], getattr(sys.modules[name], source["name"])


def _name_lines(path: str, segments: list) -> None:
    """Messages and the ledger name a line of the text by the file and number that it was copied from."""
    from ..watch import rename_line

    for text_line, count, file, line in segments:
        for step in range(count):
            rename_line(path, text_line + step, str(file), int(line) + step)


def tensors_of(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(name, place) of every tensor argument, named as the ledger names it."""
    for name, arg in arguments.items():
        if arg["kind"] == "tensor":
            yield name, arg
        elif arg["kind"] == "descriptor":
            yield name, arg["base"]
        elif arg["kind"] == "tuple":
            fields = arg["fields"] or range(len(arg["items"]))
            yield from tensors_of({f"{name}.{part}": item for part, item in zip(fields, arg["items"], strict=True)})


def _refuse_data_as_numbers(arguments: Mapping[str, Any]) -> None:
    """A result may not travel as numbers: what a kernel is told in numbers is sizes, strides and a few factors."""
    numbers = list(_numbers(list(arguments.values())))
    floats = sum(isinstance(number, float) for number in numbers)
    if len(numbers) > MAX_NUMBERS or floats > MAX_FLOATS:
        raise Unexplained(
            f"its arguments hold {len(numbers)} numbers, {floats} of them floats; the limits are {MAX_NUMBERS} and {MAX_FLOATS}, "
            "because data is passed as tensors"
        )


def _numbers(args: list) -> Iterator[Any]:
    for arg in args:
        if arg["kind"] == "number":
            yield arg["value"]
        elif arg["kind"] == "tuple":
            yield from _numbers(arg["items"])
        elif arg["kind"] == "constant":
            yield from _flat(constant(arg["expression"]))


def _flat(value: Any) -> Iterator[Any]:
    value = getattr(value, "value", value)
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _flat(item)
    elif isinstance(value, (int, float)):
        yield value


def _argument(arg: Mapping[str, Any], memory: ReplayMemory, module: Any) -> Any:
    """The value that the kernel is launched with."""
    kind = arg["kind"]
    if kind == "tensor":
        tensor = memory.tensor(arg)
        if not arg["as"]:
            return tensor
        from triton import reinterpret

        return reinterpret(tensor, constant(arg["as"]))
    if kind == "number" and isinstance(arg["value"], (bool, int, float)):
        return arg["value"]
    if kind == "constant":
        return _unchanging(constant(arg["expression"]))
    if kind == "function":
        return getattr(module, arg["name"])
    if kind == "tuple":
        items = [_argument(item, memory, module) for item in arg["items"]]
        return namedtuple("Arguments", arg["fields"])(*items) if arg["fields"] else tuple(items)
    if kind == "descriptor":
        return described(_argument(arg["base"], memory, module), arg)
    raise Damaged(f"an argument of kind {str(kind)[:40]!r}")


def _unchanging(value: Any) -> Any:
    """A list as a tuple: what one program would leave in it, the next would find."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_unchanging, value))
    return type(value)(_unchanging(value.value)) if type(value).__name__ == "constexpr" else value


def _answer(node: Any, memory: ReplayMemory) -> Any:
    """The structure of `Tape.locate` with the replay's tensors in it: {"kind", "tensor", "copied", "first"} for each."""
    if node is None or node["kind"] in ("value", "elsewhere"):
        return node
    if node["kind"] == "tensor":
        memory.explain("your answer", node, False)  # a part that was filled and that no argument covered
        copied = memory.foreign(node)
        first = int(copied[0]) if len(copied) else -1
        return {"kind": "tensor", "tensor": memory.tensor(node), "copied": len(copied), "first": first}
    if node["kind"] == "dict":
        return {"kind": "dict", "items": {name: _answer(item, memory) for name, item in node["items"].items()}}
    return {"kind": node["kind"], "items": [_answer(item, memory) for item in node["items"]]}
