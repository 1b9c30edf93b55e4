"""The timers give what a device with known times spends: no warm-up, no launch, no queue, no flush."""

import pytest
import torch

from course_lib.timing import Timing, l2_flusher, paired_ratio, pairs, time_calls, time_in_graph

from .simulated import SimulatedQueue

KERNEL = 40e-6


def test_warm_up_is_not_counted():
    queue, calls = SimulatedQueue(), []

    def call():
        calls.append(1)
        queue.launch(KERNEL if len(calls) > 3 else 1.0)

    timing = time_calls(call, repeats=7, warmup=3, queue=queue)
    assert len(calls) == 10
    assert timing.seconds == pytest.approx([KERNEL] * 7)
    slow_start = time_calls(call, repeats=2, warmup=0, queue=SimulatedQueue())
    assert len(slow_start.seconds) == 2


def test_neither_the_launch_nor_what_was_queued_before_is_counted():
    queue = SimulatedQueue(launch_seconds=15e-6)
    queue.launch(2.0)
    timing = time_calls(lambda: queue.launch(5e-6), repeats=20, queue=queue)
    assert timing.median_seconds == pytest.approx(5e-6)
    assert timing.interval() == pytest.approx((5e-6, 5e-6))
    idle = SimulatedQueue(launch_seconds=15e-6, hold_seconds=0.0)
    assert time_calls(lambda: idle.launch(5e-6), queue=idle).median_seconds == pytest.approx(15e-6)  # the host's pace


def test_what_runs_before_a_call_is_outside_its_time():
    queue, order = SimulatedQueue(), []

    def flush():
        order.append("flush")
        queue.launch(1e-3)

    def call():
        order.append("call")
        queue.launch(KERNEL)

    assert time_calls(call, repeats=3, warmup=1, before=flush, queue=queue).seconds == pytest.approx([KERNEL] * 3)
    assert order == ["flush", "call"] * 4


def test_a_graph_is_timed_per_call_and_without_the_host():
    queue, calls = SimulatedQueue(launch_seconds=15e-6), []

    def call():
        calls.append(1)
        queue.launch(2e-6 if len(calls) > 3 else 1.0)

    timing = time_in_graph(call, calls_per_graph=8, repeats=5, queue=queue)
    assert timing.seconds == pytest.approx([2e-6] * 5)
    assert len(calls) == 3 + 8


@pytest.mark.parametrize(("arguments", "words"), [({"repeats": 0}, "repeats"), ({"warmup": -1}, "warmup"),
                                                    ({"repeats": float("nan")}, "repeats"), ({"repeats": 2.5}, "got 2.5")])
def test_a_timer_that_could_measure_nothing_is_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        time_calls(lambda: None, queue=SimulatedQueue(), **arguments)


def test_calls_of_no_time_make_no_ratio():
    with pytest.raises(ValueError, match=r"a call took 0\.0 s"):
        paired_ratio(lambda: None, lambda: None, rounds=2, measure=lambda call: 0.0)


@pytest.mark.skipif(torch.cuda.is_available(), reason="says so only without a GPU")
@pytest.mark.parametrize("timer", [time_calls, time_in_graph, lambda call: l2_flusher()])
def test_without_a_device_the_timers_say_so(timer):
    with pytest.raises(RuntimeError, match=r"no(ne)?.*labs doctor|CUDA device"):
        timer(lambda: None)


def test_pairs_alternate_and_a_machine_that_slows_down_favours_nobody():
    order, slowness = [], [1.0]

    def measure(call):
        order.append(call())
        slowness[0] *= 1.05  # each measurement finds a slower machine
        return slowness[0] * {"ours": 10e-6, "peer": 12e-6}[order[-1]]

    ratio = paired_ratio(lambda: "ours", lambda: "peer", rounds=8, measure=measure)
    assert order == ["ours", "peer", "peer", "ours"] * 4
    assert ratio.median == pytest.approx(1.2, rel=2e-3)  # ours first each time would give 1.26
    assert ratio.low < 1.2 < ratio.high
    assert len(ratio.ratios) == 8
    with pytest.raises(ValueError, match="rounds must be a whole number, 2 or more"):
        paired_ratio(lambda: "ours", lambda: "peer", rounds=1, measure=measure)


def test_a_pair_is_timed_with_a_cold_cache_unless_asked_otherwise(monkeypatch):
    def timed(call, *, before, **_):
        before()
        call()
        return Timing((1e-6,))

    did = []
    monkeypatch.setattr(pairs, "l2_flusher", lambda: lambda: did.append("flush"))
    monkeypatch.setattr(pairs, "time_calls", timed)
    paired_ratio(lambda: did.append("ours"), lambda: did.append("peer"), rounds=2)
    assert did == ["flush", "ours", "flush", "peer", "flush", "peer", "flush", "ours"]


def test_a_flush_writes_four_times_the_cache_and_changes_nothing_else(monkeypatch):
    made, empty = [], torch.empty

    def seen(*size, **more):
        made.append(empty(*size, **more))
        return made[-1]

    other = torch.arange(1000)
    monkeypatch.setattr(torch, "empty", seen)
    flush = l2_flusher(cache_bytes=1001, device="cpu")
    buffer, largest = made[0].fill_(7.0), made[1].fill_(7.0)
    flush()
    assert buffer.numel() * 4 >= 4 * 1001
    assert not buffer.any()
    assert largest == 0  # of the zeros: they were read again, so no written line is left for the timed kernel to evict
    assert torch.equal(other, torch.arange(1000))
    with pytest.raises(ValueError, match="cache_bytes must be positive, got 0"):
        l2_flusher(cache_bytes=0, device="cpu")
