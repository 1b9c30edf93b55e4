"""A simulated CUDA device, which records and replays graphs as CUDA does, for machines without one.

It is a mode that sees every torch operation. Outside a capture an operation runs and counts as one launch. Inside one it is only
written down, and what it would make holds NaN until a replay. A replay counts as one launch and does the operations again on the
same memory: what the graph read when it was captured, it reads then. Views and fresh memory are free.
"""

import contextlib
import types
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

READS_BACK = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default, torch.ops.aten.nonzero.default}
NO_KERNEL = {torch.ops.aten.detach, torch.ops.aten._unsafe_view}
ONLY_MEMORY = {torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.empty_strided, torch.ops.aten.new_empty,
               torch.ops.aten.new_empty_strided}  # fmt: skip
CAPTURING = "operation not permitted when stream is capturing"


def simulated_device(weights: list) -> tuple["SimulatedDevice", Any]:
    """-> (device, step): enter the device with `with`; `device.cuda` stands for torch.cuda, `take_notes` says what it saw.

    step: a step of the model, through which rows go on their own. Its first call with a size compiles, which no capture allows.
    """
    device, compiled = SimulatedDevice(), set()

    def step(x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        if device.capturing() and rows not in compiled:
            raise RuntimeError(
                f"{CAPTURING}: step compiles at its first call with {rows} rows; call it once with as many before you capture"
            )
        compiled.add(rows)
        device.note_step(rows)
        for weight in weights:
            x = torch.tanh(x @ weight)
        return x

    return device, step


class SimulatedDevice(TorchDispatchMode):
    """Sees every torch operation while it is entered. `cuda` offers what the exercise needs of torch.cuda."""

    def __init__(self) -> None:
        super().__init__()
        self._tape: list | None = None
        self._rows = 0
        self._notes = self._fresh()
        self.cuda = _names_of_cuda(self)

    @staticmethod
    def _fresh() -> dict:
        return {"launches": 0, "eager_rows": [], "captured_rows": [], "replayed_rows": []}

    def take_notes(self) -> dict:
        """What was seen since the last call of this."""
        notes, self._notes = self._notes, self._fresh()
        return notes

    def capturing(self) -> bool:
        return self._tape is not None

    def note_step(self, rows: int) -> None:
        if self._tape is None:
            self._notes["eager_rows"].append(rows)
        else:
            self._rows = rows

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.is_view or func.overloadpacket in NO_KERNEL:
            return func(*args, **kwargs)
        only_memory = func.overloadpacket in ONLY_MEMORY
        if self._tape is None:
            self._notes["launches"] += not only_memory
            return func(*args, **kwargs)
        if func in READS_BACK:
            raise RuntimeError(f"{CAPTURING}: {func} waits for a value on the host")
        if _writes_to(func):
            self._tape.append((func, args, kwargs, None))
            return args[0] if "out" not in kwargs else kwargs["out"]
        made = func(*args, **kwargs)
        if not only_memory:
            self._tape.append((func, args, kwargs, made))
        for tensor in _tensors(made):
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))  # nothing has run yet
        return made

    def begin(self) -> None:
        if self._tape is not None:
            raise RuntimeError("a capture is going on already; end it before you begin another")
        self._tape, self._rows = [], 0

    def end(self) -> tuple[list, int]:
        """-> (tape, rows of the step on it)"""
        tape, self._tape = self._tape, None
        if not tape:
            raise RuntimeError("the graph is empty: nothing was launched while it was captured")
        self._notes["captured_rows"].append(self._rows)
        return tape, self._rows

    def give_up(self) -> None:
        self._tape = None

    def replay(self, tape: list, rows: int) -> None:
        if self._tape is not None:
            raise RuntimeError(f"{CAPTURING}: replay")
        self._notes["launches"] += 1
        self._notes["replayed_rows"].append(rows)
        with _disable_current_modes(), torch.inference_mode():  # no launches of their own, whatever mode captured them
            for func, args, kwargs, made in tape:
                again = func(*args, **kwargs)
                for old, new in zip(_tensors(made), _tensors(again), strict=True) if made is not None else ():
                    old.copy_(new)


class _Names(types.SimpleNamespace):
    """The names of torch.cuda that a simulated device has."""

    def __getattr__(self, name: str) -> Any:
        there = ", ".join(each for each in vars(self) if not each.startswith("_"))
        raise AttributeError(f"the `cuda` of this exercise has no {name}; it has {there}")


def _names_of_cuda(device: SimulatedDevice) -> _Names:
    """torch.cuda for a simulated device, over closures: a graph offers what torch's does, and nothing of the device."""

    class CUDAGraph:
        """As torch.cuda.CUDAGraph."""

        def __init__(self, keep_graph: bool = False) -> None:
            held: list = []

            def capture_begin(pool: Any = None, capture_error_mode: str = "global") -> None:
                if held:
                    raise RuntimeError("this graph holds a capture already; make a CUDAGraph for each of them")
                device.begin()

            def replay() -> None:
                if not held:
                    raise RuntimeError("replay of a graph that holds nothing; capture a step into it first")
                device.replay(*held)

            self.capture_begin, self.capture_end, self.replay = capture_begin, lambda: held.extend(device.end()), replay
            self.reset, self.pool = held.clear, object

    class graph:
        """As torch.cuda.graph."""

        def __init__(self, cuda_graph: Any, pool: Any = None, stream: Any = None, **options: Any) -> None:
            self._graph = cuda_graph

        def __enter__(self) -> None:
            self._graph.capture_begin()

        def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
            if kind is None:
                self._graph.capture_end()
            else:
                device.give_up()

    def synchronize(device_index: Any = None) -> None:
        if device.capturing():
            raise RuntimeError(f"{CAPTURING}: synchronize waits for the device")

    CUDAGraph.__qualname__, graph.__qualname__ = "CUDAGraph", "graph"  # as a message shows them
    return _Names(
        CUDAGraph=CUDAGraph, graph=graph, Stream=_Stream, Event=_Stream, stream=contextlib.nullcontext, current_stream=_Stream,
        default_stream=_Stream, synchronize=synchronize, graph_pool_handle=object, is_available=lambda: True,
        is_current_stream_capturing=device.capturing, current_device=lambda: 0, empty_cache=lambda: None,
    )  # fmt: skip


class _Stream:
    """A stream of the simulated device: everything happens in order there, so waiting is nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def wait_stream(self, other: Any) -> None: ...
    def wait_event(self, other: Any) -> None: ...
    def record_event(self, event: Any = None) -> Any: ...
    def record(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...
    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *error: Any) -> None: ...


def _writes_to(func: Any) -> bool:
    """An operation that changes an argument: x.copy_(y), torch.add(x, y, out=z)."""
    return any(argument.alias_info is not None and argument.alias_info.is_write for argument in func._schema.arguments)


def _tensors(made: Any) -> list:
    if isinstance(made, torch.Tensor):
        return [made]
    return [tensor for tensor in made if isinstance(tensor, torch.Tensor)] if isinstance(made, (list, tuple)) else []
