"""Exercise 1.9: the learner's graphed function on a simulated device, which records and replays as CUDA does, and on a real one.

The simulated device is a mode that sees every torch operation. Outside a capture an operation runs and counts as one launch.
Inside one it is only written down, and what it would make holds NaN until a replay. A replay counts as one launch and does the
operations again on the same memory: what the graph read when it was captured, it reads then.
"""

import contextlib
import statistics
import types
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

__course_runner__ = True  # messages name the learner's line, not one of this file

LAYERS, WIDTH, TIMED_BUCKETS, TIMED_BATCHES = 48, 512, (1, 2, 4, 8), (1, 3, 8)
ROUNDS, CALLS = 9, 20
READS_BACK = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default, torch.ops.aten.nonzero.default}


def graphed_calls(entry: Any, case: dict) -> dict:
    """Build the learner's function, call it with every input in turn -> results and what the device saw of each call."""
    device, seen = _SimulatedDevice(), []
    step = _step(device, case["weights"])
    with device:
        run = entry(device.cuda, step, case["example"], list(case["buckets"]))
        setup = device.take_notes()
        results = []
        for x in case["inputs"]:
            given = x.clone()  # a tensor of its own for each call, as an engine has
            device.take_notes()
            results.append(run(given))
            seen.append(device.take_notes())
    return {"results": results, "setup": setup, "calls": seen}


