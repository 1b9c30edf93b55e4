"""What stands as tested or measured exists: the part of the check, the test by that name, the row of the result, its sentence."""

import ast
from pathlib import Path

import pytest

from course_lib import claims
from course_lib.claims import PartState
from course_lib.claims.states import Measured, entries
from course_lib.recorded import recorded

ROOT = Path(__file__).parents[2]
ENTRIES = [
    (name, claim_id, entry) for name in ("tested", "measured") for claim_id, found in entries(name).items() for entry in found
]
KEYS = {"tested": {"part", "test"}, "measured": {"part", "result", "case", "sentence", "device"}}


def _functions(path):
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("name", "claim_id", "entry"), ENTRIES, ids=[f"{name}-{claim_id}" for name, claim_id, _ in ENTRIES])
def test_an_entry_speaks_of_a_part_that_exists_and_is_no_arithmetic(name, claim_id, entry):
    labels = [check.label for check in claims.claim(claim_id).checks]
    assert entry["part"] in labels, f"{name}.toml: {claim_id} has the parts {labels}"
    assert entry["part"] != "py", "arithmetic is evaluated, not believed"
    assert KEYS[name] - {"device"} <= entry.keys() <= KEYS[name]


def test_every_named_test_exists_and_names_its_claim():
    for claim_id, found in entries("tested").items():
        for entry in found:
            file, _, name = entry["test"].partition("::")
            assert name in _functions(ROOT / file), f"{claim_id}: {file} has no {name}"
            assert claim_id.lower() in name


def test_every_measured_sentence_can_be_told_from_its_row():
    for claim_id, found in entries("measured").items():
        for entry in found:
            told = Measured(**{key: value for key, value in entry.items() if key != "part"}).told(recorded)
            assert told, claim_id
            assert "{" not in told, claim_id


@pytest.mark.parametrize("phase", [1, 2])
def test_every_cpu_part_of_a_phase_that_is_there_is_tested(phase):
    loose = [
        f"{one.id} {part.check.label}"
        for one in claims.select(phase=phase) for part in claims.evidence(one)
        if part.check.kind in ("cpu", "cpu/gpu", "gpu/cpu", "course") and part.state is not PartState.TESTED
        and part.state is not PartState.MEASURED
    ]  # fmt: skip
    assert loose == []


def test_what_nobody_checked_says_so():
    (part,) = claims.evidence(claims.claim("C050"))
    assert part.state is PartState.NOT_HERE
    assert str(part.state) == "not checked here"


def test_a_part_that_is_in_measured_is_measured(monkeypatch):
    entry = {"part": "gpu", "result": "ridge", "case": "copy of 1 GiB", "sentence": "{ours:.0f} {unit} on {device}"}
    table = {"measured": {"C032": [entry, entry], "C061": [entry | {"part": "cpu/gpu"}]}, "tested": entries("tested")}
    monkeypatch.setattr("course_lib.claims.states.entries", table.__getitem__)
    (part,) = claims.evidence(claims.claim("C032"))
    assert part.state is PartState.MEASURED
    assert len(part.measured) == 2
    assert part.test == ""
    row = {row["case"]: row for row in recorded("ridge")["rows"]}["copy of 1 GiB"]
    assert part.measured[0].told(recorded) == f"{row['ours']:.0f} GB/s on NVIDIA H200"
    (both,) = claims.evidence(claims.claim("C061"))
    assert (both.state, len(both.measured)) == (PartState.MEASURED, 1)
    assert both.test.endswith("_is_initialised")
    py, gpu = claims.evidence(claims.claim("C033"))
    assert (py.state, gpu.state) == (PartState.HOLDS, PartState.NOT_HERE)


def test_a_row_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(LookupError, match="has 0 rows 'copy of 2 GiB'; its cases are bf16 product"):
        Measured("ridge", "copy of 2 GiB", "").told(recorded)
    with pytest.raises(FileNotFoundError, match="no result nvidia-h200/no-such"):
        Measured("no-such", "x", "").told(recorded)
