"""The build: the same bytes every time and from any source, and old files stay whole whatever happens."""

import os
import shutil
import subprocess
import sys
import warnings

import nbformat
import pytest

from course_lib.course.build import BuildError, build, executed
from tests.notebooks.classroom import PHASE, ROOT, read

COMMITTED = sorted([*ROOT.glob("solutions/*/*.ipynb"), *ROOT.glob("labs/*/*.ipynb")])


def _copy(tmp_path):
    shutil.copytree(ROOT / "solutions", tmp_path / "solutions", ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    return tmp_path


def test_the_committed_notebooks_are_what_the_sources_build():
    assert build(ROOT, check=True).changed == [], "run: labs build"


def test_building_twice_changes_nothing(tmp_path):
    root = _copy(tmp_path)
    build(root)
    before = {path: path.read_bytes() for path in root.rglob("*.ipynb")}
    report = build(root)
    assert report.changed == []
    assert len(report.unchanged) == len(before) == len(COMMITTED)
    assert {path: path.read_bytes() for path in root.rglob("*.ipynb")} == before


@pytest.mark.parametrize("line_end", ["\r\n", "\r"])
def test_sources_with_other_line_ends_build_the_same_bytes(tmp_path, line_end):
    root = _copy(tmp_path)
    for path in root.glob("solutions/*.py"):
        path.write_bytes(path.read_bytes().replace(b"\n", line_end.encode()))
    build(root)
    for path in COMMITTED:
        assert (root / path.relative_to(ROOT)).read_bytes() == path.read_bytes()


def test_a_check_writes_nothing(tmp_path):
    root = _copy(tmp_path)
    built = root / "solutions" / PHASE / f"{PHASE}.ipynb"
    before = built.read_bytes()
    script = root / "solutions" / f"{PHASE}.py"
    script.write_text(script.read_text(encoding="utf-8").replace("Phase 1: the roofline", "Phase 1: the roofs"), encoding="utf-8")
    report = build(root, check=True)
    labs = [f"labs/{path.stem}/{path.stem}.ipynb" for path in (ROOT / "solutions").glob("*.py")]  # the copy has none
    assert sorted(report.changed) == sorted([*labs, f"solutions/{PHASE}/{PHASE}.ipynb"])
    assert not (root / "labs").exists()
    assert built.read_bytes() == before


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_committed_notebook_is_valid_without_a_warning(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        notebook = nbformat.read(path, as_version=nbformat.NO_CONVERT)
        nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata.kernelspec.name == "python3"
    assert notebook.metadata.kernelspec.language == notebook.metadata.language_info.name == "python"
    ids = [each.id for each in notebook.cells]
    assert len(set(ids)) == len(ids)
    for each in notebook.cells:
        assert each.id == each.metadata.get("nbgrader", {}).get("grade_id", each.id)


@pytest.mark.parametrize("folder", ["solutions", "labs"])
def test_an_assignment_folder_holds_the_notebook_and_nothing_else(folder):
    for phase in (ROOT / folder).iterdir():
        if phase.is_dir():
            names = {path.name for path in phase.iterdir()} - {".ipynb_checkpoints"}
            assert names == {f"{phase.name}.ipynb"}


@pytest.mark.parametrize(("source", "said"), [("import warnings\nwarnings.warn('old')", "UserWarning: old"),
                                              ("get_ipython().showtraceback()", "No traceback")])  # fmt: skip
def test_executing_a_solved_notebook_fails_on_what_is_only_printed(source, said):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    with pytest.raises(BuildError, match=f"the cell that begins with '.*': wrote to stderr: (.|\n)*{said}"):
        executed(notebook, ROOT)


def test_executing_a_solved_notebook_names_what_it_raised():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    with pytest.raises(BuildError, match="ZeroDivisionError: division by zero"):
        executed(notebook, ROOT)


KILLED = """
import os, signal, sys
from pathlib import Path
from course_lib.course import build
replace = os.replace
def killed_at(number):
    calls = []
    def instead(old, new):
        calls.append(new)
        if len(calls) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(old, new)
    return instead
os.replace = killed_at(int(sys.argv[2]))
build.build(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("at", [1, 2])
def test_a_build_that_is_killed_leaves_whole_notebooks_and_clean_folders(tmp_path, at):
    root = _copy(tmp_path)
    shutil.copytree(ROOT / "labs", root / "labs")
    script = root / "solutions" / f"{PHASE}.py"
    script.write_text(script.read_text(encoding="utf-8").replace("Phase 1: the roofline", "Phase 1: the roofs"), encoding="utf-8")
    ended = subprocess.run([sys.executable, "-c", KILLED, str(root), str(at)], cwd=ROOT, capture_output=True)
    assert ended.returncode == -9, ended.stderr.decode()
    new = 0
    for path in COMMITTED:
        now = root / path.relative_to(ROOT)
        nbformat.validate(read(now))
        new += now.read_bytes() != path.read_bytes()
        assert os.listdir(now.parent) == [now.name]
    assert new == at - 1
    assert len(build(root).changed) == 3 - at
