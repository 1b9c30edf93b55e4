"""Bytes of a copy kernel: what `copy_traffic` counts is the closed form, and the criterion tells a wasteful copy by how much."""

import pytest
import torch
import triton
import triton.language as tl

from course_lib.exercises.phase1.copy_traffic import check_copy, copy_bounds, copy_cases, copy_traffic, counted_copy
from course_lib.exercises.runners import phase1_copy as runner
from course_lib.grading.exercise import Exercise
from course_lib.grading.inside.attempt import attempt
from course_lib.grading.judging import conclude, plan
from course_lib.grading.launches import with_launch_evidence
from course_lib.grading.outcome import State
from course_lib.interpreter import KernelMistake
from course_lib.interpreter.recorded.recording import record

BLOCK = 256


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.load(x_ptr + index, mask=index < n, other=0), mask=index < n)


@triton.jit
def grid_stride_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for start in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        index = start + tl.arange(0, BLOCK)
        live = index < n
        tl.store(out_ptr + index, tl.load(x_ptr + index, mask=live, other=0), mask=live)


@triton.jit
def reads_twice_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = index < n
    x = tl.load(x_ptr + index, mask=live, other=0)
    tl.store(out_ptr + index, tl.where(x == x, tl.load(x_ptr + index, mask=live, other=0), x), mask=live)


@triton.jit
def unmasked_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + index, tl.load(x_ptr + index))


def copied(x, out):
    copy_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK)
    return out


def copied_by_two_programs(x, out):
    grid_stride_kernel[(2,)](x, out, x.numel(), BLOCK)
    return out


def copied_in_halves(x, out):
    half = x.numel() // 2
    for part in (slice(0, half), slice(half, None)):
        if x[part].numel():
            copied(x[part], out[part])
    return out


def reads_twice(x, out):
    reads_twice_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, out, x.numel(), BLOCK)
    return out


def stores_twice(x, out):
    return copied(x, copied(x, out))


def unmasked(x, out):
    unmasked_kernel[(triton.cdiv(x.numel(), BLOCK),)](x, out, BLOCK)
    return out


def copied_by_torch(x, out):
    return out.copy_(x)


def copied_by_torch_beside_a_kernel(x, out):
    copied(x[:0], out)
    return out.copy_(x)


@pytest.mark.parametrize("copy", [copied, copied_by_two_programs, copied_in_halves])
@pytest.mark.parametrize("case", copy_cases(seed=5), ids=lambda case: case["name"])
def test_a_copy_asks_for_two_times_n_times_the_size(copy, case):
    n, size = case["x"].numel(), case["x"].element_size()
    counted = copy_traffic(copy, case["x"], case["out"])
    assert (counted.loaded_bytes, counted.stored_bytes, counted.bytes) == (n * size, n * size, 2 * n * size)
    assert (counted.least_bytes, counted.times_the_least) == (2 * n * size, 1.0)
    assert check_copy(case, case["out"]) is None


def test_a_wasteful_copy_is_told_by_how_much():
    x = torch.ones(1000)
    assert copy_traffic(reads_twice, x, torch.empty(1000)).times_the_least == 1.5
    twice = copy_traffic(stores_twice, x, torch.empty(1000))
    assert (twice.times_the_least, twice.launches, twice.programs) == (2.0, 2, 8)


def test_a_mistake_and_a_copy_without_a_kernel_are_not_counted():
    with pytest.raises(KernelMistake, match=r"cannot load from x_ptr\[1000\]"):
        copy_traffic(unmasked, torch.ones(1000), torch.empty(1000))
    with pytest.raises(ValueError, match="copied_by_torch launched no kernel"):
        copy_traffic(copied_by_torch, torch.ones(1000), torch.empty(1000))


def test_cases_are_awkward_and_fresh():
    cases, others = copy_cases(1), copy_cases(2)
    assert {1, 1023, 1024, 1025} <= {case["x"].numel() for case in cases}
    assert {case["x"].element_size() for case in cases} == {1, 2, 4}
    assert not torch.equal(cases[2]["x"], others[2]["x"])
    for case in cases:
        assert check_copy(case, case["out"]) is not None  # left as it came
        assert check_copy(case, case["x"]) is None
        assert copy_bounds(case)["loaded_bytes"] == case["x"].numel() * case["x"].element_size()


COPY = Exercise(
    id="1.4", title="A copy kernel", entry="copy", params=("x", "out"), returns="out, holding x", runner="phase1_copy",
    may_import=frozenset({"torch", "triton"}), criteria=(counted_copy(points=2),),
)  # fmt: skip
WRONG = {
    reads_twice: "2.00 times the bound",
    stores_twice: "2.00 times the bound",
    unmasked: "cannot load from x_ptr",
    copied_by_torch: "your function launched no kernel",
    copied_by_torch_beside_a_kernel: "run again on their own, do not give your answer",
}


@pytest.fixture(scope="module")
def outcomes():
    """Outcome of each answer; the launches of all of them are replayed by one process."""
    answers, jobs = [copied, copied_by_two_programs, copied_in_halves, *WRONG], plan(COPY, "check", seed=11)
    made = [attempt(runner.copy_into, answer, job.case, None, record) for answer in answers for job in jobs]
    made = with_launch_evidence(COPY, "check", jobs * len(answers), made, runner, cached=True)
    parts = [made[place : place + len(jobs)] for place in range(0, len(made), len(jobs))]
    return {answer: conclude(COPY, "check", jobs, part).outcomes[0] for answer, part in zip(answers, parts, strict=True)}


@pytest.mark.parametrize("answer", [copied, copied_by_two_programs, copied_in_halves])
def test_the_criterion_passes_honest_copies_however_they_are_written(outcomes, answer):
    assert outcomes[answer].state is State.PASSED, outcomes[answer].reason


@pytest.mark.parametrize("answer", WRONG)
def test_the_criterion_fails_waste_and_cheats_and_says_why(outcomes, answer):
    assert outcomes[answer].state is State.FAILED
    assert WRONG[answer] in outcomes[answer].reason
