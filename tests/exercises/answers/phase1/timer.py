"""Answers to exercise 1.3. Each function stands alone: its source is also judged in a process of its own."""

import torch

from ..spoiling import spoiled

ASYNC, QUEUED, WARM, COLD, SPREAD, SHORT, BUDGET = (
    "asynchronous", "queued before", "warm-up", "cold L2", "spread", "short kernel", "budget",
)  # fmt: skip
TIMES = {ASYNC, QUEUED, WARM, COLD, SPREAD, SHORT}
ALL = TIMES | {BUDGET}


def marks_first_read_last(gpu, launch, repeats):
    """Right: everything is queued, one wait, then all is read."""
    import statistics

    for _ in range(3):
        launch()
    pairs = []
    for _ in range(repeats):
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        gpu.flush_l2()
        start.record()
        launch()
        end.record()
        pairs.append((start, end))
    gpu.synchronize()
    seconds = [start.elapsed_time(end) / 1e3 for start, end in pairs]
    return statistics.median(seconds)


def waits_for_each(gpu, launch, repeats):
    """Right: two events used again and again, a wait at the end of each measurement."""
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    for _ in range(4):
        launch()
    gpu.synchronize()
    milliseconds = []
    while len(milliseconds) < repeats:
        gpu.flush_l2()
        start.record()
        launch()
        end.record()
        end.synchronize()
        milliseconds.append(start.elapsed_time(end))
    milliseconds.sort()
    middle = repeats // 2
    both = milliseconds[middle] + milliseconds[middle if repeats % 2 else middle - 1]
    return both / 2 * 1e-3


def measures_the_warm_up_and_drops_it(gpu, launch, repeats):
    """Right: no warm-up apart; the first measurements are thrown away, and the median is torch's."""
    events = [[gpu.Event(enable_timing=True) for _ in "se"] for _ in range(repeats + 3)]
    for start, end in events:
        gpu.flush_l2()
        start.record()
        launch()
        end.record()
    events[-1][1].synchronize()
    kept = torch.tensor([start.elapsed_time(end) for start, end in events[3:]], dtype=torch.float64)
    return kept.quantile(0.5).item() / 1000


