"""docs/coverage.toml is honest: every id is there once, and a proof that is named exists, runs in CI and can fail.

The checks are functions over a folder, so that each is shown here to refuse a planted dishonest entry.
"""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PLACES = {"P1", "P2", "P3", "P4", "deploy", "frame"}
# (section, prefix of its ids, how many): counted in the inventory of the roadmap, whose numbers have no gaps
SECTIONS = (
    ("front", "F", 20), ("windows", "W", 25), ("roofline", "1.", 23), ("attention", "2.", 34),
    ("quantisation", "3.", 21), ("parallel", "4.", 30), ("speculation", "5.", 30), ("operations", "6.", 27),
)  # fmt: skip
WANTED = {f"{prefix}{number:02}": section for section, prefix, count in SECTIONS for number in range(1, count + 1)}
MOST_IDS_PER_PROOF = 3  # a test that "covers" more proves none of them
NEVER_IN_CI = {"skip", "skipif", "xfail", "gpu", "soak"}  # marks of tests that CI does not run, or that may fail


def entries(text):
    """[(section, id, fields)] of a coverage file."""
    return [(section, id_, fields) for section, rows in tomllib.loads(text).items() for id_, fields in rows.items()]


def shape_problems(rows):
    """Ids missing, unknown, twice or in the wrong section; fields that are wrong; proofs that stand for too many."""
    found = Counter(id_ for _, id_, _ in rows)
    problems = [f"{id_} is missing" for id_ in WANTED if id_ not in found]
    problems += [f"{id_} stands there {times} times" for id_, times in found.items() if times > 1]
    for section, id_, fields in rows:
        if WANTED.get(id_) != section:
            problems.append(f"{id_} does not belong in [{section}]" if id_ in WANTED else f"{id_} is not known")
        if set(fields) != {"place", "name", "proof"} or not all(isinstance(v, str) and v for v in fields.values()):
            problems.append(f"{id_} needs place, name and proof, each a text, and nothing else")
        elif fields["place"] not in PLACES:
            problems.append(f"{id_}: place {fields['place']!r} is none of {', '.join(sorted(PLACES))}")
    proofs = Counter(fields.get("proof") for _, _, fields in rows if fields.get("proof") != "open")
    problems += [f"{proof} stands for {n} ids" for proof, n in proofs.items() if n > MOST_IDS_PER_PROOF]
    return problems


def proof_problem(proof, root, collected):
    """Why this proof proves nothing, or "". collected: node ids that pytest collects, without parameters."""
    if re.fullmatch(r"tests/(?:\w+/)*test_\w+\.py::test_\w+", proof):
        return test_problem(*proof.split("::"), root, collected)
    if re.fullmatch(r"solutions/\w+/\w+\.ipynb#[\w-]+", proof):
        return cell_problem(*proof.split("#"), root)
    return "it is neither tests/test_FILE.py::test_name nor solutions/PHASE/PHASE.ipynb#grade-id"


