"""Exercise 1.9: the learner's graphed function on a simulated device, which records and replays as CUDA does, and on a real one.

The simulated device is a mode that sees every torch operation. Outside a capture an operation runs and counts as one launch.
Inside one it is only written down, and what it would make holds NaN until a replay. A replay counts as one launch and does the
operations again on the same memory: what the graph read when it was captured, it reads then. Views and fresh memory are free.
All of it lies in this file, since nothing of ours is beside a runner in the sandbox.
"""

import contextlib
import re
import statistics
import time
import types
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__course_runner__ = True  # messages name the learner's line, not one of this file

LAYERS, WIDTH, TIMED_BUCKETS, TIMED_BATCHES = 48, 512, (1, 2, 4, 8), (1, 3, 8)
ROUNDS, CALLS = 9, 20
ATOL = 2e-3  # fp16 values of about 0.1 after 48 layers; other row counts add up in another order and differ by up to 6e-4
WANTS_A_GPU = re.compile("dummy base class|requires CUDA|compiled with CUDA|NVIDIA driver")
READS_BACK = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.equal.default, torch.ops.aten.nonzero.default}
NO_KERNEL = {torch.ops.aten.detach, torch.ops.aten._unsafe_view}
ONLY_MEMORY = {torch.ops.aten.empty, torch.ops.aten.empty_like, torch.ops.aten.empty_strided, torch.ops.aten.new_empty,
               torch.ops.aten.new_empty_strided}  # fmt: skip
CAPTURING = "operation not permitted when stream is capturing"


def graphed_calls(entry: Any, case: dict) -> dict:
    """Build the learner's function, call it with every input in turn -> results and what the device saw of each call."""
    device, step = simulated_device(case["weights"])
    results, seen = [], []
    try:
        with device:
            run = entry(device.cuda, step, case["example"], list(case["buckets"]))
            setup = device.take_notes()
            for x in case["inputs"]:
                given = x.clone()  # a tensor of its own for each call, as an engine has
                device.take_notes()
                results.append(run(given))
                seen.append(device.take_notes() | {"changed_input": not torch.equal(given, x)})
    except (RuntimeError, AssertionError) as error:
        if WANTS_A_GPU.search(str(error)):
            error.args = (f"{error}; torch.cuda needs a GPU, the `cuda` that your function is given does not",)
        raise
    return {"results": results, "setup": setup, "calls": seen}


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


def builds(entry: Any, case: dict) -> None:
    """An answer that is still open says so here. What a device makes of it is seen, and its results proven, in the race."""
    device, step = simulated_device([torch.eye(2)])
    with device:
        entry(device.cuda, step, torch.zeros(1, 2), [1])


def graphs_on_this_device(entry: Any, case: dict) -> dict:
    """Many small kernels: the learner's replays against ours, and against the step launched kernel by kernel."""
    if not torch.cuda.is_available():
        return {"blocked": "needs a CUDA device, and this machine shows none"}
    return {"device": torch.cuda.get_device_name()} | race(entry, torch.cuda, "cuda")


def race(entry: Any, cuda: Any, device: str) -> dict:
    """Evidence of a timed part, and what was wrong with the results of the learner's function.

    Every call has an input of its own, so that no result can be kept for the next time. The roof is the bare replay of our
    graph: whoever copies in, replays and copies out cannot be faster.
    """
    draw = {"device": device, "dtype": torch.float16}
    weights = [torch.randn(WIDTH, WIDTH, **draw) * WIDTH**-0.5 for _ in range(LAYERS)]

    def step(x: torch.Tensor) -> torch.Tensor:
        for weight in weights:
            x = torch.tanh(x @ weight)
        return x

    example = torch.zeros(1, WIDTH, **draw)
    graphs = _capture(cuda, step, example)
    ours = _through(graphs)
    run = entry(cuda, step, example, list(TIMED_BUCKETS))
    ratios, eager_ratios, bare_shares, kept = [], [], [], []
    for turn in range(ROUNDS):
        rows = TIMED_BATCHES[turn % len(TIMED_BATCHES)]
        bare = graphs[min(size for size in graphs if size >= rows)][0].replay
        inputs = [torch.randn(rows, WIDTH, **draw) for _ in range(CALLS + 1)]
        order = (run, ours, step) if turn % 2 else (step, ours, run)
        timed = {call: _timed(cuda, call, inputs) for call in order}
        bare_seconds, _ = _timed(cuda, lambda x, replay=bare: replay(), inputs)
        seconds = {call: each for call, (each, _) in timed.items()}
        ratios.append(seconds[ours] / seconds[run])
        eager_ratios.append(seconds[step] / seconds[run])
        bare_shares.append(bare_seconds / seconds[run])
        kept += zip(timed[run][1], timed[step][1], strict=True)  # compared at the end: a result has to stay
    eager_ratio = statistics.median(eager_ratios)
    return {
        "peer": f"our graph ({eager_ratio:.1f} times the speed of {2 * LAYERS} launches)", "ratios": ratios,
        "roof_share": statistics.median(bare_shares), "eager_ratio": eager_ratio, "wrong": _first_difference(kept),
    }  # fmt: skip


def _first_difference(pairs: list) -> str:
    for got, expected in pairs:
        if not isinstance(got, torch.Tensor) or got.shape != expected.shape:
            shape = list(got.shape) if isinstance(got, torch.Tensor) else type(got).__name__
            return f"expected a tensor of shape {list(expected.shape)}, got {shape}"
        if not torch.allclose(got.float(), expected.float(), rtol=0.0, atol=ATOL):
            most = float((got.float() - expected.float()).abs().max())
            return f"a result with {len(expected)} rows differs from the step's by up to {most:.3g}, at most {ATOL} may be"
    return ""


def _capture(cuda: Any, step: Any, example: torch.Tensor) -> dict:
    """{rows: (graph, its input, its output)}"""
    graphs = {}
    for rows in TIMED_BUCKETS:
        x = example.new_zeros(rows, *example.shape[1:])
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            step(x)
        cuda.current_stream().wait_stream(side)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            out = step(x)
        graphs[rows] = graph, x, out
    return graphs


def _through(graphs: dict) -> Any:
    def run(x: torch.Tensor) -> torch.Tensor:
        graph, static, out = graphs[min(rows for rows in graphs if rows >= len(x))]
        static[: len(x)].copy_(x)
        graph.replay()
        return out[: len(x)].clone()

    return run


def _timed(cuda: Any, call: Any, inputs: list) -> tuple[float, list]:
    """Host seconds of a call, from one idle device to the next, so that the host's share counts -> and the results."""
    call(inputs[0])
    cuda.synchronize()
    start = time.perf_counter()
    results = [call(x) for x in inputs[1:]]
    cuda.synchronize()
    return (time.perf_counter() - start) / len(results), results
