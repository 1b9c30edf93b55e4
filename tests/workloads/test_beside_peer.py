"""Evidence of a timed exercise: turns, fresh inputs, looks at results, and the share of a roof, on a fake clock."""

import pytest
import torch

from course_lib.workloads import beside_peer as module
from course_lib.workloads.beside_peer import FREE, Peer, Turns, beside_peer, take_turns, torch_operations

PEER = Peer("torch's copy_", 2.0, "GB/s", "hbm_gb_per_s")
CASE = {"seed": 3, "sheet": [{"names": ["H200"], "hbm_gb_per_s": 4.0}]}


class Clock:
    """A device whose time passes when a call says so."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def work(self, name, seconds):
        def call():
            self.log.append(name)
            self.now += seconds

        return call

    def Event(self, enable_timing):
        return Mark(self)


class Mark:
    def __init__(self, clock):
        self.clock = clock

    def record(self):
        self.at = self.clock.now

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return 1e3 * (end.at - self.at)


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "NVIDIA H200")
    monkeypatch.setattr(torch.cuda, "Event", made.Event)
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: made.work("busy", 7.0)())
    return made


def test_turns_alternate_and_time_nothing_but_the_call(clock):
    looks = []
    turns = take_turns(
        clock.work("mine", 1.0), clock.work("peer", 2.0), fresh=clock.work("fresh", 5.0),
        is_right=lambda: looks.append(clock.log[-1]) or len(looks) > 1, rounds=3,
    )  # fmt: skip
    assert (turns.own, turns.theirs, turns.wrong) == ([1.0] * 3, [2.0] * 3, 1)
    assert looks == ["mine"] * 3  # before the inputs change again
    warm_up, rounds = clock.log[:5], clock.log[5:]
    assert warm_up == ["mine", "peer", "mine", "peer", "mine"]  # the last one is watched
    mine, peer = ["busy", "fresh", "mine"], ["busy", "fresh", "peer"]
    assert rounds == [*peer, *mine, *mine, *peer, *peer, *mine]


def test_evidence_has_rates_ratios_and_the_share_of_the_data_sheets_roof(clock):
    found = beside_peer(CASE, PEER, lambda: Turns([1.0, 0.8, 1.25], [1.0, 0.4, 1.0], 0, ["add_"]))
    assert found["ratios"] == [1.0, 0.5, 0.8]
    assert (found["rate"], found["peer_rate"], found["rate_spread"]) == (2.0, 2.0, [1.6, 2.5])
    assert (found["roof_share"], found["rounds"], found["wrong_rounds"]) == (0.5, 3, 0)
    assert (found["device"], found["torch_operations"]) == ("NVIDIA H200", ["add_"])
    assert found["peer"] == "torch's copy_ (2 GB/s; yours 2, 0.50 of the sheet's 4)"


@pytest.mark.parametrize("name", ["NVIDIA GH200 480GB", "NVIDIA L4"])
def test_a_device_without_a_row_is_held_against_its_peer(clock, monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: name)
    found = beside_peer(CASE, PEER, lambda: Turns([4.0], [2.0]))
    assert (found["roof_share"], found["peer"]) == (0.5, "torch's copy_ (1 GB/s; yours 0)")


def test_what_is_wrong_has_no_rate(clock):
    assert beside_peer(CASE, PEER, lambda: Turns([0.1], [1.0], wrong=1))["roof_share"] == 0.0


@pytest.mark.parametrize(("first", "times"), [(0.1, 2), (0.5, 1)])
def test_a_share_beyond_belief_is_measured_once_more(clock, first, times):
    measured = [Turns([first], [1.0]), Turns([1.0], [1.0])]
    found = beside_peer(CASE, PEER, lambda: measured.pop(0))
    assert len(measured) == 2 - times
    assert found["roof_share"] == (1.0 if times == 1 else 0.5)


def test_a_share_beyond_belief_twice_is_what_was_measured(clock):
    measured = [Turns([0.1], [1.0]) for _ in range(3)]
    assert beside_peer(CASE, PEER, lambda: measured.pop())["roof_share"] == pytest.approx(5)
    assert len(measured) == 1


def test_the_seed_decides_what_the_inputs_are(clock):
    drawn = []
    for _ in range(2):
        beside_peer(CASE, PEER, lambda: drawn.append(torch.rand(4).tolist()) or Turns([1.0], [1.0]))
    assert drawn[0] == drawn[1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="blocked only without a GPU")
def test_without_a_device_it_is_blocked_and_nothing_runs():
    assert "needs a CUDA device" in beside_peer(CASE, PEER, lambda: pytest.fail("ran"))["blocked"]


def test_what_torch_does_inside_a_timed_function_is_seen_and_new_memory_is_free():
    x, out = torch.ones(40), torch.zeros(40)
    assert torch_operations(lambda: out.copy_(x)) == ["copy_"]
    assert torch_operations(lambda: out.view(5, 8).add_(x.reshape(5, 8))) == ["add_"]
    assert torch_operations(lambda: torch.empty_like(x).view(-1)[:3]) == []
    assert torch_operations(lambda: torch.zeros(3, 4).T.permute(1, 0).split(2)) == []
    assert torch_operations(lambda: torch.full((3,), 2.0).unbind()) == []
    assert not FREE & {"copy_", "clone", "cat", "mul", "mm", "sum", "index_select", "_to_copy", "contiguous"}


def test_the_device_is_kept_busy_long_enough():
    assert module.AHEAD_CYCLES / 2e9 > 2e-4  # a launch of Triton takes the host tens of microseconds
