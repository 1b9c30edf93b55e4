"""Answers to exercise 1.9. The source of each can be had alone: it is also judged in a process of its own."""

import torch

from ..spoiling import spoiled

REPLAYS, BUCKETS, CAPTURES, LAUNCHES = "replays", "buckets", "captures", "launches"
ALL = {REPLAYS, BUCKETS, CAPTURES, LAUNCHES}


def one_graph_a_bucket(cuda, step, example, buckets):
    graphs = {}
    for rows in buckets:
        static, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
        step(static)
        with cuda.graph(graph):
            out = step(static)
        graphs[rows] = graph, static, out

    def run(x):
        fitting = [rows for rows in graphs if rows >= len(x)]
        if not fitting:
            return step(x)
        graph, static, out = graphs[min(fitting)]
        static[: len(x)].copy_(x)
        graph.replay()
        return out[: len(x)].clone()

    return run


def as_the_torch_manual_does(cuda, step, example, buckets):
    """Warm-up on a side stream, static input and output, one dict each."""
    inputs, outputs, graphs = {}, {}, {}
    side = cuda.Stream()
    for size in sorted(buckets, reverse=True):
        inputs[size] = torch.zeros(size, example.shape[1], dtype=example.dtype, device=example.device)
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for _ in range(3):
                step(inputs[size])
        cuda.current_stream().wait_stream(side)
        graphs[size] = cuda.CUDAGraph()
        with cuda.graph(graphs[size]):
            outputs[size] = step(inputs[size])

    def run(x):
        batch = x.shape[0]
        for size in sorted(graphs):
            if batch <= size:
                inputs[size][:batch] = x
                graphs[size].replay()
                return outputs[size][:batch].clone()
        return step(x)

    return run


def a_class_with_bisect(cuda, step, example, buckets):
    from bisect import bisect_left

    class Graphed:
        def __init__(self):
            self.sizes = sorted(buckets)
            self.held = [self.capture(size) for size in self.sizes]

        def capture(self, size):
            static = example.expand(size, -1).clone()
            step(static)
            cuda.synchronize()
            graph = cuda.CUDAGraph()
            with cuda.graph(graph, pool=cuda.graph_pool_handle()):
                out = step(static)
            return static, graph, out

        def __call__(self, x):
            place = bisect_left(self.sizes, len(x))
            if place == len(self.sizes):
                return step(x)
            static, graph, out = self.held[place]
            static.narrow(0, 0, len(x)).copy_(x)
            graph.replay()
            result = torch.empty_like(x)
            return result.copy_(out.narrow(0, 0, len(x)))

    return Graphed()


def padded_with_zeros(cuda, step, example, buckets):
    def capture(rows):
        static, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
        step(static)
        with cuda.graph(graph):
            out = step(static)
        return graph, static, out

    graphs = {rows: capture(rows) for rows in buckets}

    def run(x):
        rows = min((rows for rows in graphs if rows >= len(x)), default=None)
        if rows is None:
            return step(x)
        graph, static, out = graphs[rows]
        static.zero_()
        static[: len(x)].copy_(x)
        graph.replay()
        return out[: len(x)].clone()

    return run


def modules_that_share_a_pool(cuda, step, example, buckets):
    """nn.Module, no_grad, inference_mode, the keywords of cuda.graph, a padded copy of x, and one pool for all graphs."""

    class Graphed(torch.nn.Module):
        def __init__(self, size, pool):
            super().__init__()
            self.register_buffer("static", torch.zeros(size, *example.shape[1:], dtype=example.dtype, device=example.device))
            self.graph, stream = cuda.CUDAGraph(), cuda.Stream()
            with torch.no_grad(), cuda.stream(stream):
                step(self.static)
            cuda.synchronize()
            with torch.inference_mode(), cuda.graph(cuda_graph=self.graph, pool=pool, stream=stream):
                self.out = step(self.static)

        @torch.no_grad()
        def forward(self, x):
            self.static.copy_(torch.nn.functional.pad(x, (0, 0, 0, len(self.static) - len(x))))
            self.graph.replay()
            return torch.empty_like(x).copy_(self.out[: len(x)])

    held, pool = {}, None
    for size in sorted(buckets, reverse=True):
        held[size] = Graphed(size, pool)
        pool = held[size].graph.pool()

    def run(x):
        return held[min(size for size in held if size >= len(x))](x) if len(x) <= max(held) else step(x)

    return run


