"""Exercise 2.9 against many answers at once: plans by themselves, decodes by theirs."""

import pytest

from course_lib.exercises import exercise
from course_lib.exercises.phase2 import split_plan
from course_lib.exercises.runners import phase2_split_decode as runner
from course_lib.grading.criteria import Finding
from course_lib.grading.inside.attempt import attempt
from course_lib.grading.judging import plan
from course_lib.grading.outcome import State

from . import judged_together
from .answers.phase2 import split_decode as answers

SEED = judged_together.SEED
SAYS = {  # what a learner reads, where the words are the point
    answers.unsplit: "Nothing is cut: the longest item has 8,192 blocks",
    answers.by_batch: "How many programs wait for it?",
    answers.sixteen_each: "What must the number of pieces depend on?",
    answers.single_blocks: "Every block is an item of its own",
    answers.rounded_down: "The last block need not be full",
    answers.one_block_too_many: "A block that is just full needs no other one",
    answers.first_head_only: "Each KV head has keys and values of its own",
    answers.items_for_none: "A sequence without tokens has no item",
    answers.shuffled: "a second call with the same arguments gave another list",
    answers.share_rounded_down: "Items of 15 blocks are T / 4P rounded down",
    answers.first_tile_of_parts: "Only the first 64 parts of each pair are there",
    answers.merge_not_rescaled: "When a later tile of parts raises m",
    answers.part_maximum_falls: "m must never fall",
    answers.merge_maximum_falls: "m must never fall",
    answers.end_is_last: "end_block is the first block that an item does not read",
    answers.part_not_divided: "A part's out is divided by its own sum",
    answers.part_without_log: "A part's lse is its maximum alone",
    answers.part_natural_log: "Is it log2?",
    answers.empty_part_is_zero: "A part without a token weighs something",
    answers.parts_from_zero: "Every part begins at token 0",
    answers.ends_with_the_block: "NaN lies wherever no token does",
    answers.whole_sequence: "Every part goes on to its sequence's end",
    answers.first_part: "Only the first part of each pair is there",
    answers.mean_of_parts: "Parts are averaged as if each had seen as much",
    answers.merge_without_guard: "what is -inf - (-inf)",
    answers.not_divided: "not divided by the sum of their weights",
    answers.base_two_lse: "lse is the natural one",
    answers.two_bases: "lse is in base e in one kernel and in base 2 in the other",
    answers.no_scale: "Nothing divides by sqrt(head_dim) yet",
    answers.base_two: "What makes e ** s of them?",
    answers.packed_strides: "which strides does each pointer take?",
    answers.a_head_each: "a KV head serves 4 query heads",
    answers.padded_parts: "not those that pad the tile",
    answers.first_kv_head: "K is that of KV head 0 throughout",
    answers.another_head_map: "The query heads of KV head j are j * group",
    answers.merge_from_zero: "does a maximum begin at a number",
}


def of_plan(answer, seed=SEED):
    """{criterion's name: its first mistake} of the three that look at the plan."""
    known, found = exercise("2.9"), {}
    for job in plan(known, "check", seed=seed):
        criterion = known.criteria[job.criterion]
        if criterion.run != "plan_splits" or found.get(criterion.name):
            continue
        one = attempt(getattr(runner, criterion.run), answer, job.case)
        found[criterion.name] = one["message"] if one["status"] != "returned" else criterion.mistake(job.case, one)
    return {name: mistake for name, mistake in found.items() if mistake}


def of_decode(each, reports):
    """answer -> {criterion's name: its findings}, of those that look at the decode; one process replays the launches of all.

    A wrong answer's launches are replayed where it must fail by them; elsewhere its output is looked at, up to the first mistake.
    """
    from course_lib.interpreter.recorded.recording import record

    known, found, waiting = exercise("2.9"), {answer: {} for answer in each}, []
    must_fail = dict(WRONG_DECODES)
    for answer in each:
        for job in plan(known, "check", seed=SEED):
            criterion = known.criteria[job.criterion]
            if criterion.run == "plan_splits" or any(found[answer].get(criterion.name, ())):
                continue
            one = attempt(getattr(runner, criterion.run), answer, job.case, None, record)
            if answer not in must_fail or criterion.name in must_fail[answer] & {"traffic", "compiled"}:
                waiting.append((answer, job, one))
            else:
                of_output = one["message"] if one["status"] != "returned" else criterion.mistake(job.case, one)
                found[answer].setdefault(criterion.name, []).append(of_output)
    jobs, made = [job for _, job, _ in waiting], [one for *_, one in waiting]
    made = judged_together.with_evidence("2.9", runner, jobs, made, reports)
    for (answer, job, _), one in zip(waiting, made, strict=True):
        criterion = known.criteria[job.criterion]
        finding = criterion.judge(job.case, one) if one["status"] == "returned" else Finding(State.FAILED, one["message"])
        found[answer].setdefault(criterion.name, []).append(None if finding.state is State.PASSED else finding)
    return found


