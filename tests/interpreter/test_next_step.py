"""Mistakes that Triton's frontend, Python or the launch finds: each says what to write instead, at the learner's own lines."""

import math
import re

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from course_lib.interpreter import compile_report, switch
from course_lib.interpreter.mistakes import next_step
from course_lib.interpreter.mistakes.faults import KernelMistake

OTHER = {"x": 1}


@pytest.fixture(autouse=True)
def _checked():
    with switch.interpreting():
        yield


@triton.jit
def no_power_of_two(x_ptr):
    tl.load(x_ptr + tl.arange(0, 12))


@triton.jit
def no_constant(x_ptr, n=16):
    tl.load(x_ptr + tl.arange(0, n))


@triton.jit
def short_k(x_ptr):
    row, col = tl.arange(0, 16), tl.arange(0, 8)
    x = tl.load(x_ptr + row[:, None] * 8 + col[None, :])
    tl.dot(x, tl.trans(x))


@triton.jit
def integer_to_fp8(x_ptr):
    tl.load(x_ptr + tl.arange(0, 16)).to(tl.int32).to(tl.float8e5)


@triton.jit
def two_types(x_ptr):
    row = tl.arange(0, 16)
    x = tl.load(x_ptr + row[:, None] * 16 + row[None, :])
    tl.dot(x, x.to(tl.bfloat16))


@triton.jit
def unequal_k(x_ptr):
    row, col = tl.arange(0, 16), tl.arange(0, 32)
    x = tl.load(x_ptr + row[:, None] * 32 + col[None, :])
    tl.dot(x, x)


@triton.jit
def unlike_blocks(x_ptr):
    tl.load(x_ptr + tl.arange(0, 16)) + tl.load(x_ptr + tl.arange(0, 32))


@triton.jit
def no_pointer(x_ptr):
    tl.load(tl.load(x_ptr))


@triton.jit
def none_loaded(x_ptr):
    tl.load(None)


@triton.jit
def wide_integers(x_ptr):
    row = tl.arange(0, 16)
    x = tl.load(x_ptr + row[:, None] * 16 + row[None, :]).to(tl.int32)
    tl.dot(x, x)


@triton.jit
def set_in_one_branch(x_ptr):
    if tl.load(x_ptr) == 0:
        y = 1.0
    tl.store(x_ptr, y)


@triton.jit
def scaled_pointer(x_ptr):
    tl.load(x_ptr * 2)


@triton.jit
def growing_list(x_ptr):
    parts = []
    parts.append(tl.load(x_ptr))


@triton.jit
def torch_inside(x_ptr):
    torch.relu(tl.load(x_ptr))


@triton.jit
def copied(src_ptr, dst_ptr, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(dst_ptr + index, tl.load(src_ptr + index, mask=index < n), mask=index < n)


PROVOKED = (
    no_power_of_two, no_constant, short_k, integer_to_fp8, two_types, unequal_k, unlike_blocks,
    no_pointer, none_loaded, wide_integers, set_in_one_branch, scaled_pointer, growing_list, torch_inside,
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(PROVOKED)), ids=[kernel.__name__ for kernel in PROVOKED])
def test_what_the_frontend_refuses_has_a_next_step(number):
    kernel, (words, step) = PROVOKED[number], next_step._STEPS[number]
    with pytest.raises(KernelMistake) as caught:
        kernel[(1,)](torch.zeros(16, 32))
    assert words in caught.value.message
    assert caught.value.message.endswith(f"; {step}")


def test_a_cast_that_does_not_exist_names_two_types_and_no_elements():
    with pytest.raises(KernelMistake, match="cannot cast int32 to fp8e5; go by way of float32"):
        integer_to_fp8[(1,)](torch.zeros(16))


def test_each_next_step_is_provoked():
    assert len(PROVOKED) == len(next_step._STEPS)


def test_an_error_that_is_not_known_keeps_its_own_words():
    assert next_step.next_step(NameError("name 'xx' is not defined")) == ""


@triton.jit
def pythons_math(x_ptr):
    math.sqrt(tl.load(x_ptr))


def test_pythons_math_is_for_constants():
    with pytest.raises(KernelMistake, match=r"a tensor of fp32 is no number of Python; .* use tl\.sqrt"):
        pythons_math[(1,)](torch.ones(1))


@pytest.mark.parametrize("more", [(torch.zeros(8),), (torch.zeros(8), 8)])
def test_compile_report_says_how_it_takes_the_arguments(more):
    with pytest.raises(TypeError, match=r"compile_report\(kernel, \(x, y, n\), {'BLOCK': 64}\)"):
        compile_report(copied, *more)