def concatenated(cuda, step, example, buckets):
    held = []
    for size in sorted(buckets):
        static = example.repeat(size, 1)
        step(static)
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            out = step(static)
        held.append((size, graph.replay, static, out))

    def run(x):
        for size, replay, static, out in held:
            if size >= x.size(0):
                torch.cat([x, x.new_zeros(size - x.size(0), x.size(1))], out=static)
                replay()
                return out.narrow(0, 0, x.size(0)) + 0.0
        return step(x)

    return run


def one_input_for_all_buckets(cuda, step, example, buckets):
    """Right: every graph reads the first rows of one and the same input memory; the largest is captured first."""
    static = torch.empty(max(buckets), *example.shape[1:], dtype=example.dtype, device=example.device)
    static.copy_(example)  # goes to every row

    def captured(rows):
        for _ in range(3):
            step(static[:rows])
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph):
            result = step(static[:rows])
        return rows, graph, result

    graphs = [captured(rows) for rows in sorted(buckets, reverse=True)]

    def run(x):
        rows = len(x)
        fitting = [entry for entry in graphs if entry[0] >= rows]
        if not fitting:
            return step(x)
        _, graph, result = fitting[-1]
        static[:rows] = x
        graph.replay()
        mine = torch.empty_like(x)
        mine.copy_(result[:rows])
        return mine

    return run


def begun_and_ended_by_hand(cuda, step, example, buckets):
    """capture_begin and capture_end, which CUDA wants on a stream of its own."""
    held, side = {}, cuda.Stream()
    for size in buckets:
        static, graph = example.new_zeros((size, example.shape[1])), cuda.CUDAGraph()
        cuda.synchronize()
        with cuda.stream(side):
            step(static)
            side.synchronize()
            graph.capture_begin()
            out = step(static)
            graph.capture_end()
        cuda.current_stream().wait_stream(side)
        held[size] = (graph, static, out)

    def run(x):
        size = next((size for size in sorted(held) if size >= len(x)), None)
        if size is None:
            return step(x)
        graph, static, out = held[size]
        static[: len(x)] = x
        graph.replay()
        return out[: len(x)].to(x.dtype, copy=True)

    return run


def every_kernel_by_hand(cuda, step, example, buckets):
    return step


def captured_when_first_needed(cuda, step, example, buckets):
    graphs = {}

    def run(x):
        fitting = [rows for rows in buckets if rows >= len(x)]
        if not fitting:
            return step(x)
        rows = min(fitting)
        if rows not in graphs:
            static, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
            step(static)
            with cuda.graph(graph):
                out = step(static)
            graphs[rows] = graph, static, out
        graph, static, out = graphs[rows]
        static[: len(x)].copy_(x)
        graph.replay()
        return out[: len(x)].clone()

    return run


def zeros(cuda, step, example, buckets):
    return lambda x: torch.zeros_like(x)


def the_input(cuda, step, example, buckets):
    return lambda x: x.clone()


def one_graph_for_all(cuda, step, example, buckets):
    """A second capture into the same graph is an error, on CUDA too; one bucket alone would work."""
    graph, held = cuda.CUDAGraph(), {}
    for rows in [*buckets, *buckets]:
        static = example.new_zeros(rows, example.shape[1])
        step(static)
        with cuda.graph(graph):
            held[rows] = static, step(static)
    return step


WARM_UP, FRESH = "        step(static)\n        with", "example.new_zeros(rows, example.shape[1])"
CAPTURE, COPY_IN, RESULT = "with cuda.graph(graph):", "static[: len(x)].copy_(x)", "out[: len(x)].clone()"
BEYOND = "        if not fitting:\n            return step(x)\n"
ONE_BY_ONE = "for row, values in enumerate(x):\n            static[row].copy_(values)"
CAPTURE_MORE = "with cuda.graph(cuda.CUDAGraph()):\n            step(static)"
MADE_INSIDE = ((f"static, graph = {FRESH}, cuda", "graph = cuda"), ("step(static)\n        with", f"step({FRESH})\n        with"),
               (CAPTURE, f"{CAPTURE}\n            static = {FRESH}"))  # fmt: skip