WRONG_DECODES = [*answers.MORE_WRONG, *answers.REST_WRONG]
RIGHT_PLANS = [*answers.RIGHT, *answers.MORE_RIGHT]


def check_decodes(rows, right, reports):
    found = of_decode([answer for answer, _ in rows] + right, reports)
    for answer, must in rows:
        of_each = found[answer]
        failed = {name for name, all_of_it in of_each.items() if any(all_of_it)}
        assert failed == must, (answer.__name__, failed, of_each)
        assert SAYS.get(answer, "") in " ".join(str(one) for all_of_it in of_each.values() for one in all_of_it), answer.__name__
    for answer in right:
        assert not any(one for all_of_it in found[answer].values() for one in all_of_it), (answer.__name__, found[answer])
        assert len(found[answer]) == 6


@pytest.mark.parametrize(("answer", "must"), answers.WRONG_PLANS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_plan_fails_exactly_the_criteria_it_breaks(answer, must):
    found = of_plan(answer)
    assert set(found) == must, found
    assert SAYS.get(answer, "") in " ".join(map(str, found.values()))


@pytest.mark.parametrize("answer", RIGHT_PLANS, ids=lambda a: a.__name__)
def test_a_right_plan_passes_however_it_is_written(answer):
    assert not of_plan(answer)


@pytest.mark.compile
def test_wrong_decodes_fail_exactly_the_criteria_they_break(tmp_path):
    check_decodes(answers.MORE_WRONG, [], tmp_path)


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (answers.first_tile_of_parts, "parts"),
        (answers.merge_not_rescaled, "parts"),
        (answers.part_maximum_falls, "edges"),
        (answers.merge_maximum_falls, "edges"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_a_slip_that_only_many_parts_or_tiles_show_is_seen_in_the_last_case_and_named(answer, name):
    known = exercise("2.9")
    *_, (criterion, case) = [
        (known.criteria[job.criterion], job.case)
        for job in plan(known, "check", seed=SEED)
        if known.criteria[job.criterion].name == name
    ]
    for each, words in ((answer, SAYS[answer]), (answers.quarter_shares, "")):
        found = criterion.mistake(case, attempt(runner.split_decode, each, dict(case)))
        assert (words in str(found)) if words else found is None, found


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        (answers.part_not_divided, "heads"),
        (answers.part_without_log, "heads"),
        (answers.part_natural_log, "heads"),
        (answers.parts_from_zero, "heads"),
        (answers.empty_part_is_zero, "edges"),
    ],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_a_slip_in_what_a_part_keeps_is_named(answer, name):
    known = exercise("2.9")
    for job in plan(known, "check", seed=SEED):
        criterion = known.criteria[job.criterion]
        if criterion.name == name and (found := criterion.mistake(job.case, attempt(runner.split_decode, answer, job.case))):
            break
    assert SAYS[answer] in str(found), found


@pytest.mark.soak
@pytest.mark.compile
def test_more_wrong_decodes_fail_exactly_theirs_and_right_ones_pass(tmp_path):
    check_decodes(answers.REST_WRONG, answers.MORE_RIGHT, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize(("answer", "must"), answers.MORE_WRONG_PLANS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_plan_of_very_many_items_fails_exactly_the_criteria_it_breaks(answer, must):
    test_a_wrong_plan_fails_exactly_the_criteria_it_breaks(answer, must)


@pytest.mark.soak
@pytest.mark.parametrize(("answer", "must"), answers.WRONG_PLANS, ids=lambda v: getattr(v, "__name__", ""))
def test_a_wrong_plan_never_passes_by_luck(answer, must):
    for seed in range(40):
        assert set(of_plan(answer, seed)) == must


@pytest.mark.soak
@pytest.mark.parametrize("answer", RIGHT_PLANS, ids=lambda a: a.__name__)
def test_a_right_plan_always_passes(answer):
    for seed in range(60):
        assert not of_plan(answer, seed)


def test_a_list_without_items_too_large_is_always_balanced():
    """What the text says: no item above S blocks, so the end is at most T / P + S, in whatever order they come."""
    import random

    draw = random.Random(5)
    for _ in range(200):
        largest, programs = draw.randint(1, 40), draw.randint(1, 30)
        sizes = [draw.randint(1, largest) for _ in range(draw.randint(1, 300))]
        assert split_plan.fullest(sizes, programs) <= sum(sizes) / programs + largest


def test_the_model_hands_out_to_whoever_is_free_first():
    assert split_plan.handed_out([4, 1, 2, 3], 2) == [(0, 0), (1, 0), (1, 1), (1, 3)]
    assert split_plan.fullest([4, 1, 2, 3], 2) == 6
    assert split_plan.fullest([], 3) == 0


def test_bounds_are_those_that_paper_gives():
    """17 and 40 tokens in blocks of 16, items of 2 blocks: 17, 32 and 8 tokens; group 4, head_dim 64, fp16; 3 items, 8 merges."""
    import torch

    from course_lib.exercises.phase2.split_decode_traffic import split_decode_bounds

    pool = torch.empty(9, 16, 1, 64, dtype=torch.float16)
    items = torch.tensor([[0, 0, 0, 2], [1, 0, 0, 2], [1, 0, 2, 3]], dtype=torch.int32)
    case = {
        "q": torch.empty(2, 4, 64, dtype=torch.float16), "k_blocks": pool, "v_blocks": pool, "items": items,
        "kv_lengths": torch.tensor([17, 40], dtype=torch.int32),
    }  # fmt: skip
    found = split_decode_bounds(case)
    parts = 3 * 4 * 66 * 4
    assert found["loaded_bytes"] == 2 * 57 * 128 + 3 * 4 * 128 + 4 * 3 * 128 + parts + 64 * 11
    assert found["stored_bytes"] == parts + 8 * (128 + 4)
    assert found["dot_flops"] == 4 * 64 * 16 * 3 * 128


def test_the_judges_work_list_is_sorted_and_says_where_pairs_begin():
    items, first = runner.work_list([(1, 1, 0, 2), (0, 1, 3, 4), (0, 1, 0, 3), (1, 0, 0, 9)], 2, 2, "cpu")
    assert items.tolist() == [[0, 1, 0, 3], [0, 1, 3, 4], [1, 0, 0, 9], [1, 1, 0, 2]]
    assert first.tolist() == [0, 0, 2, 3, 4]


@pytest.fixture
def device(monkeypatch):
    """torch.cuda as far as the runner uses it; what is made on the device lies in host memory."""
    import types

    import torch

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            pass

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return 1e6  # no share of any roof is beyond belief

    for name, stand_in in {
        "is_available": lambda: True, "get_device_name": lambda: "NVIDIA H200", "Event": Event, "_sleep": lambda cycles: None,
        "mem_get_info": lambda: (2**37, 2**37), "synchronize": lambda: None,
        "get_device_properties": lambda device: types.SimpleNamespace(multi_processor_count=2),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, stand_in)
    for name, value in {"DEVICE": "cpu", "FAR": 2**14, "Q_HEADS": 8, "KV_HEADS": 2, "HEAD_DIM": 32, "L2_FLUSH": 2**10}.items():
        monkeypatch.setattr(runner, name, value)


def not_the_last_part():
    plan_splits, split_decode = answers.by_torch()

    def shorter(q, k_blocks, v_blocks, block_tables, kv_lengths, items, first):
        return split_decode(q, k_blocks, v_blocks, block_tables, kv_lengths - 16, items, first)

    return plan_splits, shorter


@pytest.mark.parametrize(("answer", "wrong", "far"), [(answers.by_torch, 0, "right"), (not_the_last_part, 15, "wrong")])
def test_what_is_measured_is_looked_at_in_each_round(device, answer, wrong, far):
    found = runner.split_decode_on_this_device(answer, {"sequences": 2, "tokens": 64, "seed": 5, "sheet": []})
    assert (found["wrong_rounds"], found["far"], found["rounds"]) == (wrong, far, 15)
    assert "einsum" in " ".join(found["torch_operations"]) or "bmm" in found["torch_operations"]
    assert found["peer"].startswith("a plain read of K and V")