def cold_warm_up_and_polling(gpu, launch, repeats):
    """Right: the warm-up is flushed as well, the end is polled for, the median is picked by rank (the lower of two)."""

    def once():
        start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
        gpu.flush_l2()
        start.record()
        launch()
        end.record()
        while not end.query():
            gpu.perf_counter()
        return start.elapsed_time(end)

    for _ in range(5):
        once()
    return sorted(once() for _ in range(repeats))[(repeats - 1) // 2] / 1e3


def a_class_for_a_measurement(gpu, launch, repeats):
    """Right: a context manager holds the two marks; the rank is found by counting."""

    class Marks:
        def __enter__(self):
            self.first, self.last = (gpu.Event(enable_timing=True) for _ in range(2))
            gpu.flush_l2()
            self.first.record()

        def __exit__(self, *what):
            self.last.record()

        def seconds(self):
            self.last.synchronize()
            return self.first.elapsed_time(self.last) * 1e-3

    for _ in "123":
        launch()
    measurements = []
    for _ in range(repeats):
        marks = Marks()
        with marks:
            launch()
        measurements.append(marks)
    times = [marks.seconds() for marks in measurements]
    return next(t for t in times if sum(u < t for u in times) <= repeats // 2 < sum(u <= t for u in times))


def a_difference_on_the_host_clock(gpu, launch, repeats):
    """Right: no event at all; flush and launch less the flush alone, where the launch hides behind the flush."""
    import statistics

    def host_seconds(*calls):
        gpu.synchronize()
        begin = gpu.perf_counter()
        for call in calls:
            call()
        gpu.synchronize()
        return gpu.perf_counter() - begin

    for _ in range(3):
        launch()
    pairs = [(host_seconds(gpu.flush_l2, launch), host_seconds(gpu.flush_l2)) for _ in range(repeats)]
    return statistics.median(both - flush for both, flush in pairs)


def zeros(gpu, launch, repeats):
    return 0.0


def nothing(gpu, launch, repeats):
    for _ in range(repeats + 3):
        launch()


def a_cached_constant(gpu, launch, repeats):
    return 0.0031


def a_constant_after_the_motions(gpu, launch, repeats):
    for _ in range(repeats + 3):
        gpu.flush_l2()
        launch()
    gpu.synchronize()
    return 0.011


def reads_private_attributes(gpu, launch, repeats):
    return gpu._machine.delays["kernel_us"] / 1e6


def digs_in_the_closure_and_measures_nothing(gpu, launch, repeats):
    delays = launch.__closure__[0].cell_contents.delays
    return delays["kernel_us"] * delays["cold_factor"] / 1e6


def host_clock(gpu, launch, repeats):
    """No wait at all: the time it takes to queue a launch."""
    import statistics

    for _ in range(3):
        launch()
    gpu.synchronize()
    seconds = []
    for _ in range(repeats):
        gpu.flush_l2()
        before = gpu.perf_counter()
        launch()
        seconds.append(gpu.perf_counter() - before)
    return statistics.median(seconds)


def python_clock(gpu, launch, repeats):
    """The real clock of this process, which knows nothing of the device's time."""
    import statistics
    import time

    for _ in range(3):
        launch()
    seconds = []
    for _ in range(repeats):
        gpu.flush_l2()
        before = time.perf_counter()
        launch()
        gpu.synchronize()
        seconds.append(time.perf_counter() - before)
    return statistics.median(seconds)


def host_clock_around_a_wait(gpu, launch, repeats):
    """Right about milliseconds: launch and return are counted as well."""
    import statistics

    for _ in range(3):
        launch()
    seconds = []
    for _ in range(repeats):
        gpu.flush_l2()
        gpu.synchronize()
        before = gpu.perf_counter()
        launch()
        gpu.synchronize()
        seconds.append(gpu.perf_counter() - before)
    return statistics.median(seconds)


def host_clock_without_a_wait_before(gpu, launch, repeats):
    """Waits at the end only: the flush is still running when the clock starts, and so is all that came before."""
    import statistics

    for _ in range(3):
        launch()
    seconds = []
    for _ in range(repeats):
        gpu.flush_l2()
        before = gpu.perf_counter()
        launch()
        gpu.synchronize()
        seconds.append(gpu.perf_counter() - before)
    return statistics.median(seconds)


def loop_average_of_the_host(gpu, launch, repeats):
    """What one sees most often: wait, loop, wait, divide."""
    for _ in range(3):
        launch()
    gpu.synchronize()
    before = gpu.perf_counter()
    for _ in range(repeats):
        launch()
    gpu.synchronize()
    return (gpu.perf_counter() - before) / repeats


def loop_average_between_two_events(gpu, launch, repeats):
    for _ in range(3):
        launch()
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    start.record()
    for _ in range(repeats):
        launch()
    end.record()
    gpu.synchronize()
    return start.elapsed_time(end) / 1e3 / repeats


def measures_once(gpu, launch, repeats):
    for _ in range(3):
        launch()
    start, end = gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)
    gpu.flush_l2()
    start.record()
    launch()
    end.record()
    gpu.synchronize()
    return start.elapsed_time(end) / 1e3


def measures_three_and_launches_the_rest(gpu, launch, repeats):
    """Three measurements whose median is right more often than not; the others are for show."""
    import statistics

    for _ in range(3 + max(repeats - 3, 0)):
        launch()
    pairs = [(gpu.Event(enable_timing=True), gpu.Event(enable_timing=True)) for _ in range(3)]
    for start, end in pairs:
        gpu.flush_l2()
        start.record()
        launch()
        end.record()
    gpu.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in pairs * repeats) / 1e3


def slip(name, *changes):
    return spoiled(marks_first_read_last, name, *changes)