def launch(grid=(1,), src=None, n=8, **more):
    copied[grid](torch.zeros(8) if src is None else src, torch.empty(8), n, **{"BLOCK": 8, **more})


@pytest.mark.parametrize(
    ("mistake", "kind", "words"),
    [
        (lambda: launch(src=np.zeros(8)), TypeError, r"src_ptr of copied is a numpy array; .*torch\.from_numpy\(src_ptr\)"),
        (lambda: launch(src=[0.0]), TypeError, r"src_ptr of copied is a list; .*torch\.tensor"),
        (lambda: launch(src=OTHER), TypeError, "src_ptr of copied is a dict; .*one by one"),
        (lambda: copied[(1,)](torch.zeros(8)), TypeError, "missing 3 .*; its arguments are src_ptr, dst_ptr, n, BLOCK"),
        (lambda: copied[(1,)](*[torch.zeros(8)] * 2, 8, 8, BLOCK=8), TypeError, "multiple values for argument 'BLOCK'; its"),
        (lambda: launch(grid=4), ValueError, r"the grid of copied is 4; a grid is a tuple, as in \(4,\)"),
        (lambda: launch(grid=lambda meta: meta["BLOCK"]), ValueError, r"the grid of copied is 8; a grid is a tuple"),
        (lambda: launch(grid=1000 / 64), ValueError, r"the grid of copied is 15\.625; .*\(triton\.cdiv\(n, BLOCK\),\)"),
        (lambda: launch(grid=(8 / 8,)), ValueError, r"the grid of copied holds 1\.0; .*triton\.cdiv\(n, BLOCK\)"),
        (lambda: copied(*[torch.zeros(8)] * 2, 8, BLOCK=8), RuntimeError, r"needs a grid .*copied\[\(programs,\)\]\("),
    ],
)  # fmt: skip
def test_a_launch_that_a_gpu_would_not_take_is_refused_with_the_way_out(mistake, kind, words):
    with pytest.raises(kind, match=words):
        mistake()


@pytest.mark.parametrize("grid", [(1,), [1], (np.int64(1),), (torch.tensor(1),), lambda meta: (math.ceil(8 / meta["BLOCK"]),)])
def test_a_grid_written_in_another_way_runs(grid):
    launch(grid)


FIRST = "from course_lib import lab\nimport sys, torch, traceback, triton, triton.language as tl"
CELLS = """
@triton.jit
def unmasked(src_ptr, n, BLOCK: tl.constexpr):
    tl.load(src_ptr + tl.arange(0, BLOCK))
---
def host(x):
    unmasked[(1,)](x, 5, BLOCK=8)
---
host(torch.zeros(5))
---
unmasked[(1,)](torch.zeros(5), BLOCK=8)
"""


def shown_by(shell, cell, capsys):
    shell.run_cell(cell)
    return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)


def test_a_notebook_shows_the_learners_lines_and_none_of_the_machinery(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        kernel, host, mistake, arguments = CELLS.split("---\n")
        for cell in (FIRST, kernel, host):
            assert shown_by(shell, cell, capsys) == ""
        said = shown_by(shell, mistake, capsys)
        for own in ("host(torch.zeros(5))", "unmasked[(1,)](x, 5, BLOCK=8)\n", "BLOCK))\n", "cannot load from src_ptr[5]"):
            assert own in said
        for machinery in ("site-packages", "course_lib", "__course_enclose", "direct cause"):
            assert machinery not in said
        assert len(said.splitlines()) < 25  # 130 with the machinery
        assert "unmasked() missing 1" in (said := shown_by(shell, arguments, capsys))
        assert len(said.splitlines()) < 10
        whole = shown_by(shell, "traceback.print_exception(sys.last_value, file=sys.stdout)", capsys)
        assert "launch.py" in whole
    finally:
        InteractiveShell.clear_instance()


def test_outside_a_notebook_the_whole_traceback_is_there():
    with pytest.raises(TypeError) as caught:
        copied[(1,)](torch.zeros(8))
    assert "launch.py" in str(caught.traceback[-1].path)
    assert caught.value._render_traceback_() == [f"WrongArguments: {caught.value}"]


def test_a_kernel_without_a_text_says_where_it_has_to_stand():
    names = {"triton": triton, "tl": tl}
    exec("@triton.jit\ndef nowhere(x_ptr):\n    tl.store(x_ptr, 1.0)", names)
    with pytest.raises(OSError, match=r"source of nowhere is not there: .*python -c.*; define it in a file or in a notebook"):
        names["nowhere"][(1,)](torch.zeros(1))
