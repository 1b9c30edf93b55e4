"""The claims as data: all are there, each is whole, and what is asked for and is not there is answered with what is."""

from collections import Counter

import pytest

from course_lib import claims
from course_lib.claims import Verdict


def test_there_are_267_claims_with_consecutive_ids():
    assert [one.id for one in claims.all_claims()] == [f"C{number:03}" for number in range(1, 268)]


def test_phases_and_verdicts_are_counted_as_published():
    assert Counter(one.phase for one in claims.all_claims()) == {1: 53, 2: 56, 3: 39, 4: 119}
    counted = {"wrong": 178, "misleading": 40, "to-measure": 23, "correct": 22, "unverifiable": 4}
    assert Counter(one.verdict for one in claims.all_claims()) == counted


@pytest.mark.parametrize("column", ["section", "claim_paraphrased", "corrected_value", "why", "how_to_check", "source"])
def test_no_claim_lacks(column):
    assert [one.id for one in claims.all_claims() if not getattr(one, column).strip()] == []


def test_kinds_are_known():
    kinds = {"arithmetic", "behaviour", "design-rule", "hardware-spec", "measured"}
    assert {one.kind for one in claims.all_claims()} == kinds


def test_a_claim_is_found_by_its_id_in_either_case():
    assert claims.claim("c039") is claims.claim("C039")
    assert claims.claim("C039").roadmap_says == "0.17 FLOP/byte"
    assert claims.claim("C039").place == "phase 1, section 1.1"
    assert claims.claim("C001").place == "phase 1, intro"


def test_an_unknown_id_phase_or_verdict_is_answered_with_those_that_there_are():
    with pytest.raises(KeyError, match=r"no claim 'C268'; ids run from C001 to C267"):
        claims.claim("C268")
    with pytest.raises(ValueError, match=r"no phase 5; use one of \[1, 2, 3, 4\]"):
        claims.select(phase=5)
    with pytest.raises(ValueError, match=r"no verdict 'false'; use one of correct, misleading, wrong, to-measure, unverifiable"):
        claims.select(verdict="false")


def test_filters_are_joined():
    assert [one.id for one in claims.select(phase=1, verdict="correct")] == ["C028", "C030", "C031", "C069"]
    assert [one.id for one in claims.select(ids=["C073", "C001"])] == ["C073", "C001"]
    assert claims.select(ids=["C073", "C001"], verdict=Verdict.WRONG) == ()


def test_a_summary_counts_every_verdict_and_every_part():
    summary = claims.summary(phase=1)
    assert {str(verdict): number for verdict, number in summary.verdicts.items()} == {
        "correct": 4, "misleading": 10, "wrong": 36, "to-measure": 2, "unverifiable": 1,
    }  # fmt: skip
    assert sum(summary.states.values()) == sum(len(one.checks) for one in claims.select(phase=1))
    assert "Phase 1 of the roadmap: 53 claims" in repr(summary)
    assert "66 of arithmetic, which holds to the printed digits" in repr(summary)
    assert ">36</td>" in summary._repr_html_()
