"""A ledger and a compile report as the value of a cell: tables, from a formatter that `lab` registers."""

import subprocess
import sys

import pytest
import torch
from IPython.core.formatters import DisplayFormatter

from course_lib import interpreter
from course_lib.course.notebook_views import register
from course_lib.interpreter.compiled.report import CompileReport, TargetReport
from tests.interpreter.kernels import copy


@pytest.fixture
def shown():
    formatter = DisplayFormatter()
    register(formatter)
    return lambda value: formatter.format(value)[0]


@pytest.fixture(scope="module")
def book():
    with interpreter.ledger() as counted:
        copy.copy(torch.arange(100.0), block=64)
        copy.copy(torch.arange(50.0), block=64)
    return counted


def test_a_ledger_is_shown_as_tables_of_its_launches(shown, book):
    page = shown(book)
    assert page["text/plain"].count("copy_kernel") >= 2
    for words in ("400 B", "200 B", "src_ptr", "dst_ptr"):
        assert words in page["text/plain"]
        assert words in page["text/html"]
    assert "<table" in page["text/html"]
    assert "compiled" not in page["text/plain"]


def test_one_launch_is_shown_alone(shown, book):
    page = shown(book.launches[1])
    assert page["text/plain"].startswith("copy_kernel, grid (1): 1 program")
    assert "Launch" not in page["text/html"]


def test_an_empty_ledger_says_so(shown):
    with interpreter.ledger() as counted:
        pass
    assert shown(counted)["text/plain"] == "No kernel was launched."


def test_a_compile_report_is_shown_as_its_table(shown):
    report = CompileReport(
        "k", "3.7.1", (TargetReport("sm_80", True, registers=12, spills=0), TargetReport("sm_90", False, "why"))
    )
    page = shown(report)
    for words in ("k compiled, Triton 3.7.1", "A100", "H100", "12", "sm_90 does not compile: why"):
        assert words in page["text/plain"]
        assert words in page["text/html"]
    assert "No kernel was launched" not in page["text/plain"]


def test_without_a_notebook_nothing_is_registered_and_nothing_loaded():
    code = "import sys; from course_lib import lab; assert not {'torch', 'triton', 'IPython'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
