"""What learners get: nothing of a solution, stubs that say which exercise they are, and a lab that runs to its end untouched."""

import json

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.course.build import release
from course_lib.course.kernel import CourseKernelManager
from course_lib.course.nbgrader_steps.outputs import verdict_in
from course_lib.exercises import PHASES, exercises_of
from tests.notebooks.classroom import PHASE, ROOT, cell, read
from tests.notebooks.small_course import FIRST, RIDGE, SCALED, SECOND, SETUP, planted, released, solved, write_course

LABS = sorted(ROOT.glob("labs/*/*.ipynb"))
EXERCISES = [(path, e) for path in LABS for p in PHASES if p.name == path.stem for e in exercises_of(p.number)]
each_lab = pytest.mark.parametrize("lab", LABS, ids=lambda path: path.stem)


def _solution(lab):
    return read(ROOT / "solutions" / lab.stem / lab.name)


@each_lab
def test_no_line_of_a_solution_is_released(lab):
    """Lines of 20 characters and more of the solution cells that are not in the stub, wherever in the file they might be."""
    stubs = {line.strip() for each in read(lab).cells for line in each.source.splitlines()}
    secret = {
        line.strip()
        for each in _solution(lab).cells
        if each.metadata.get("nbgrader", {}).get("solution")
        for line in each.source.splitlines()
        if len(line.strip()) >= 20
    } - stubs
    text = json.dumps(json.loads(lab.read_text(encoding="utf-8")), ensure_ascii=False)
    assert secret
    assert [line for line in secret if json.dumps(line, ensure_ascii=False)[1:-1] in text] == []
    assert "BEGIN SOLUTION" not in text
    assert "END SOLUTION" not in text


@each_lab
def test_a_release_has_no_output_tag_attachment_or_foreign_metadata(lab):
    notebook = read(lab)
    assert set(notebook.metadata) == {"kernelspec", "language_info", "course"}
    for each in notebook.cells:
        assert set(each.metadata) <= {"nbgrader", "deletable", "editable"}
        assert "attachments" not in each
        assert not each.get("outputs")
        assert each.get("execution_count") is None


@each_lab
def test_apart_from_solutions_a_release_is_the_solved_notebook(lab):
    ours, theirs = _solution(lab).cells, read(lab).cells
    assert [each.id for each in ours] == [each.id for each in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        if not mine.metadata.get("nbgrader", {}).get("solution"):
            assert mine.source == other.source


@pytest.mark.parametrize(("lab", "exercise"), EXERCISES, ids=lambda value: getattr(value, "id", ""))
def test_points_in_a_lab_are_those_of_the_exercise_and_of_the_text_and_never_zero(lab, exercise):
    notebook = read(lab)
    for part in exercise.cells:
        assert cell(notebook, exercise.grade_id(part)).metadata.nbgrader.points == exercise.points(part) > 0
    headings = [line for c in notebook.cells for line in c.source.splitlines() if f"Exercise {exercise.id}:" in line]
    assert len(headings) == 1
    assert f"{exercise.points():g} points" in headings[0]


@each_lab
def test_outputs_are_stored_for_checked_cells_only_and_as_plain_text(lab):
    for each in _solution(lab).cells:
        if each.cell_type == "code":
            checked = "nbval-check-output" in each.metadata.get("tags", [])
            assert bool(each.outputs) == (each.execution_count is not None) == checked
            assert all(output.output_type == "stream" and output.name == "stdout" for output in each.outputs)


@pytest.fixture(scope="module")
def untouched(tmp_path_factory):
    """Every released lab, run as it is."""
    home = tmp_path_factory.mktemp("untouched")
    ran = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COURSE_HOME", str(home))
        for lab in LABS:
            resources = {"metadata": {"path": str(home)}}
            client = NotebookClient(
                read(lab), kernel_manager_class=CourseKernelManager, allow_errors=True, resources=resources
            )
            ran[lab] = client.execute()
    return ran


@each_lab
def test_an_untouched_lab_runs_to_its_end_without_an_error_or_a_word_on_stderr(untouched, lab):
    for each in untouched[lab].cells:
        for output in each.get("outputs", []):
            assert output.output_type != "error", output
            assert output.get("name") != "stderr", output


@pytest.mark.parametrize(("lab", "exercise"), EXERCISES, ids=lambda value: getattr(value, "id", ""))
def test_an_untouched_exercise_is_open_with_0_points_and_quotes_its_stub(untouched, lab, exercise):
    for part in exercise.cells:
        check = cell(untouched[lab], exercise.grade_id(part))
        verdict = verdict_in(check)
        assert (verdict.state, verdict.score, verdict.waiting_points) == ("open", 0.0, 0.0)
        stubs = "\n".join(c.source for c in untouched[lab].cells if "yours to write" in c.source)
        whole = f"{exercise.id}: {exercise.signature} is yours to write"
        if whole in stubs:
            assert verdict.note == whole
        else:  # a class, with a stub in each method
            assert verdict.note.startswith(f"{exercise.id}: ")
            assert f'NotImplementedError("{verdict.note}")' in stubs
        assert check.outputs[-1].data["text/plain"] == "0.0"
        assert verdict.note in check.outputs[-1].data["text/html"]


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with planted(RIDGE, SCALED):
        yield write_course(tmp_path_factory.mktemp("two-exercises"), SETUP + FIRST + SECOND)


def test_a_jit_body_passes_while_its_host_function_raises(two):
    source = cell(read(released(two)), "ex-1-2").source
    assert "    pass  # 1.2: yours to write\n" in source
    assert source.count("raise NotImplementedError") == 1
    assert source.endswith('raise NotImplementedError("1.2: scaled(peak_tflops, hbm_gb_per_s) is yours to write")')
    assert "bandwidths.double()" not in source


def test_what_an_instructor_s_notebook_carries_besides_stays_behind(two):
    notebook = read(solved(two))
    for number, each in enumerate(notebook.cells):
        each.metadata["tags"], each.metadata["notes"] = ["SECRET-1"], "SECRET-2"
        if each.cell_type == "code":
            each.outputs = [nbformat.v4.new_output("stream", name="stdout", text="SECRET-3")]
            each.execution_count = number
    essay = nbformat.v4.new_markdown_cell("An answer", attachments={"a.png": {"text/plain": "SECRET-4"}})
    essay.metadata["nbgrader"] = cell(notebook, "ex-1-2").metadata.nbgrader | {
        "grade_id": "essay", "cell_type": "markdown", "grade": True, "points": 1,
    }  # fmt: skip
    notebook.cells.append(essay)
    written = json.dumps(release(notebook, PHASE))
    assert "essay" in written
    assert [f"SECRET-{n}" for n in range(1, 5) if f"SECRET-{n}" in written] == []
