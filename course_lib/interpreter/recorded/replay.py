"""Recorded launches run again in a clean process: what they alone compute, what they cost, and whether an answer follows from it.

An answer follows from its launches when every launch was given inputs, fresh memory or what an earlier launch wrote
(replay_memory.py), and when the answer's tensors lie in memory that the launches wrote. `Replay.output` is that answer as the
clean process computed it: whoever judges compares the learner's with it, or judges it in the learner's place.
Not seen  what a float or an integer argument was computed from (told.py limits how much they say together), and work on the host
          that only moves whole inputs (x.contiguous()).
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..counts.books import LaunchLedger
from ..mistakes.memory import Storage
from ..text.jit_functions import inner_function
from . import replay_process
from .plain import tensor_bytes

SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What is to be replayed.

    tape, answer  `Tape.data()` and `Tape.locate(output)`
    inputs        the tensors that the judge hands to the learner's function, as its own copies
    buffers       those of the inputs that the function may write to: what is left of them may stand in the answer
    may_compute   names of kernel arguments that the host may compute (offsets, work lists)
    """

    tape: Mapping[str, Any]
    answer: Any = None
    inputs: Sequence[Any] = ()
    buffers: Sequence[Any] = ()
    may_compute: Sequence[str] = ()
    pictures: bool = False


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of one recording.

    reason    why it proves nothing, "" when it was replayed; `blocked` when that is no fault of the kernels (a dead process)
    counts    LaunchLedger.counts added up over the launches
    output    the answer with the replay's own tensors; values that are no tensors are None
    copied    elements of the answer that no launch wrote, apart from blank ones (0, inf, NaN); `first` names one
    """

    reason: str = ""
    blocked: bool = False
    counts: Mapping[str, int] = field(default_factory=dict)
    launches: Sequence[LaunchLedger] = ()
    output: Any = None
    copied: int = 0
    first: str = ""


def replay(
    tape: Mapping[str, Any],
    inputs: Sequence[Any] = (),
    *,
    buffers: Sequence[Any] = (),
    answer: Any = None,
    may_compute: Sequence[str] = (),
    pictures: bool = False,
    seconds: float = SECONDS,
) -> Replay:
    """Replay one recording in a process of its own (see Recording for the arguments)."""
    one = Recording(tape=tape, answer=answer, inputs=inputs, buffers=buffers, may_compute=may_compute, pictures=pictures)
    return replay_all([one], seconds=seconds)[0]


def replay_all(recordings: Sequence[Recording], *, seconds: float = SECONDS) -> list[Replay]:
    """Replay many in one process: starting it costs far more than a small kernel. seconds: for all of them together."""
    requests = [
        {
            "tape": r.tape, "answer": r.answer, "inputs": [_bytes(tensor) for tensor in r.inputs],
            "buffers": [_bytes(tensor) for tensor in r.buffers], "metadata": list(r.may_compute), "pictures": r.pictures,
        }
        for r in recordings
    ]  # fmt: skip
    if not requests:
        return []
    results, end = replay_process.run(requests, seconds)
    found = [_replay(result) for result in results]
    return found + [Replay(reason=end, blocked=True)] * (len(recordings) - len(found))


def ledger_of(
    kernel: Any,
    *args: Any,
    grid: Any,
    config: dict[str, int] | None = None,
    pictures: bool = False,
    in_child: bool | None = None,
    seconds: float = SECONDS,
    **kwargs: Any,
) -> LaunchLedger:
    """The ledger of `kernel[grid](*args, **kwargs)`, wherever it is asked for. The arguments are left as they are.

    Interpreted kernels run here, on copies. Compiled ones are written down without running, and run on CPU copies in a child
    process (in_child=True does so with any kernel).
    config    the autotuner's configuration to run, by its constants; default: the first one
    pictures  also keep which program touched which element
    Raises KernelMistake in this process, RuntimeError with the same words for one in the child; ValueError, TypeError for
    arguments that no launch could have.
    """
    from triton.runtime.interpreter import InterpretedFunction

    if in_child is None:
        in_child = not isinstance(inner_function(kernel), InterpretedFunction)
    copy = Copies()
    args, kwargs = tuple(map(copy, args)), {name: copy(value) for name, value in kwargs.items()}
    if not in_child:
        from ..switch import ledger

        with ledger(pictures=pictures, config=config) as book:
            kernel[grid](*args, **kwargs)
        return book.launches[-1]
    from .recording import record

    with record(run=False, config=config) as tape:
        kernel[grid](*args, **kwargs)
    data = tape.data()
    every = [name for launch in data["launches"] for name in _names(launch["arguments"])]
    replayed = replay(data, may_compute=every, pictures=pictures, seconds=seconds)
    if replayed.reason:
        raise RuntimeError(replayed.reason)
    return replayed.launches[-1]


def _names(arguments: Mapping[str, Any]) -> list[str]:
    from .replay_worker import tensors_of

    return [name for name, _ in tensors_of(arguments)]


def _bytes(tensor: Any) -> tuple[Any, Any]:
    """(bytes of its storage, bytes of its elements in order)."""
    raw = tensor.untyped_storage().cpu()
    return Storage(raw.data_ptr(), raw.nbytes()).view(1).copy(), tensor_bytes(tensor)


class Copies:
    """Argument -> the same on CPU copies; tensors that share memory share it in the copies too."""

    def __init__(self) -> None:
        self._storages: dict[tuple[str, int], Any] = {}

    def __call__(self, value: Any) -> Any:
        import torch

        if hasattr(value, "untyped_storage"):
            raw = value.untyped_storage()
            key = str(raw.device), raw.data_ptr()
            if key not in self._storages:
                fresh = torch.empty(raw.nbytes(), dtype=torch.uint8).untyped_storage()  # fresh where it was fresh
                fresh.copy_(raw)
                self._storages[key] = fresh
            place = (value.storage_offset(), value.shape, value.stride())
            return torch.tensor([], dtype=value.dtype).set_(self._storages[key], *place)
        if type(value).__name__ == "TensorWrapper":
            return type(value)(self(value.base), value.dtype)
        if type(value).__name__ == "TensorDescriptor":
            rest = {one.name: getattr(value, one.name) for one in dataclasses.fields(value) if one.name != "base"}
            return type(value)(self(value.base), **{name: list(f) if isinstance(f, tuple) else f for name, f in rest.items()})
        if isinstance(value, tuple):
            items = [self(item) for item in value]
            return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
        return value


def _replay(result: Mapping[str, Any]) -> Replay:
    if result["reason"]:
        return Replay(reason=result["reason"])
    copied = [(node["copied"], f"{path or 'the answer'}[{node['first']}]") for path, node in _places(result["answer"])]
    total = sum(count for count, _ in copied)
    first = next((where for count, where in copied if count), "")
    return Replay("", False, result["counts"], result["launches"], _output(result["answer"]), total, first)


def _output(node: Any) -> Any:
    if node is None or node["kind"] in ("value", "elsewhere"):
        return None
    if node["kind"] == "tensor":
        return node["tensor"]
    if node["kind"] == "dict":
        return {name: _output(item) for name, item in node["items"].items()}
    items = [_output(item) for item in node["items"]]
    return tuple(items) if node["kind"] == "tuple" else items


def _places(node: Any, path: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    if node is None or "items" not in node:
        return [(path, node)] if node is not None and node["kind"] == "tensor" else []
    items = node["items"].items() if isinstance(node["items"], dict) else enumerate(node["items"])
    return [found for name, item in items for found in _places(item, f"{path}[{name}]")]
