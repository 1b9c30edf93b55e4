"""A check is taken apart as it was written."""

import pytest

from course_lib.claims import all_claims, claim, parse_checks
from course_lib.claims.checks import BY_HAND, Check

WRITTEN = [
    ("py: 1000/40 => 25 ; compare with the floor", [Check("py", "1000/40 => 25"), Check(BY_HAND, "compare with the floor")]),
    ("gpu(2): p99 ITL", [Check("gpu", "p99 ITL", "2")]),
    ("gpu(2-8): a ; gpu(2,4): b", [Check("gpu", "a", "2-8"), Check("gpu", "b", "2,4")]),
    ("cpu/gpu: a ; gpu/cpu: b ; cpu+gpu: c", [Check("cpu/gpu", "a"), Check("gpu/cpu", "b"), Check("cpu+gpu", "c")]),
    ("cli: curl -s localhost:9400/metrics | grep NVLINK", [Check("cli", "curl -s localhost:9400/metrics | grep NVLINK")]),
    ("gpu: stage timestamps; sum within 5% of TTFT", [Check("gpu", "stage timestamps; sum within 5% of TTFT")]),
    ("https://example.org: not a prefix", [Check(BY_HAND, "https://example.org: not a prefix")]),
]


@pytest.mark.parametrize(("text", "parts"), WRITTEN)
def test_the_parts_of(text, parts):
    assert list(parse_checks(text)) == parts
    assert " ; ".join(map(str, parts)) == text


def test_every_claim_is_written_as_it_is_read():
    for one in all_claims():
        assert " ; ".join(map(str, one.checks)) == one.how_to_check
    assert [(one.id, part.text) for one in all_claims() for part in one.checks if part.kind == BY_HAND] == [
        ("C001", "compare with the decode floor of each model/GPU pair")
    ]


def test_arithmetic_has_two_sides():
    check = claim("C037").checks[0]
    assert (check.expression, check.printed) == ("8*32*4096*4", "4194304")
    with pytest.raises(ValueError, match="only py: parts have an expression"):
        _ = Check("gpu", "time it => 3").expression


@pytest.mark.parametrize("text", ["1/2", "1/2 => 3 => 4"])
def test_arithmetic_without_exactly_one_arrow_is_refused(text):
    with pytest.raises(ValueError, match="reads 'expression => number'"):
        _ = Check("py", text).printed


def test_an_empty_part_is_refused():
    with pytest.raises(ValueError, match="a part of a check is empty"):
        parse_checks("py: 1 => 1 ;  ; gpu: x")
