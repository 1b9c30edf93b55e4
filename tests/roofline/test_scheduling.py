"""The simulated engine keeps its rules under any plans, the reference its promises."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.exercises.phase1 import scheduler_cases
from course_lib.exercises.phase1.scheduler import SCHEDULER, check_plans
from course_lib.exercises.runners import phase1_scheduler as runner
from course_lib.roofline import LLAMA_3_8B
from course_lib.roofline.scheduling import (
    engine_numbers,
    kv_budget_tokens,
    mixed_step_ms,
    plan_step,
    step_ms,
    token_budget,
)
from course_lib.workloads.batching import Engine, replay, simulate
from course_lib.workloads.served import goodput, longest_wait, tokens_made, tokens_per_second, worst_gap_ms

H100 = 0.60 * 989.4e12, 0.85 * 3350e9  # FLOP/s and bytes/s reached
BY_HAND = {
    "engine": {"weights_ms": 10.0, "ms_per_token": 0.02, "ms_per_kv_token": 0.001}, "itl_target_ms": 20.0, "ttft_target_ms": 50.0,
    "block_size": 16, "total_blocks": 250, "until_ms": 130.0,
    "requests": [
        {"id": number, "arrived_ms": at, "prompt_tokens": prompt, "max_output": most, "stops_after": most, "running": False}
        for number, at, prompt, most in ((1, 0.0, 1500, 3), (2, 0.0, 600, 3), (3, 25.0, 2000, 2))
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("chunk", "milliseconds"), [(0, 8.3), (256, 8.3), (512, 13.0), (1024, 25.4), (2048, 50.9), (8192, 223.1)]
)
def test_a_mixed_step_equals_the_golden_values(chunk, milliseconds):
    assert round(mixed_step_ms(LLAMA_3_8B, 32, 2048, chunk, *H100), 1) == milliseconds


def test_the_numbers_and_budgets_of_an_engine_by_hand():
    engine = engine_numbers(LLAMA_3_8B, *H100)
    assert engine == pytest.approx({"weights_ms": 5.271, "ms_per_token": 0.02528, "ms_per_kv_token": 4.603e-5}, rel=1e-3)
    assert token_budget(engine, 40.0) == 1582
    assert kv_budget_tokens(engine, 40.0) == pytest.approx(754_500, rel=1e-3)
    assert step_ms(engine, 1582, 754_400) <= 40.0 < step_ms(engine, 1583, 0)
    assert step_ms(engine, 1, 754_600) > 40.0
    assert engine_numbers(LLAMA_3_8B, *H100, ranks=4)["weights_ms"] == pytest.approx(engine["weights_ms"] / 4)


def test_three_requests_by_hand():
    engine = simulate(BY_HAND, plan_step)
    steps = [(round(r["start_ms"], 1), r["decode"], r["prefill_tokens"]) for r in engine.records]
    assert steps[:4] == [(0, 0, 1000), (20, 0, 1000), (40, 1, 100), (52, 2, 0)]
    assert steps[4:] == [(64.1, 1, 999), (84.1, 0, 1000), (104.1, 0, 1), (116.1, 1, 0)]
    first, second, third = engine.all
    assert [round(r["first_ms"], 1) for r in engine.all] == [40.0, 52.0, 116.1]
    assert (first["made"], second["made"], third["made"]) == (3, 3, 2)
    assert worst_gap_ms(engine, first) == pytest.approx(12.101)
    assert longest_wait(engine)[1] is third
    assert goodput(engine) == pytest.approx(1 / 3)  # 40 ms meets 50, 52 does not, nor do 91.1
    assert tokens_per_second(engine) == pytest.approx(1e3 * 4105 / engine.now_ms)
    assert engine.free_blocks == 250


def test_entries_that_break_a_rule_are_refused_and_the_others_done():
    engine = Engine(BY_HAND | {"total_blocks": 100})
    plan = {"decode": [1, 9], "prefill": [(1, 0), (2, 601), (1, 1500), (2, 600), (1, 1)]}
    record = engine.step(plan)
    assert record["refused"] == [[1, 1, "phase"], [9, 1, "unknown"], [1, 0, "tokens"], [2, 601, "tokens"], [2, 600, "blocks"],
                                 [1, 1, "twice"]]  # fmt: skip
    assert record["prefill_tokens"] == 1500
    assert record["used_blocks"] == 94
    assert engine.free_blocks == 6
    assert engine.all[0]["made"] == 1


def test_a_pool_without_the_next_block_of_those_who_run_is_told():
    engine = Engine(BY_HAND | {"total_blocks": 131, "requests": [dict(BY_HAND["requests"][0], prompt_tokens=1504),
                                                                 dict(BY_HAND["requests"][1], prompt_tokens=592)]})  # fmt: skip
    assert not engine.step({"prefill": [(1, 1504), (2, 592)]})["stranded"]  # 94 + 37 blocks, all full
    record = engine.step({"decode": [1, 2]})
    assert record["stranded"]
    assert [why for _, _, why in record["refused"]] == ["blocks", "blocks"]


def test_a_state_is_a_copy_without_the_future():
    engine = Engine(BY_HAND)
    state = engine.state()
    assert [r["id"] for r in state["waiting"]] == [1, 2]
    assert "stops_after" not in repr(state)
    state["engine"].clear()
    state["waiting"][0]["prompt_left"] = 0
    assert engine.state() != state
    assert engine.state()["engine"] == BY_HAND["engine"]


def random_plan(draw):
    """A scheduler that does anything, right or wrong."""

    def plan(state):
        ids = [r["id"] for r in state["running"] + state["waiting"]] + [-1]
        decode = [r["id"] for r in state["running"] if draw.random() < 0.8] + draw.choices(ids, k=draw.randint(0, 2))
        prefill = [(draw.choice(ids), draw.randint(-1, 2000)) for _ in range(draw.randint(0, 3))]
        return {"decode": decode, "prefill": prefill + [(r["id"], r["prompt_left"]) for r in state["waiting"][:1]]}

    return plan


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), blocks=st.integers(1, 300))
def test_whatever_is_planned_the_engine_keeps_its_books(seed, blocks):
    trace = scheduler_cases.example_trace("steady", seed) | {"total_blocks": blocks, "until_ms": 400.0}
    plans = runner.plans_of_a_trace(random_plan(random.Random(seed)), trace)
    engine = replay(trace, plans)
    last_ms = 0.0
    for record in engine.records:
        assert 0 <= record["free_blocks"] <= blocks
        assert 0 <= record["used_blocks"] <= blocks
        assert record["step_ms"] == max(record["arithmetic_ms"], record["memory_ms"]) > 0
        assert record["start_ms"] >= last_ms
        last_ms = record["start_ms"] + record["step_ms"]
    held = sum(-(-request["held"] // trace["block_size"]) for request in engine.live.values())
    assert engine.free_blocks == blocks - held >= 0
    for request in engine.all:
        assert request["made"] <= request["stops_after"]
        assert request["held"] <= request["prompt_tokens"] + max(0, request["made"] - 1)
    assert tokens_made(engine) == sum(request["made"] for request in engine.all)
    # what the runner's engine went through is what the replay sees
    again = simulate(trace, random_plan(random.Random(seed)))
    assert again.records == engine.records


@pytest.mark.parametrize("name", ["steady", "burst", "long prompts", "long contexts", "small pool", "overload"])
def test_the_reference_keeps_every_promise(name):
    for seed in range(3):
        trace = scheduler_cases.example_trace(name, seed)
        engine = simulate(trace, plan_step)
        assert not any(record["refused"] or record["stranded"] for record in engine.records)
        assert max(record["step_ms"] for record in engine.records) <= trace["itl_target_ms"] * (1 + 1e-9)
        assert all(worst_gap_ms(engine, r) <= trace["itl_target_ms"] * (1 + 1e-9) for r in engine.all if r["made"])


def test_an_unknown_example_trace_lists_the_known_ones():
    with pytest.raises(ValueError, match="steady, burst"):
        scheduler_cases.example_trace("quiet")


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (None, "NoneType"),
        ({"decode": []}, "no 'prefill'"),
        ({"decode": [1.5], "prefill": []}, "all int"),
        ({"decode": [], "prefill": {1: 2}}, "all int"),
        ({"decode": list(range(20_000)), "prefill": []}, "10,000 entries"),
    ],
)
def test_what_is_no_plan_is_told_in_words(plan, said):
    case = scheduler_cases.plan_cases(1)[0]
    mistake = check_plans(case, runner.plans_of_a_trace(lambda state: plan, case))
    assert said in mistake.reason


@pytest.mark.parametrize("output", [None, 7, [7], [{"decode": 1}], [{"decode": [True]}], [{"prefill": [[1, 2, 3]]}], [{"x": 1}]])
def test_an_output_that_no_runner_made_proves_nothing(output):
    for criterion in SCHEDULER.criteria:
        case = criterion.cases(1)[0]
        assert criterion.check(case, output) is not None


def test_plans_that_end_early_leave_the_engine_standing():
    case = scheduler_cases.plan_cases(1)[0]
    plans = runner.plans_of_a_trace(plan_step, case)
    assert check_plans(case, plans) is None
    assert check_plans(case, plans[:3]) is not None
