"""What the recorded steps say about launches: one floor for every way to run a step, and software decides the distance to it."""

import pytest

from course_lib.recorded import recorded

ROWS = recorded("launch_overhead")["rows"]
STEPS = {row["case"]: row for row in ROWS if row.get("part") == "step"}
MODELS = ("Qwen3-0.6B", "Llama-3-8B")


@pytest.mark.parametrize("model", MODELS)
def test_every_way_to_run_a_step_has_one_floor_and_another_distance_to_it(model):
    steps = {case.partition(": ")[2]: row for case, row in STEPS.items() if case.startswith(model)}
    assert len({row["floor_ms"] for row in steps.values()}) == 1
    for way in ("plain torch", "torch.compile", "the course's stack"):
        eager = next(row for name, row in steps.items() if name.startswith(way) and not row["in_graph"])
        graph = next(row for name, row in steps.items() if name.startswith(way) and row["in_graph"])
        assert graph["floor_ms"] < graph["ours"] < eager["ours"], way


def test_section_9_says_what_was_recorded():
    """Its words, one by one; the numbers themselves are printed from the file."""
    steps = {(model, case.partition(": ")[2]): row for case, row in STEPS.items() for model in [case.partition(": ")[0]]}
    assert len(steps) == 12
    assert max(row["roof_share"] for row in steps.values()) < 1 / 1.2  # none within 20% of the floor
    for model in MODELS:
        shares = {way: row["roof_share"] for (name, way), row in steps.items() if name == model}
        assert max(shares, key=shares.get) == "the course's stack in a graph"
        assert shares["plain torch in a graph"] < shares["torch.compile in a graph"] < shares["the course's stack in a graph"]
    small, large = (1 / steps[model, "the course's stack in a graph"]["roof_share"] for model in MODELS)
    assert (large < 1.5, small > 4) == (True, True)
    gains = [steps[m, "the course's stack"]["ours"] / steps[m, "the course's stack in a graph"]["ours"] for m in MODELS]
    assert gains[0] > 8
    assert gains[1] > 1.8
    ways = ("plain torch", "the course's stack", "plain torch in a graph")
    plain, fused, graph = (steps[MODELS[0], way]["ours"] for way in ways)
    assert plain - graph > 2 * (plain - fused)
    assert all(row["ours"] > 5 for row in ROWS if row["part"] == "launch")


@pytest.mark.parametrize("model", MODELS)
def test_the_breakdown_by_kernel_adds_up_to_what_the_device_was_busy(model):
    step = STEPS[f"{model}: the course's stack in a graph"]
    parts = [row for row in ROWS if row["case"].startswith(f"{model}, graph: ")]
    # medians of several replays on one side, the busy time of one on the other
    assert sum(row["ours"] for row in parts) / 1e3 == pytest.approx(step["busy_ms"], rel=0.02)
    assert {"attention", "gate and up", "down", "head"} <= {row["case"].partition("graph: ")[2] for row in parts}


@pytest.mark.parametrize("model", MODELS)
def test_start_times_show_that_kernels_of_a_graph_wait_less_for_each_other(model):
    eager, graph = (STEPS[f"{model}: the course's stack{where}"] for where in ("", " in a graph"))
    waiting = {name: (row["span_ms"] - row["busy_ms"]) / row["kernels"] for name, row in (("eager", eager), ("graph", graph))}
    assert 0 <= waiting["graph"] < waiting["eager"] / 5