def _step(device: "_SimulatedDevice", weights: list) -> Any:
    """A step of the model: rows go through it on their own. Its first call with a size compiles, which no capture allows."""
    compiled = set()

    def step(x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        if device.capturing() and rows not in compiled:
            raise RuntimeError(
                f"operation not permitted when stream is capturing: step compiles at its first call with {rows} rows; "
                "call it once with as many before you capture"
            )
        compiled.add(rows)
        device.note_step(rows)
        for weight in weights:
            x = torch.tanh(x @ weight)
        return x

    return step


class _SimulatedDevice(TorchDispatchMode):
    """Sees every torch operation while it is entered. `cuda` offers what the exercise needs of torch.cuda."""

    def __init__(self) -> None:
        super().__init__()
        self._tape: list | None = None
        self._rows = 0
        self._notes = self._fresh()
        self.cuda = self._make_cuda()

    @staticmethod
    def _fresh() -> dict:
        return {"launches": 0, "eager_rows": [], "captured_rows": [], "replayed_rows": []}

    def take_notes(self) -> dict:
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
        if func.is_view or func in (torch.ops.aten.detach.default, torch.ops.aten._unsafe_view.default):
            return func(*args, **kwargs)  # no kernel
        if self._tape is None:
            self._notes["launches"] += 1
            return func(*args, **kwargs)
        if func in READS_BACK:
            raise RuntimeError(f"operation not permitted when stream is capturing: {func} waits for a value on the host")
        if _writes_to(func):
            self._tape.append((func, args, kwargs, None))
            return args[0] if "out" not in kwargs else kwargs["out"]
        made = func(*args, **kwargs)
        self._tape.append((func, args, kwargs, made))
        for tensor in _tensors(made):
            if tensor.is_floating_point():
                tensor.fill_(float("nan"))  # nothing has run yet
        return made

    def _replay(self, tape: list, rows: int) -> None:
        self._notes["launches"] += 1
        self._notes["replayed_rows"].append(rows)
        for func, args, kwargs, made in tape:
            again = func(*args, **kwargs)
            for old, new in zip(_tensors(made), _tensors(again), strict=True) if made is not None else ():
                old.copy_(new)

    def _make_cuda(device) -> types.SimpleNamespace:
        """The names of torch.cuda, over closures: a graph offers replay and reset, and nothing of the device."""

        class CUDAGraph:
            """As torch.cuda.CUDAGraph."""

            def __init__(self) -> None:
                self.replay = _not_captured
                self.reset = lambda: setattr(self, "replay", _not_captured)

        @contextlib.contextmanager
        def graph(into: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global") -> Any:
            if device._tape is not None:
                raise RuntimeError("a capture is going on already; end it before you begin another")
            tape = device._tape = []
            device._rows = 0
            try:
                yield
            finally:
                device._tape = None
            rows = device._rows
            if not tape:
                raise RuntimeError("the graph is empty: nothing was launched while it was captured")
            device._notes["captured_rows"].append(rows)

            def replay() -> None:
                if device._tape is not None:
                    raise RuntimeError("operation not permitted when stream is capturing: replay")
                with device:
                    device._replay_outside(tape, rows)

            into.replay = replay

        return types.SimpleNamespace(
            CUDAGraph=CUDAGraph, graph=graph, Stream=_Stream, Event=_Stream, stream=contextlib.nullcontext,
            current_stream=_Stream, default_stream=_Stream, synchronize=lambda device=None: None,
            graph_pool_handle=object, is_available=lambda: True, current_device=lambda: 0, empty_cache=lambda: None,
        )  # fmt: skip

    def _replay_outside(self, tape: list, rows: int) -> None:
        from torch.utils._python_dispatch import _disable_current_modes

        with _disable_current_modes():  # its operations are no launches of their own
            self._replay(tape, rows)


class _Stream:
    """A stream of the simulated device: everything happens in order there, so waiting is nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...
    def wait_stream(self, other: Any) -> None: ...
    def wait_event(self, other: Any) -> None: ...
    def record_event(self, event: Any = None) -> Any: ...
    def record(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...


def _not_captured() -> None:
    raise RuntimeError("replay of a graph that holds nothing; capture a step into it first")


def _writes_to(func: Any) -> bool:
    """An operation that changes an argument: x.copy_(y), torch.add(x, y, out=z)."""
    return any(argument.alias_info is not None and argument.alias_info.is_write for argument in func._schema.arguments)


def _tensors(made: Any) -> list:
    return [made] if isinstance(made, torch.Tensor) else [t for t in made if isinstance(t, torch.Tensor)]


def nothing_to_check(entry: Any, case: dict) -> None:
    """The timed part proves its results itself, with the memory of the device."""


def graphs_on_this_device(entry: Any, case: dict) -> dict:
    """Many small kernels: the learner's replays against ours, and against the step launched kernel by kernel."""
    if not torch.cuda.is_available():
        return {"blocked": "needs a CUDA device, and this machine shows none"}
    weights = [torch.randn(WIDTH, WIDTH, device="cuda", dtype=torch.float16) * WIDTH**-0.5 for _ in range(LAYERS)]

    def step(x: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            x = torch.tanh(x @ weight)
        return x

    example = torch.zeros(1, WIDTH, device="cuda", dtype=torch.float16)
    run, ours = entry(torch.cuda, step, example, list(TIMED_BUCKETS)), _reference(step, example, TIMED_BUCKETS)
    ratios, eager_ratios, wrong = [], [], ""
    for turn in range(ROUNDS):
        x = torch.randn(TIMED_BATCHES[turn % 3], WIDTH, device="cuda", dtype=torch.float16)
        order = (run, ours, step) if turn % 2 else (step, ours, run)
        seconds = {call: _seconds_per_call(call, x) for call in order}
        ratios.append(seconds[ours] / seconds[run])
        eager_ratios.append(seconds[step] / seconds[run])
        got, expected = run(x), step(x)
        if not torch.allclose(got.float(), expected.float(), atol=2e-3):
            wrong = f"a replay with {len(x)} rows differs from the step by {float((got - expected).abs().max()):.3g}"
    return {
        "device": torch.cuda.get_device_name(), "peer": f"our graph ({statistics.median(eager_ratios):.1f} times the speed of "
        f"{2 * LAYERS} launches)", "ratios": ratios, "roof_share": 1.0, "eager_ratio": statistics.median(eager_ratios), "wrong": wrong,
    }  # fmt: skip


def _reference(step: Any, example: torch.Tensor, buckets: tuple) -> Any:
    graphs = {}
    for rows in buckets:
        x = example.new_zeros(rows, *example.shape[1:])
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            step(x)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            out = step(x)
        graphs[rows] = graph, x, out

    def run(x: torch.Tensor) -> torch.Tensor:
        graph, static, out = graphs[min(rows for rows in graphs if rows >= len(x))]
        static[: len(x)].copy_(x)
        graph.replay()
        return out[: len(x)].clone()

    return run


def _seconds_per_call(call: Any, x: torch.Tensor) -> float:
    """Host seconds of a call, from one idle device to the next: a launch that waits for the host costs time there."""
    import time

    call(x)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(CALLS):
        call(x)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / CALLS
