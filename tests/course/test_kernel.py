"""A notebook that we execute finds the decision about Triton already in its kernel, whatever it imports first."""

import nbformat
import pytest
from nbclient import NotebookClient

from course_lib.course import kernel
from course_lib.course.kernel import CourseKernelManager


@pytest.mark.parametrize(("chosen", "told"), [({"TRITON_INTERPRET": "1", "A": "b"}, {"TRITON_INTERPRET": "1"}), ({"A": "b"}, {})])
def test_only_the_decision_is_handed_to_a_kernel(chosen, told, monkeypatch):
    monkeypatch.setattr(kernel, "child_environment", lambda: chosen)
    assert CourseKernelManager().kernel_spec.env == told


def test_a_notebook_that_imports_triton_before_lab_is_executed_all_the_same(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(kernel, "child_environment", lambda: {"TRITON_INTERPRET": "1"})
    cell = nbformat.v4.new_code_cell("import triton.language as tl\nprint(type(tl.sum).__name__)")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    NotebookClient(notebook, kernel_manager_class=CourseKernelManager).execute()
    assert cell.outputs[0].text == "InterpretedFunction\n"
