"""Our steps in nbgrader's pipeline, one by one: what is put back, cut, trusted, scored and said."""

import json
import os
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.course.kernel import CourseKernelManager
from course_lib.course.nbgrader_steps.cap import KEPT_RICH_CHARACTERS, KEPT_TEXT_CHARACTERS, cap
from course_lib.course.nbgrader_steps.execute import environment
from course_lib.course.nbgrader_steps.feedback import waiting_text
from course_lib.course.nbgrader_steps.outputs import put_verdict, verdict_for, verdict_in
from course_lib.course.nbgrader_steps.restore import reading_order
from course_lib.exercises import exercise
from course_lib.grading.outcome import Outcome, State
from course_lib.grading.verdict import MIME, Verdict

RUN = "a" * 32


def _verdict(part="check", state=State.PASSED, run=RUN, exercise_id="1.1") -> Verdict:
    outcomes = tuple(
        Outcome(c.name, c.kind, c.claim, state, c.points * (state is State.PASSED), c.points, "a reason")
        for c in exercise("1.1").in_cell(part)
    )
    return Verdict(exercise_id, part, outcomes, context={"run": run})


def _cell(grade_id="ex-1-1-check", *verdicts):
    cell = nbformat.v4.new_code_cell("", metadata={"nbgrader": {"grade_id": grade_id}})
    for verdict in verdicts:
        put_verdict(cell, verdict)
    return cell


def _fail_inside(values):
    with environment(values):
        assert os.environ | values == os.environ
        raise ZeroDivisionError


def test_the_environment_is_as_before_after_an_exception(monkeypatch):
    monkeypatch.setenv("COURSE_TEST_SET", "before")
    monkeypatch.delenv("COURSE_TEST_UNSET", raising=False)
    before = dict(os.environ)
    with pytest.raises(ZeroDivisionError):
        _fail_inside({"COURSE_TEST_SET": "inside", "COURSE_TEST_UNSET": "inside"})
    assert dict(os.environ) == before


def test_a_variable_that_the_block_removed_comes_back(monkeypatch):
    monkeypatch.setenv("COURSE_TEST_SET", "before")
    with environment({"COURSE_TEST_SET": "inside"}):
        del os.environ["COURSE_TEST_SET"]
    assert os.environ["COURSE_TEST_SET"] == "before"


def test_a_verdict_counts_only_for_its_run_its_exercise_and_its_part():
    assert verdict_for(_cell("ex-1-1-check", _verdict()), RUN) == _verdict()
    assert verdict_for(_cell("ex-1-1-check", _verdict(run="b" * 32)), RUN) is None
    assert verdict_for(_cell("ex-1-1-timed", _verdict()), RUN) is None
    assert verdict_for(_cell("ex-1-1-check", _verdict(exercise_id="1.2")), RUN) is None
    assert verdict_for(_cell("ex-1-1", _verdict()), RUN) is None
    assert verdict_for(_cell("ex-1-1-check"), RUN) is None


def test_a_verdict_over_other_points_than_the_cell_s_does_not_count():
    short = Verdict("1.1", "check", _verdict().outcomes[:1], context={"run": RUN})
    assert verdict_for(_cell("ex-1-1-check", short), RUN) is None


def test_the_last_verdict_of_a_cell_counts():
    assert verdict_in(_cell("ex-1-1-check", _verdict(state=State.FAILED), _verdict()), RUN).score == 4.0


@pytest.mark.parametrize("damage", [{"schema": 99}, {"outcomes": 3}, {"cell": "essay"}, {"context": None}, {"schema": "x"}])
def test_a_damaged_verdict_is_none(damage):
    cell = _cell("ex-1-1-check", _verdict())
    cell.outputs[0].data[MIME] |= damage
    assert verdict_in(cell) is None


@pytest.mark.parametrize("points", [4.5, -1, float("nan"), float("inf"), "full"])
def test_a_verdict_with_points_beyond_its_own_is_none(points):
    cell = _cell("ex-1-1-check", _verdict())
    cell.outputs[0].data[MIME]["outcomes"][0]["points"] = points
    assert verdict_in(cell) is None


