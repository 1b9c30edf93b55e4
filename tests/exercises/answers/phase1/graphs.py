"""Answers to exercise 1.9. Each function stands alone: its source is also judged in a process of its own."""

import torch

REPLAYS, BUCKETS, CAPTURES, LAUNCHES = "replays", "buckets", "captures", "launches"
ALL = {REPLAYS, BUCKETS, CAPTURES, LAUNCHES}


def every_kernel_by_hand(cuda, step, example, buckets):
    return step


def no_warm_up(cuda, step, example, buckets):
    graphs = {}
    for rows in buckets:
        x, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
        with cuda.graph(graph):
            out = step(x)
        graphs[rows] = graph, x, out
    return lambda x: graphs[len(x)][2]


def never_copies_in(cuda, step, example, buckets):
    graphs = {}
    for rows in buckets:
        x, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
        step(x)
        with cuda.graph(graph):
            out = step(x)
        graphs[rows] = graph, out

    def run(x):
        fitting = [rows for rows in graphs if rows >= len(x)]
        if not fitting:
            return step(x)
        graph, out = graphs[min(fitting)]
        graph.replay()
        return out[: len(x)].clone()

    return run


def name_bound_anew(cuda, step, example, buckets):
    """static = x: the name points elsewhere, the graph does not."""
    graphs = {}
    for rows in buckets:
        static, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
        step(static)
        with cuda.graph(graph):
            out = step(static)
        graphs[rows] = [graph, static, out]

    def run(x):
        fitting = [rows for rows in graphs if rows >= len(x)]
        if not fitting:
            return step(x)
        kept = graphs[min(fitting)]
        kept[1] = x
        kept[0].replay()
        return kept[2][: len(x)].clone()

    return run


def hands_out_its_own_memory(cuda, step, example, buckets):
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
        return out[: len(x)]

    return run


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


def only_the_largest_bucket(cuda, step, example, buckets):
    rows = max(buckets)
    static, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
    step(static)
    with cuda.graph(graph):
        out = step(static)

    def run(x):
        if len(x) > rows:
            return step(x)
        static[: len(x)].copy_(x)
        graph.replay()
        return out[: len(x)].clone()

    return run


def all_rows_of_the_bucket(cuda, step, example, buckets):
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
        return out.clone()

    return run


def first_bucket_in_the_list(cuda, step, example, buckets):
    graphs = {}
    for rows in buckets:
        static, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
        step(static)
        with cuda.graph(graph):
            out = step(static)
        graphs[rows] = graph, static, out

    def run(x):
        fitting = [rows for rows in sorted(graphs, reverse=True) if rows >= len(x)]
        if not fitting:
            return step(x)
        graph, static, out = graphs[fitting[0]]
        static[: len(x)].copy_(x)
        graph.replay()
        return out[: len(x)].clone()

    return run


def strictly_larger_bucket(cuda, step, example, buckets):
    """Off by one: a batch of 4 does not fit into a bucket of 4."""
    graphs = {}
    for rows in buckets:
        static, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
        step(static)
        with cuda.graph(graph):
            out = step(static)
        graphs[rows] = graph, static, out

    def run(x):
        fitting = [rows for rows in graphs if rows > len(x)]
        if not fitting:
            return step(x)
        graph, static, out = graphs[min(fitting)]
        static[: len(x)].copy_(x)
        graph.replay()
        return out[: len(x)].clone()

    return run


def nothing_for_a_larger_batch(cuda, step, example, buckets):
    graphs = {}
    for rows in buckets:
        static, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
        step(static)
        with cuda.graph(graph):
            out = step(static)
        graphs[rows] = graph, static, out

    def run(x):
        graph, static, out = graphs[min(rows for rows in graphs if rows >= len(x))]
        static[: len(x)].copy_(x)
        graph.replay()
        return out[: len(x)].clone()

    return run


def row_by_row(cuda, step, example, buckets):
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
        for row, values in enumerate(x):
            static[row].copy_(values)
        graph.replay()
        return out[: len(x)].clone()

    return run


def replayed_and_run_as_well(cuda, step, example, buckets):
    """Right results from the step itself, with a replay for show."""
    graphs = {}
    for rows in buckets:
        static, graph = example.new_zeros(rows, example.shape[1]), cuda.CUDAGraph()
        step(static)
        with cuda.graph(graph):
            step(static)
        graphs[rows] = graph

    def run(x):
        fitting = [rows for rows in graphs if rows >= len(x)]
        if fitting:
            graphs[min(fitting)].replay()
        return step(x)

    return run


def zeros(cuda, step, example, buckets):
    return lambda x: torch.zeros_like(x)


def the_input(cuda, step, example, buckets):
    return lambda x: x.clone()


def made_inside_the_capture(cuda, step, example, buckets):
    """The graph fills its own input with zeros, at every replay."""
    graphs = {}
    for rows in buckets:
        graph = cuda.CUDAGraph()
        step(example.new_zeros(rows, example.shape[1]))
        with cuda.graph(graph):
            static = example.new_zeros(rows, example.shape[1])
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


def one_graph_for_all(cuda, step, example, buckets):
    """A second capture into the same graph is an error, on CUDA too; one bucket alone would work."""
    graph, held = cuda.CUDAGraph(), {}
    for rows in [*buckets, *buckets]:
        static = example.new_zeros(rows, example.shape[1])
        step(static)
        with cuda.graph(graph):
            held[rows] = static, step(static)
    return step


def always_float32(cuda, step, example, buckets):
    """The dtype of the example is lost; step meets float64 weights with it."""
    graphs = {}
    for rows in buckets:
        static, graph = torch.zeros(rows, example.shape[1]), cuda.CUDAGraph()
        if example.dtype == torch.float64:
            static = static.double()
        step(static)
        with cuda.graph(graph):
            out = step(static).float()
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


def into_the_input(cuda, step, example, buckets):
    """The result stays, and the caller's x is gone."""
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
        return x.copy_(out[: len(x)])

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


WRONG = [
    (every_kernel_by_hand, ALL),
    (never_copies_in, {REPLAYS, BUCKETS}),
    (name_bound_anew, {REPLAYS, BUCKETS}),
    (no_warm_up, ALL),
    (hands_out_its_own_memory, {REPLAYS, BUCKETS}),
    (captured_when_first_needed, {CAPTURES, LAUNCHES}),
    (only_the_largest_bucket, {BUCKETS, CAPTURES}),
    (all_rows_of_the_bucket, {BUCKETS}),
    (first_bucket_in_the_list, {BUCKETS}),
    (strictly_larger_bucket, {REPLAYS, BUCKETS, LAUNCHES}),
    (nothing_for_a_larger_batch, {BUCKETS, CAPTURES}),
    (row_by_row, {LAUNCHES}),
    (replayed_and_run_as_well, {REPLAYS, BUCKETS, LAUNCHES}),
    (zeros, ALL),
    (the_input, ALL),
    (made_inside_the_capture, {REPLAYS, BUCKETS}),
    (one_graph_for_all, ALL),
    (always_float32, {BUCKETS}),
    (into_the_input, {REPLAYS, BUCKETS}),
]
RIGHT = [
    as_the_torch_manual_does,
    a_class_with_bisect,
    padded_with_zeros,
    modules_that_share_a_pool,
    concatenated,
    begun_and_ended_by_hand,
    one_input_for_all_buckets,
]