def test_problem(path, name, root, collected):
    file = root / path
    if not file.is_file():
        return f"there is no {path}"
    module = ast.parse(file.read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not functions:
        return f"{path} has no {name}"
    function = functions[-1]
    marks = [node for node in module.body if isinstance(node, ast.Assign) and names_in(node.targets) & {"pytestmark"}]
    if never := names_in([*function.decorator_list, *marks]) & NEVER_IN_CI:
        return f"it is marked {', '.join(sorted(never))}: CI does not count it"
    if names_in(call.func for call in calls_in(function)) & {"skip", "xfail", "importorskip"}:
        return "it may skip itself"
    if not asserts_something(function):
        return "it asserts nothing that can be false"
    if f"{path}::{name}" not in collected:
        return "pytest does not collect it"
    return ""


test_problem.__test__ = False  # a check, not a test


def cell_problem(path, grade_id, root):
    notebook = root / path
    if not notebook.is_file():
        return f"there is no {path}"
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        graded = cell["metadata"].get("nbgrader", {})
        if graded.get("grade_id") != grade_id:
            continue
        if not graded.get("grade") or not graded.get("points", 0) > 0:
            return f"{grade_id} is no grade cell with points"
        if not re.search(r"\blab\.check(_timed)?\(", "".join(cell["source"])):
            return f"{grade_id} checks nothing"
        return ""
    return f"{path} has no cell {grade_id}"


def names_in(nodes):
    """Every plain name and attribute in these pieces of syntax."""
    walked = [part for node in nodes for part in ast.walk(node)]
    return {getattr(part, "attr", getattr(part, "id", None)) for part in walked} - {None}


def calls_in(node):
    return [part for part in ast.walk(node) if isinstance(part, ast.Call)]


def asserts_something(function):
    """An assert whose test is computed, a pytest.raises, or a call to something named assert... or check..."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert) and any(isinstance(p, ast.Name | ast.Call) for p in ast.walk(node.test)):
            return True
    called = names_in(call.func for call in calls_in(function))
    return bool(called & {"raises", "warns"}) or any(name.startswith(("assert_", "check")) for name in called)


def collect(paths, root):
    """The node ids, without parameters, that pytest collects from these files as CI would."""
    if not paths:
        return set()
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *sorted(paths)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=120)
    return {line.partition("[")[0].strip() for line in done.stdout.splitlines() if "::" in line}


def file_problems(text, root):
    rows = entries(text)
    proofs = {fields["proof"] for _, _, fields in rows if fields.get("proof", "open") != "open"}
    collected = collect({p.partition("::")[0] for p in proofs if "::" in p and (root / p.partition("::")[0]).is_file()}, root)
    wrong = {proof: proof_problem(proof, root, collected) for proof in proofs}
    return shape_problems(rows) + [f"{proof}: {why}" for proof, why in sorted(wrong.items()) if why]


def test_the_coverage_file_is_honest():
    assert file_problems((ROOT / "docs" / "coverage.toml").read_text(encoding="utf-8"), ROOT) == []


# --- the checks themselves, with entries that lie --------------------------------------------------------------------


def test_210_ids_are_wanted():
    assert len(WANTED) == 210
    assert {"F01", "F20", "W25", "1.01", "1.23", "2.34", "3.21", "4.30", "5.30", "6.27"} <= set(WANTED)


def rows_with(**changes):
    """A complete set of rows, all open, with some ids' fields changed; None takes a row away."""
    plain = {"place": "P1", "name": "n", "proof": "open"}
    changed = {id_.replace("_", "."): fields for id_, fields in changes.items()}
    rows = [(section, id_, plain | (changed.get(id_) or {})) for id_, section in WANTED.items()]
    return [row for row in rows if changed.get(row[1], ()) is not None]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (rows_with(W03=None), "W03 is missing"),
        ([*rows_with(), ("front", "F21", {"place": "P1", "name": "n", "proof": "open"})], "F21 is not known"),
        ([*rows_with(), ("front", "W01", {"place": "P1", "name": "n", "proof": "open"})], "W01 stands there 2 times"),
        (rows_with(F01={"place": "P9"}), "place 'P9'"),
        (rows_with(F01={"proof": ""}), "F01 needs"),
        (rows_with(F01={"note": "later"}), "F01 needs"),
        (rows_with(**{id_: {"proof": "tests/x.py::test_x"} for id_ in ("F01", "F02", "F03", "F04")}), "stands for 4"),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused(rows, problem):
    assert any(problem in found for found in shape_problems(rows)), shape_problems(rows)


def test_a_file_of_the_right_shape_is_accepted():
    assert shape_problems(rows_with(F01={"proof": "tests/x.py::test_x"})) == []


PLANTED = """
import pytest
from pytest import mark

def helper(): assert 1 == 2
def test_good(): assert helper() is None
def test_raises():
    with pytest.raises(ValueError): helper()
def test_calls_a_check(pool): pool.check()
@pytest.mark.parametrize("n", [1, 2])
def test_with_cases(n): assert n
@pytest.mark.skip
def test_skipped(): assert helper()
@mark.skipif(True, reason="no")
def test_skipped_maybe(): assert helper()
@pytest.mark.xfail(strict=False)
def test_expected_to_fail(): assert helper()
@pytest.mark.gpu
def test_on_gpu_only(): assert helper()
def test_skips_itself():
    pytest.skip("no"); assert helper()
def test_says_nothing(): helper()
def test_cannot_be_false(): assert True
def test_is_redefined(): assert helper()
def test_is_redefined(): pass
class TestGroup:
    def test_inside(self): assert helper()
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A repository whose tests and notebook are partly dishonest, and what pytest collects from it."""
    root = tmp_path_factory.mktemp("planted")
    (root / "tests").mkdir()
    (root / "tests" / "test_it.py").write_text(PLANTED)
    (root / "pytest.ini").write_text("[pytest]\nmarkers = gpu\n")
    cells = [
        ("good", {"grade": True, "points": 2.0}, 'lab.check("1.1", f)'),
        ("timed", {"grade": True, "points": 1.0}, 'lab.check_timed("1.1", f)'),
        ("no-points", {"grade": True, "points": 0}, 'lab.check("1.1", f)'),
        ("solution", {"grade": False}, "def f(): ..."),
        ("empty", {"grade": True, "points": 1}, "4.0"),
    ]
    made = [{"metadata": {"nbgrader": {"grade_id": id_} | grade}, "source": [text]} for id_, grade, text in cells]
    (root / "solutions" / "p").mkdir(parents=True)
    (root / "solutions" / "p" / "p.ipynb").write_text(json.dumps({"cells": [{"metadata": {}, "source": ""}, *made]}))
    return root, collect({"tests/test_it.py"}, root)


@pytest.mark.parametrize(
    "proof",
    [
        "tests/test_it.py::test_good", "tests/test_it.py::test_raises", "tests/test_it.py::test_calls_a_check",
        "tests/test_it.py::test_with_cases", "solutions/p/p.ipynb#good", "solutions/p/p.ipynb#timed",
    ],
)  # fmt: skip
def test_an_honest_proof_is_accepted(planted, proof):
    assert proof_problem(proof, *planted) == ""


@pytest.mark.parametrize(
    ("proof", "why"),
    [
        ("tests/test_it.py::helper", "neither"),
        ("tests/test_it.py", "neither"),
        ("tests/../course_lib/x.py::test_x", "neither"),
        ("course_lib/__init__.py", "neither"),
        ("tests/test_it.py::test_with_cases[1]", "neither"),
        ("tests/test_it.py::TestGroup::test_inside", "neither"),
        ("tests/helpers.py::test_good", "neither"),
        ("tests/test_gone.py::test_good", "there is no tests/test_gone.py"),
        ("tests/test_it.py::test_gone", "has no test_gone"),
        ("tests/test_it.py::test_inside", "has no test_inside"),
        ("tests/test_it.py::test_skipped", "marked skip"),
        ("tests/test_it.py::test_skipped_maybe", "marked skipif"),
        ("tests/test_it.py::test_expected_to_fail", "marked xfail"),
        ("tests/test_it.py::test_on_gpu_only", "marked gpu"),
        ("tests/test_it.py::test_skips_itself", "skip itself"),
        ("tests/test_it.py::test_says_nothing", "asserts nothing"),
        ("tests/test_it.py::test_cannot_be_false", "asserts nothing"),
        ("tests/test_it.py::test_is_redefined", "asserts nothing"),
        ("solutions/p/p.ipynb#no-points", "no grade cell with points"),
        ("solutions/p/p.ipynb#solution", "no grade cell with points"),
        ("solutions/p/p.ipynb#empty", "checks nothing"),
        ("solutions/p/p.ipynb#gone", "has no cell gone"),
        ("solutions/q/q.ipynb#good", "there is no"),
    ],
)
def test_a_dishonest_proof_is_refused(planted, proof, why):
    assert why in proof_problem(proof, *planted)


def test_a_proof_that_pytest_does_not_collect_is_refused(planted):
    root, collected = planted
    assert "tests/test_it.py::test_good" in collected
    assert "does not collect" in proof_problem("tests/test_it.py::test_good", root, collected=set())


def test_a_whole_file_with_a_lie_is_refused(planted):
    root, _ = planted
    text = (ROOT / "docs" / "coverage.toml").read_text(encoding="utf-8")
    open_file = re.sub(r'proof = "[^"]*"', 'proof = "open"', text)
    assert file_problems(open_file, root) == []
    lie = open_file.replace('proof = "open"', 'proof = "tests/test_it.py::test_cannot_be_false"', 1)
    assert file_problems(lie, root) == ["tests/test_it.py::test_cannot_be_false: it asserts nothing that can be false"]