def test_the_printed_value_of_a_verdict_is_a_plain_number():
    cell = _cell("ex-1-1-check", _verdict())
    assert cell.outputs[0].data["text/plain"] == "4.0"
    nbformat.validate(nbformat.v4.new_notebook(cells=[cell]))


def _outputs(*outputs):
    cell = _cell("ex-1-1-check")
    cell.outputs = list(outputs)
    cap(cell, untouched=MIME)
    return cell


def test_text_is_cut_in_the_middle_whichever_way_it_came_out():
    flood = "first " + "x" * 5_000_000 + " last"
    for output in (
        nbformat.v4.new_output("stream", name="stdout", text=flood),
        nbformat.v4.new_output("stream", name="stderr", text=flood),
        nbformat.v4.new_output("execute_result", data={"text/plain": flood}),
        nbformat.v4.new_output("error", ename="E", evalue=flood, traceback=["first", flood]),
    ):
        text = json.dumps(_outputs(output))
        assert len(text) < 3 * KEPT_TEXT_CHARACTERS
        assert "first" in text
        assert "last" in text
        assert "characters left out" in text


def test_many_small_outputs_are_bounded_together():
    outputs = [nbformat.v4.new_output("stream", name="stdout", text="x" * 1000) for _ in range(10_000)]
    assert len(json.dumps(_outputs(*outputs))) < 3 * KEPT_TEXT_CHARACTERS


def test_a_figure_stays_whole_or_goes_whole():
    def figure(size):
        return nbformat.v4.new_output("display_data", data={"image/png": "A" * size, "text/plain": "<Figure>"})

    small, large = figure(500_000), figure(KEPT_RICH_CHARACTERS)
    assert _outputs(figure(500_000)).outputs == [small]
    (left,) = _outputs(large).outputs
    assert list(left.data) == ["text/plain"]
    assert "left out" in left.data["text/plain"]


def test_a_verdict_survives_a_flood_before_it():
    cell = _cell("ex-1-1-check", _verdict())
    flood = [nbformat.v4.new_output("stream", name="stdout", text="x" * 100_000) for _ in range(500)]
    cell.outputs = flood + cell.outputs
    cap(cell, untouched=MIME)
    assert verdict_for(cell, RUN) == _verdict()


def test_grade_ids_sort_as_they_stand_in_a_lab():
    names = ["setup", "ex-1-1", "ex-1-1-b", "ex-1-1-check", "ex-1-1-timed", "ex-1-2", "ex-1-2-check", "ex-1-10"]
    assert sorted(set(names), key=reading_order) == names


def test_waiting_points_are_summed_and_each_has_its_reason():
    blocked = [_verdict(part, State.BLOCKED) for part in ("check", "timed")]
    notebook = nbformat.v4.new_notebook(cells=[_cell("ex-1-1-check", blocked[0]), _cell("ex-1-1-timed", blocked[1])])
    text = waiting_text(notebook)
    assert text.startswith("**5 points wait for a GPU.**")
    assert "- exercise 1.1: 4 (a reason; a reason; a reason)\n- exercise 1.1: 1 (a reason)" in text
    assert waiting_text(nbformat.v4.new_notebook(cells=[_cell("ex-1-1-check", _verdict())])) == ""


def test_a_kernel_is_this_python_on_private_sockets_whatever_its_name(capfd):
    source = "import os, sys; print(sys.executable); print(sorted(os.listdir(os.environ['COURSE_TEST_SOCKETS'])))"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    notebook.metadata["kernelspec"] = {"name": "no-such-kernel", "display_name": "x", "language": "python"}
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        client = NotebookClient(notebook, kernel_manager_class=CourseKernelManager)
        client.create_kernel_manager()
        (sockets,) = Path(folder).iterdir()
        assert sockets.stat().st_mode & 0o077 == 0
        patch.setenv("COURSE_TEST_SOCKETS", str(sockets))
        client.execute()
        python, files = notebook.cells[0].outputs[0].text.splitlines()
        assert python == sys.executable
        assert files == "['connection.json', 'k-1', 'k-2', 'k-3', 'k-4', 'k-5']"
        assert os.listdir(folder) == []
    assert "without encryption" not in capfd.readouterr().err
