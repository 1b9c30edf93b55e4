"""Exercise 2.11: its mutants differ from right caches, its oracle is right by hand, hints name the slip."""

import pytest
import torch

from course_lib.course.live import check_live
from course_lib.exercises.phase2.debugging_caches import FAULTS, RIGHT, TOLD, cache_cases, check_verdict, kind_of
from course_lib.exercises.phase2.debugging_cases import gather_cases, page_cases, reuse_cases
from course_lib.exercises.phase2.debugging_judge import check_operations
from course_lib.exercises.phase2.findings_cases import cause_cases, number_cases
from course_lib.exercises.phase2.findings_judge import check_causes, check_numbers, expected_findings
from course_lib.exercises.runners import phase2_debugging as runner
from course_lib.kvcache.baselines import MaxLength, OracleFirstFit, Paged
from course_lib.kvcache.replay import replay
from course_lib.kvcache.trace import SHAREGPT, Request
from course_lib.workloads import faulty_caches
from course_lib.workloads.faulty_caches import cache_maker, turn_of

from .answers.phase2 import debugging as answers

SAYS = {
    "says_false_and_raises_nothing": "A result is not looked at",
    "wants_page_0_first": "which page is handed out",
    "looks_at_keys_only": "two tensors to look at",
    "never_beyond_the_end": "behind the last token",
    "whole_numbers": "survive a rounding",
    "keeps_its_buffer": "into the same buffer",
    "writes_into_nothing": "Whose is the result?",
    "never_full": "after a refusal",
    "counts_before_there_is_a_page": "a token that was refused",
    "opens_too_early": "opened by the first token in it",
    "sorts_the_pages": "In which order",
    "begins_at_the_page": "in the middle of a page",
    "gives_its_own_memory": "Copies are needed",
    "no_empty_range": "An empty range is a range",
    "gives_what_nobody_wrote": "nobody wrote",
    "whole_pages": "Which of their rows",
    "rates_since_the_start": "since the start",
    "cached_is_taken": "A cached block has no reader",
    "internal_only": "Reserved slots are empty",
    "every_miss_is_lost": "nobody sent before",
    "evictions_of_the_window": "before the first scrape",
    "any_error_is_a_refusal": "Which exceptions does your test take",
    "never_an_empty_range_behind_the_end": "when start = stop",
    "goes_on_and_on": "Fewer rounds",
    "an_empty_range_anywhere": "not more",
    "stop_is_asked_for": "stop itself is not asked for",
    "keys_and_values_exchanged": "Keys lie in k_pages",
    "gauges_as_differences": "nothing is subtracted",
    "evictions_before_the_first_scrape": "Can these numbers tell?",
    "leaked_if_grown": "nothing is subtracted",
    "no_sequence_at_either_scrape": "nothing is subtracted",
    "always_needs_the_bound": "how much can have been lost",
    "the_roadmaps_alert": "Can these numbers tell?",
    "alert_at_the_edge": "At exactly nine tenths",
    "held_is_leaked": "can all be theirs",
    "running_is_no_leak": "Can these numbers tell?",
    "cached_is_leaked": "held by nobody",
}


def wrong(name):
    return next(answer for answer, _ in answers.WRONG if answer.__name__ == name)


@pytest.mark.parametrize("slip", SAYS)
def test_a_usual_slip_gets_its_hint(slip):
    hints = [outcome.hint for outcome in check_live("2.11", wrong(slip), seed=3).outcomes]
    assert any(SAYS[slip] in hint for hint in hints), hints


def test_each_fault_is_told_to_the_learner_and_has_a_case_of_its_own():
    kinds = [kind_of(case) for group in FAULTS for case in cache_cases(group)(0)]
    assert sorted(kind for kind in kinds if kind not in RIGHT) == sorted(TOLD)
    assert len(TOLD) == 26  # as the text says
    assert len(kinds) == 35
    assert sorted(kind for kind in kinds if kind in RIGHT) == sorted(RIGHT * 3)


