"""Judges of phase 2 refuse what is nearly right: an entry twice, a start too late, a list cut short, a number off by a little."""

import pytest
import torch

from course_lib.exercises import exercise
from course_lib.exercises.phase2.overlap_cases import one_group_cases, rule_cases
from course_lib.exercises.phase2.overlap_judge import check_rules, check_short
from course_lib.exercises.runners import phase2_overlap
from course_lib.workloads.tile_gpus import Gpu, TileChoice

from .answers.phase2 import overlap, tile_needs

SINGLE = 1 + 2.0**-24  # what rounding to float32 does to a number


def criterion(number, name):
    return next(one for one in exercise(number).criteria if one.name == name)


def needs(name, **changed):
    """(what the check says of a right answer with these entries changed, that of the answer itself) on the first case."""
    known = criterion("2.5", name)
    case = known.cases(1)[0]
    right = tile_needs.line_by_line(TileChoice(*case["tile"]), Gpu(*case["gpu"]))
    changed = {key: value(right[key]) if callable(value) else value for key, value in changed.items()}
    return known.check(case, right | changed), known.check(case, right)


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("units", "product_cycles", lambda right: right * SINGLE), ("traffic", "flops_per_byte", lambda right: right * SINGLE),
        ("units", "exp_cycles", torch.tensor(512.0)), ("registers", "must_spill", int), ("programs", "programs", bool),
        ("refused", "refused", ""),
    ],
)  # fmt: skip
def test_an_entry_of_another_type_or_precision_is_refused(name, key, value):
    mistake, of_the_right = needs(name, **{key: value})
    assert of_the_right is None
    assert mistake.reason.startswith(f"{key}: got")


@pytest.mark.parametrize("number", [0, -1, 10**400, float("inf"), float("nan"), True, "4096"], ids=str)
def test_own_numbers_that_nothing_follows_from_are_set_aside(number):
    """What rests on them is judged by the right ones."""
    wrong = dict.fromkeys(("shared_bytes", "registers", "register_limit"), number)
    assert needs("programs", **wrong)[0] is None
    mistake, _ = needs("programs", **wrong, programs=17)
    assert "programs: got 17, expected" in mistake.reason


@pytest.fixture(scope="module")
def timelines():
    """(case, a right timeline) with two groups, and with one."""
    cases = next(case for case in rule_cases(1) if case["groups"] == 2), one_group_cases(1)[0]
    return [(case, phase2_overlap.timeline(overlap.in_turns, case)) for case in cases]


def test_a_job_twice_or_of_another_group_or_of_half_a_group_is_refused(timelines):
    case, right = timelines[0]
    assert check_rules(case, right) is None
    end = max(start for *_, start in right) + 10_000
    for more, said in (
        (("softmax", 0, 0, end), "stands in the list twice"), (("load", 7, 0, end), "stands in the list twice"),
        (("qk", 2, 0, end), "counted from 0"), (("qk", 0, case["tiles"], end), "counted from 0"),
        (("pv", 0.5, 0, end), "whole numbers"), (("pv", 0, 0, float("nan")), "all numbers"),
    ):  # fmt: skip
        assert said in check_rules(case, [*right, more]).reason


def test_the_length_of_a_timeline_ends_where_the_pace_says(timelines):
    """Later by what is to spare, and by a cycle more."""
    from course_lib.attention.timeline import most_cycles

    case, right = timelines[1]
    most = most_cycles(case["tiles"], case["groups"], case["alive"], case["stages"], case["cycles"])
    spare = most - max(start + case["cycles"][job] for job, _, _, start in right)
    for late, is_refused in ((spare, False), (spare + 1, True)):
        mistake = check_short(case, [(job, group, tile, start + late) for job, group, tile, start in right])
        assert (mistake is not None) == is_refused, mistake


@pytest.mark.parametrize("name", ["stage_bytes", "full_parity"])
def test_a_list_that_is_cut_short_or_goes_on_is_refused(name):
    known = criterion("2.10", "kernel: stages")
    case = known.cases(1)[0]
    right = phase2_overlap.kernel_facts(overlap.in_turns, case)
    assert known.check(case, right) is None
    for other in (right[name][:-1], [], [*right[name], 0]):
        assert f"{name}: a list of {len(other)}, expected" in known.check(case, right | {name: other}).reason


@pytest.mark.parametrize(("name", "key"), [("paces", "two tiles"), ("FP8", "fp8 gain")])
def test_a_pace_in_single_precision_is_refused(name, key):
    known = criterion("2.10", name)
    case = known.cases(1)[0]
    right = phase2_overlap.paces(overlap.in_turns, case)
    assert known.check(case, right) is None
    assert known.check(case, right | {key: right[key] * SINGLE}).reason.startswith(f"{key}: got")
