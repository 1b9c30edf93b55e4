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


WRONG = [
    (every_kernel_by_hand, ALL),
    (no_warm_up, ALL),
    (never_copies_in, {REPLAYS, BUCKETS}),
    (name_bound_anew, {REPLAYS, BUCKETS}),
    (hands_out_its_own_memory, {REPLAYS, BUCKETS}),
    (captured_when_first_needed, {CAPTURES, LAUNCHES}),
    (only_the_largest_bucket, {BUCKETS, CAPTURES}),
    (all_rows_of_the_bucket, {BUCKETS}),
    (first_bucket_in_the_list, {BUCKETS}),
    (strictly_larger_bucket, {REPLAYS, BUCKETS, LAUNCHES}),
    (nothing_for_a_larger_batch, {BUCKETS, CAPTURES}),
    (row_by_row, {LAUNCHES}),
    (replayed_and_run_as_well, {LAUNCHES}),
]
RIGHT = [as_the_torch_manual_does, a_class_with_bisect, padded_with_zeros]