@pytest.mark.parametrize("group", FAULTS)
def test_a_case_says_nothing_about_what_it_holds(group):
    """Neither of its numbers alone, nor its place; and the module beside the learner's code has no list of names."""
    places, turns = set(), {}
    for seed in range(20):
        cases = cache_cases(group)(seed)
        right = {case["form"] for case in cases if kind_of(case) in RIGHT}
        assert right == {case["form"] for case in cases if kind_of(case) not in RIGHT}
        places |= {place for place, case in enumerate(cases) if kind_of(case) in RIGHT}
        for case in cases:
            assert set(case) == {"name", "form", "turn", "seed"}
            assert not any(word in case["name"] for word in ("right", "broken", kind_of(case)))
            turns.setdefault(case["turn"], set()).add(kind_of(case))
    assert len(places) == len(cases)
    assert len(turns) == 20 * len(cases)
    assert not {"RIGHT", "FAULTS", "TOLD"} & set(vars(faulty_caches))
    cache = cache_maker(1, turn_of("any page", 1), 1)(2, 2)
    assert not [value for value in vars(cache).values() if isinstance(value, str)]


@pytest.mark.parametrize("kind", RIGHT)
def test_a_right_cache_of_the_workload_passes_the_judge_of_operations(kind):
    """Two proofs from different hands agree: what the learner's cache has to do is what the right caches do."""
    for cases in (page_cases, gather_cases, reuse_cases):
        for case in cases(5):
            made = with_pages(cache_maker(1, turn_of(kind, 1), 1))
            assert check_operations(case, runner.operate(lambda made=made: (None, made, None), case)) is None


@pytest.mark.parametrize("kind", [fault for group in FAULTS.values() for fault in group])
def test_the_judge_of_operations_refuses_each_mutant_as_well(kind):
    """But for one that shows in k_pages only, which mutants do not have."""
    made = with_pages(cache_maker(1, turn_of(kind, 1), 1))
    cases = [case for cases in (page_cases, gather_cases, reuse_cases) for case in cases(5)]
    assert any(check_operations(case, runner.operate(lambda: (None, made, None), case)) for case in cases)


def with_pages(make):
    """Caches of the workload with k_pages and v_pages, as far as they have written."""

    class Pages:
        def __init__(self, cache, which):
            self.cache, self.which = cache, which

        def __getitem__(self, page):
            return self.cache._page(page)[:, self.which]

    def made(num_pages, page_size):
        cache = make(num_pages, page_size)
        cache.k_pages, cache.v_pages = Pages(cache, 0), Pages(cache, 1)
        return cache

    return made


def scrape(**more):
    counters = {"prefix_cache_queries": 0, "prefix_cache_hits": 0, "prefix_cache_misses": 0, "prefix_cache_evictions": 0}
    gauges = {"kv_blocks": 10, "kv_blocks_free": 10, "kv_blocks_cached": 0, "kv_blocks_held": 0, "kv_sequences": 0,
              "kv_waste_internal_tokens": 0, "kv_waste_reserved_tokens": 0}  # fmt: skip
    return counters | gauges | {key if key.startswith("kv") else f"prefix_cache_{key}": value for key, value in more.items()}


def case_of(before, after, bound=None):
    return {"before": before, "after": after, "block_size": 4, "bound_hits": bound}


def test_findings_by_hand():
    """100 tokens looked up and 40 found; 5 blocks of 4 held with 3 + 4 empty slots; 60 could have been found."""
    before = scrape(queries=50, hits=40, evictions=2)
    after = scrape(queries=150, hits=80, evictions=5, kv_blocks_free=2, kv_blocks_cached=3, kv_blocks_held=5, kv_sequences=2,
                   kv_waste_internal_tokens=3, kv_waste_reserved_tokens=4)  # fmt: skip
    assert expected_findings(case_of(before, after, 60)) == {
        "hit_rate": 0.4, "waste": 7 / 20, "room": 5, "lost_tokens": 20, "alert": True, "leak": None,
    }  # fmt: skip
    unknown = expected_findings(case_of(before, after))
    assert (unknown["lost_tokens"], unknown["alert"]) == (None, None)