no_warm_up = spoiled(one_graph_a_bucket, "no_warm_up", (WARM_UP, "        with"))
made_inside_the_capture = spoiled(one_graph_a_bucket, "made_inside_the_capture", *MADE_INSIDE)  # zeros again at every replay
always_float32 = spoiled(one_graph_a_bucket, "always_float32", ("out = step(static)", "out = step(static).float()"))
only_the_largest_bucket = spoiled(one_graph_a_bucket, "only_the_largest_bucket", ("in buckets:", "in [max(buckets)]:"))
first_bucket_in_the_list = spoiled(one_graph_a_bucket, "first_bucket_in_the_list", ("min(fitting)", "fitting[0]"))
largest_bucket_for_all = spoiled(one_graph_a_bucket, "largest_bucket_for_all", ("min(fitting)", "max(fitting)"))
strictly_larger_bucket = spoiled(one_graph_a_bucket, "strictly_larger_bucket", ("rows >= len(x)", "rows > len(x)"))
nothing_for_a_larger_batch = spoiled(one_graph_a_bucket, "nothing_for_a_larger_batch", (BEYOND, ""))
never_copies_in = spoiled(one_graph_a_bucket, "never_copies_in", (f"        {COPY_IN}\n", ""))
name_bound_anew = spoiled(one_graph_a_bucket, "name_bound_anew", (COPY_IN, "static = x"))  # the graph does not look at names
row_by_row = spoiled(one_graph_a_bucket, "row_by_row", (COPY_IN, ONE_BY_ONE))
captures_at_each_call = spoiled(one_graph_a_bucket, "captures_at_each_call", (COPY_IN, f"{COPY_IN}\n        {CAPTURE_MORE}"))
replayed_and_run_as_well = spoiled(one_graph_a_bucket, "replayed_and_run_as_well", (RESULT, "step(x)"))  # a replay for show
four_copies = spoiled(one_graph_a_bucket, "four_copies", (RESULT, RESULT + ".clone()" * 3))  # one launch more than may be
hands_out_its_own_memory = spoiled(one_graph_a_bucket, "hands_out_its_own_memory", (RESULT, "out[: len(x)]"))
all_rows_of_the_bucket = spoiled(one_graph_a_bucket, "all_rows_of_the_bucket", (RESULT, "out.clone()"))
into_the_input = spoiled(one_graph_a_bucket, "into_the_input", (RESULT, "x.copy_(out[: len(x)])"))

WRONG = [
    (every_kernel_by_hand, ALL),
    (never_copies_in, {REPLAYS, BUCKETS}),
    (name_bound_anew, {REPLAYS, BUCKETS}),
    (no_warm_up, ALL),
    (hands_out_its_own_memory, {REPLAYS, BUCKETS}),
    (captured_when_first_needed, {CAPTURES, LAUNCHES}),
    (captures_at_each_call, {CAPTURES}),
    (only_the_largest_bucket, {BUCKETS, CAPTURES}),
    (all_rows_of_the_bucket, {BUCKETS}),
    (first_bucket_in_the_list, {BUCKETS}),
    (largest_bucket_for_all, {BUCKETS}),
    (strictly_larger_bucket, {REPLAYS, BUCKETS, LAUNCHES}),
    (nothing_for_a_larger_batch, {BUCKETS, CAPTURES}),
    (row_by_row, {LAUNCHES}),
    (four_copies, {LAUNCHES}),
    (replayed_and_run_as_well, {REPLAYS, BUCKETS, LAUNCHES}),
    (zeros, ALL),
    (the_input, ALL),
    (made_inside_the_capture, {REPLAYS, BUCKETS}),
    (one_graph_for_all, ALL),
    (always_float32, {BUCKETS}),
    (into_the_input, {REPLAYS, BUCKETS}),
]
RIGHT = [
    one_graph_a_bucket,
    as_the_torch_manual_does,
    a_class_with_bisect,
    padded_with_zeros,
    modules_that_share_a_pool,
    concatenated,
    begun_and_ended_by_hand,
    one_input_for_all_buckets,
]