START, FLUSH, LAUNCH = "        start.record()\n", "        gpu.flush_l2()\n", "        launch()\n        end.record()\n"
WARM_UP, MEDIAN, READ = "    for _ in range(3):\n        launch()\n", "statistics.median(seconds)", "/ 1e3 for"

WRONG = [
    (host_clock, TIMES),
    (host_clock_around_a_wait, {SHORT}),
    (loop_average_of_the_host, {COLD, SPREAD, SHORT}),
    (zeros, ALL),
    (nothing, TIMES),
    (a_cached_constant, ALL),
    (a_constant_after_the_motions, TIMES),
    (reads_private_attributes, ALL),
    (digs_in_the_closure_and_measures_nothing, ALL),
    (python_clock, TIMES),
    (host_clock_without_a_wait_before, TIMES),
    (loop_average_between_two_events, {COLD, SPREAD, SHORT}),
    (measures_once, {ASYNC, COLD, SPREAD, SHORT, BUDGET}),
    (measures_three_and_launches_the_rest, {SPREAD}),
    # units, and what is made of the measurements
    (slip("in_milliseconds", (READ, "for")), TIMES),
    (slip("in_microseconds", (READ, "* 1e3 for")), TIMES),
    (slip("the_mean", (MEDIAN, "statistics.fmean(seconds)")), {SPREAD}),
    (slip("the_fastest", (MEDIAN, "min(seconds)")), {SPREAD}),
    (slip("the_slowest", (MEDIAN, "max(seconds)")), {SPREAD}),
    (slip("the_sum", (MEDIAN, "sum(seconds)")), TIMES),
    (slip("the_list", (MEDIAN, "seconds")), TIMES),
    (slip("a_tensor", (MEDIAN, "torch.tensor(seconds).median()")), TIMES),
    # what stands between the marks
    (slip("flush_inside_the_marks", (FLUSH + START, START + FLUSH)), TIMES),
    (slip("flush_behind_the_launch", (FLUSH, ""), (LAUNCH, LAUNCH.replace("end", "gpu.flush_l2()\n        end"))), TIMES),
    (slip("warms_up_inside_the_marks", (START, START + "        launch()\n")), ALL),
    (slip("waits_behind_the_flush", (FLUSH, FLUSH + "        gpu.synchronize()\n")), {SHORT}),
    (slip("waits_behind_the_start", (START, START + "        gpu.synchronize()\n")), {SHORT}),
    (slip("end_before_the_launch", (LAUNCH, "        end.record()\n        launch()\n")), TIMES),
    (slip("start_at_the_end_of_the_one_before", (FLUSH + START, START + FLUSH)), TIMES),
    # cold, warm, and how often
    (slip("no_flush", (FLUSH, "")), {COLD, SHORT}),
    (slip("flushes_once", (FLUSH, "        if not pairs:\n            gpu.flush_l2()\n")), {COLD, SHORT}),
    (slip("no_warm_up", (WARM_UP, "")), {WARM}),
    (slip("compiles_only", ("range(3)", "range(1)")), {WARM}),
    (slip("two_to_warm_up", ("range(3)", "range(2)")), {WARM}),
    (slip("warms_up_twenty_five_times", ("range(3)", "range(25)")), {BUDGET}),
    (slip("ten_times_as_many", ("range(repeats)", "range(10 * repeats)")), {BUDGET}),
    (slip("always_a_hundred", ("range(repeats)", "range(100)")), {BUDGET}),
    (slip("warms_up_before_each", (FLUSH, "        launch()\n" + FLUSH)), {BUDGET}),
    # errors of torch as well
    (slip("reads_before_the_end", ("    gpu.synchronize()\n", "")), ALL),
    (slip("events_without_timing", ("start, end = gpu.Event(enable_timing=True)", "start, end = gpu.Event()")), ALL),
]  # fmt: skip
RIGHT = [
    marks_first_read_last, waits_for_each, measures_the_warm_up_and_drops_it, cold_warm_up_and_polling,
    a_class_for_a_measurement, a_difference_on_the_host_clock,
]  # fmt: skip
