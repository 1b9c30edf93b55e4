"""A simulated GPU with known delays, to hold a timer against: a host and a device with one queue between them.

The simulation is an ordered list of operations and the delays of a case, nothing else, so whoever has both can run it again:
`replayed` does, outside the process that an answer ran in. Times are microseconds.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

MAX_OPERATIONS = 40_000  # of one attempt; a timer that needs more does not end
NOT_READY = "device not ready: an event has not happened yet; synchronise before you ask for the time between two"

DEVICE = {  # the delays of a simulated device, in microseconds unless the name says otherwise
    "kernel_us": 100.0,  # one launch with its data in the L2, at full clock
    "cold_factor": 1.0,  # times as long when the L2 holds other data
    "launch_us": 5.0,  # host time to queue a kernel
    "record_us": 1.0,  # host time to queue an event
    "return_us": 8.0,  # from the device's last work to the host's return from synchronize
    "poll_us": 50.0,  # host time of asking an event whether it has happened
    "event_us": 0.3,  # device time of an event
    "tick_us": 0.5,  # resolution of an event's time
    "flush_us": 60.0,  # device time of flush_l2
    "compile_us": 0.0,  # host time of the first launch, beyond launch_us
    "ramp": [],  # factors of the first launches, while the clock rises
    "queued_us": 0.0,  # work of others, queued before the timer begins
    "queue_depth": 1024,  # operations that may wait; then the host waits as well
    "jitter": 0.003,  # every launch varies by up to this share
    "outlier_us": 0.0,  # added to 2 launches of 10; 2 others run at 0.85 of the time
    "pause_us": 0.0,  # added to 1 host call of 16: another thread has the interpreter
    "seed": 0,
}


class Machine:
    """A host and a device with one queue. An operation moves the host's clock; what it queues runs when the device gets there.

    operations  ["name", or "name event event"]      launches  [{"start_us", "end_us", "cold"}]
    rows        [{"row": "host" or "device", "what", "start_us", "end_us"}] for a picture
    """

    def __init__(self, device: dict) -> None:
        self.delays = DEVICE | device
        seed = self.delays["seed"]
        self.now_us, self.free_us, self.cold = 0.0, self.delays["queued_us"], True
        self.operations: list[str] = []
        self.launches: list[dict] = []
        self.rows: list[dict] = []
        self._events: dict[int, tuple[float, float]] = {}  # id -> when it happens, the time it says
        self._waiting: deque[float] = deque()
        self._pauses, self._kinds = _shuffled(seed, 16, {"pause": 1}), _shuffled(seed + 1, 10, {"slow": 2, "fast": 2})
        self._jitter = random.Random(seed + 2)
        if self.free_us:
            self.rows.append({"row": "device", "what": "other work", "start_us": 0.0, "end_us": self.free_us})

    def launch(self) -> None:
        self._note("launch")
        d, count = self.delays, len(self.launches)
        self._host("launch", d["launch_us"] + (d["compile_us"] if count == 0 else 0.0))
        us = d["kernel_us"] * (d["cold_factor"] if self.cold else 1.0) * (1 + d["jitter"] * self._jitter.uniform(-1, 1))
        us *= d["ramp"][count] if count < len(d["ramp"]) else 1.0
        if d["outlier_us"] and (kind := next(self._kinds)):
            us = us + d["outlier_us"] if kind == "slow" else us * 0.85
        start, end = self._queue("kernel", us)
        self.launches.append({"start_us": start, "end_us": end, "cold": self.cold})
        self.cold = False

    def flush(self) -> None:
        self._note("flush")
        self._host("flush", self.delays["launch_us"])
        self._queue("flush", self.delays["flush_us"])
        self.cold = True

    def record(self, event: int) -> None:
        self._note(f"record {event}")
        self._host("record", self.delays["record_us"])
        start, end = self._queue("event", self.delays["event_us"])
        tick = self.delays["tick_us"]
        self._events[event] = end, round(start / tick) * tick

    def synchronize(self, event: int | None = None) -> None:
        self._note("synchronize" if event is None else f"synchronize {event}")
        until = self.free_us if event is None else self._events.get(event, (0.0, 0.0))[0]
        self._host("synchronize", max(until - self.now_us, 0.0) + self.delays["return_us"])

    def query(self, event: int) -> bool:
        self._note(f"query {event}")
        self._host("", self.delays["poll_us"])
        return self._events.get(event, (0.0, 0.0))[0] <= self.now_us

    def elapsed(self, first: int, second: int) -> float:
        """Milliseconds, as torch has them."""
        self._note(f"elapsed {first} {second}")
        self._host("", 1.0)
        if first not in self._events or second not in self._events:
            raise RuntimeError("an event was never recorded; call its record() first")
        if max(self._events[e][0] for e in (first, second)) > self.now_us:
            raise RuntimeError(NOT_READY)
        return (self._events[second][1] - self._events[first][1]) / 1e3

    def clock(self) -> float:
        self._note("clock")
        self._host("", 0.1)
        return 1000.0 + self.now_us / 1e6

    def _note(self, operation: str) -> None:
        if len(self.operations) >= MAX_OPERATIONS:
            raise RuntimeError(f"the simulated device has had {MAX_OPERATIONS} operations; does a loop never end?")
        self.operations.append(operation)

    def _host(self, what: str, us: float) -> None:
        pause = self.delays["pause_us"]
        pause = pause if pause and next(self._pauses) else 0.0
        begin, self.now_us = self.now_us, self.now_us + us + pause
        if what:
            self.rows.append({"row": "host", "what": what, "start_us": begin, "end_us": self.now_us})

    def _queue(self, what: str, us: float) -> tuple[float, float]:
        while self._waiting and self._waiting[0] <= self.now_us:
            self._waiting.popleft()
        if len(self._waiting) >= self.delays["queue_depth"]:
            self.now_us = self._waiting.popleft()
        start = max(self.now_us, self.free_us)
        self.free_us = start + us
        self._waiting.append(self.free_us)
        self.rows.append({"row": "device", "what": what, "start_us": start, "end_us": self.free_us})
        return start, self.free_us


def _shuffled(seed: int, block: int, counts: dict[str, int]) -> Iterator[str]:
    """For ever: blocks with so many of each word at random places, "" elsewhere. No long run without any, and none too many."""
    draw, words = random.Random(seed), [word for word, count in counts.items() for _ in range(count)]
    while True:
        mixed = words + [""] * (block - len(words))
        draw.shuffle(mixed)
        yield from mixed


def simulated_gpu(device: dict) -> tuple[Any, Callable[[], None], Machine]:
    """(gpu, launch, machine): what an answer gets, functions only, and the machine behind it, which it does not."""
    machine, count = Machine(device), iter(range(2**31))

    class Event:
        """As torch.cuda.Event."""

        __slots__ = ("elapsed_time", "query", "record", "synchronize")

        def __init__(self, enable_timing: bool = False) -> None:
            number = next(count)
            numbers[id(self)] = number, enable_timing
            alive.append(self)  # an id is not used twice
            self.record = lambda: machine.record(number)
            self.query = lambda: machine.query(number)
            self.synchronize = lambda: machine.synchronize(number)
            self.elapsed_time = lambda end: _elapsed(self, end)

    numbers: dict[int, tuple[int, bool]] = {}
    alive: list[Event] = []

    def _elapsed(first: Event, second: Any) -> float:
        if not isinstance(second, Event):
            raise TypeError(f"elapsed_time wants the other event, got {type(second).__name__}")
        (a, timed), (b, also_timed) = numbers[id(first)], numbers[id(second)]
        if not (timed and also_timed):
            raise RuntimeError("both events must be made with enable_timing=True")
        return machine.elapsed(a, b)

    gpu = SimpleNamespace(
        Event=Event,
        synchronize=lambda: machine.synchronize(),
        flush_l2=lambda: machine.flush(),
        perf_counter=lambda: machine.clock(),
    )
    return gpu, lambda: machine.launch(), machine


def replayed(device: dict, operations: str) -> Machine:
    """The machine after these operations. Raises ValueError for what no timer can have done."""
    machine = Machine(device)
    calls = {"launch": machine.launch, "flush": machine.flush, "record": machine.record, "synchronize": machine.synchronize,
             "query": machine.query, "elapsed": machine.elapsed, "clock": machine.clock}  # fmt: skip
    if operations.count("\n") >= MAX_OPERATIONS:
        raise ValueError(f"more than {MAX_OPERATIONS} operations")
    for operation in operations.splitlines():
        try:
            name, *events = operation.split()
            calls[name](*map(int, events))
        except RuntimeError:
            continue  # refused there as well
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{operation[:80]!r} is no operation of the simulated device") from error
    return machine
