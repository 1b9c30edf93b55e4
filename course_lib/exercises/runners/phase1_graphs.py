"""Exercise 1.9: the learner's graphed function on a simulated device (course_lib.workloads.simulated_cuda), and on a real one."""

import re
import statistics
import time
from typing import Any

import torch

__course_runner__ = True  # messages name the learner's line, not one of this file

LAYERS, WIDTH, TIMED_BUCKETS, TIMED_BATCHES = 48, 512, (1, 2, 4, 8), (1, 3, 8)
ROUNDS, CALLS = 9, 20
ATOL = 2e-3  # fp16 values of about 0.1 after 48 layers; other row counts add up in another order and differ by up to 6e-4
WANTS_A_GPU = re.compile("dummy base class|requires CUDA|compiled with CUDA|NVIDIA driver")


def graphed_calls(entry: Any, case: dict) -> dict:
    """Build the learner's function, call it with every input in turn -> results and what the device saw of each call."""
    from course_lib.workloads.simulated_cuda import simulated_device

    device, step = simulated_device(case["weights"])
    results, seen = [], []
    try:
        with device:
            run = entry(device.cuda, step, case["example"], list(case["buckets"]))
            if not callable(run):
                raise TypeError(f"graphed returned a {type(run).__name__}; it is to return a function, run(x)")
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


def builds(entry: Any, case: dict) -> None:
    """An answer that is still open says so here. What a device makes of it is seen, and its results proven, in the race."""
    from course_lib.workloads.simulated_cuda import simulated_device

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