def test_two_servers_with_the_same_scrapes_differ_where_the_finding_is_none():
    """Evictions in an earlier hour: one server lost all that could be found, the other had nothing to find."""
    cases = {case["name"]: case for case in cause_cases(1)}
    lost, nothing = cases["a pool that is too small"], cases["texts that nobody sends twice"]
    for case in (lost, nothing):
        assert case["after"]["prefix_cache_evictions"] > case["before"]["prefix_cache_evictions"]
        assert case["after"]["prefix_cache_hits"] == case["before"]["prefix_cache_hits"]
    assert expected_findings(lost)["alert"] is True
    assert expected_findings(nothing)["alert"] is False
    assert expected_findings(lost | {"bound_hits": None})["alert"] is None


@pytest.mark.parametrize("seed", range(5))
def test_runs_show_what_was_planted(seed):
    cases = {case["name"]: case for case in [*cause_cases(seed), *number_cases(seed)]}
    found = {name: expected_findings(case) for name, case in cases.items()}
    assert {finding["alert"] for finding in found.values()} == {True, False, None}
    assert {finding["leak"] for finding in found.values()} == {True, False, None}
    assert found["no sequence, and blocks are held"]["leak"] is True
    assert found["nobody asks any more, after evictions"]["lost_tokens"] == 0
    assert found["a large pool, and nobody knows the bound"]["lost_tokens"] == 0
    assert found["evictions, but none between the scrapes"]["lost_tokens"] is None
    assert found["a pool that is too small"]["lost_tokens"] > 0
    assert cases["no block is free, and many are cached"]["after"]["kv_blocks_cached"] > 0
    assert found["sequences are running, more blocks than they need"]["waste"] > 0
    for case in cases.values():
        hits = case["after"]["prefix_cache_hits"] - case["before"]["prefix_cache_hits"]
        assert case["bound_hits"] is None or hits <= case["bound_hits"]
        after = case["after"]
        assert after["kv_blocks"] == after["kv_blocks_free"] + after["kv_blocks_cached"] + after["kv_blocks_held"]


STRANGE = [None, "yes", [], {}, 17, torch.zeros(2), {"returned": 3}, {"raised": None}]


@pytest.mark.parametrize("output", STRANGE, ids=str)
def test_strange_outputs_are_mistakes_and_break_nothing(output):
    broken = cache_cases("append")(1)[-1]
    assert check_verdict(broken, output) is not None
    case = gather_cases(1)[0]
    assert check_operations(case, output) is not None
    assert check_operations(case, [output] * 4) is not None
    for check, cases in ((check_numbers, number_cases), (check_causes, cause_cases)):
        assert check(cases(1)[0], output) is not None
        names = ("hit_rate", "waste", "room", "lost_tokens", "alert", "leak")
        assert check(cases(1)[0], dict.fromkeys(names, "much")) is not None


def test_a_third_of_the_exercise_earns_its_points():
    right = answers.beside_a_dictionary()

    def still_open(*_):
        raise NotImplementedError("2.11: this is yours to write")

    for kept, points in ((0, 4.0), (1, 2.0), (2, 2.0)):
        parts = [part if index == kept else still_open for index, part in enumerate(right)]
        assert check_live("2.11", lambda parts=parts: tuple(parts), seed=2).score == points


def test_one_piece_wins_where_what_it_reserves_is_written_at_once():
    """Section 11's replay: 3% for blocks, three steps for each request that gives its blocks up."""
    slots = 32 * 1024

    def rates(requests, longest):
        paged = replay(requests, Paged(slots, 16))
        steps = 1.03 * paged.steps + 3 * paged.preemptions
        return [steps / replay(requests, one).steps for one in (MaxLength(slots, longest), OracleFirstFit(slots))]

    assert rates([Request(1023, 1)] * 200, 1024) == pytest.approx([1.03, 1.03])
    assert rates([Request(512, 512)] * 200, 1024) == pytest.approx([0.82, 0.82], abs=0.02)  # equal lengths, all known
    longest, known = rates(SHAREGPT.requests(200), 2048)
    assert longest < 0.5 < known < 0.9
