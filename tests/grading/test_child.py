"""The child process: crashes, hangs and floods end in a verdict, and what was finished before them counts."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from course_lib.exercises import exercise, runners
from course_lib.grading import child, inside
from course_lib.grading.child import Cell, attempts_in_child
from course_lib.grading.judging import conclude, plan

KNOWN = exercise("1.1")
HEAD = "import os, signal, sys, time, torch\n"
RIGHT = "def ridge_points(p, b):\n    return p.double() * 1e3 / b.double()[:, None]\n"


def run(source, seconds=20.0, known=KNOWN, cells=()):
    jobs = plan(known, "check", seed=5)
    cells = [*cells, Cell("ex-1-1", HEAD + source, required=True)]
    attempts = attempts_in_child(known, "check", jobs, cells, runners.files(known.runner), seconds)
    return conclude(known, "check", jobs, attempts)


def reasons(verdict):
    return [outcome.reason for outcome in verdict.outcomes]


def body(*lines):
    return "def ridge_points(p, b):\n" + "".join(f"    {line}\n" for line in lines)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (body("os._exit(0)"), "took its process down: exit code 0"),
        (body("os._exit(7)"), "exit code 7"),
        (body("os.kill(os.getpid(), signal.SIGSEGV)"), "killed by SIGSEGV"),
        (body("sys.exit(1)"), "called sys.exit(1)"),
        (body("return input()"), "raised EOFError"),
        ("os._exit(0)\n", "took its process down"),
        ("def ridge_points(p, b)\n    pass\n", "the cell does not run: SyntaxError"),
        ("1 / 0\n" + RIGHT, "the cell does not run: ZeroDivisionError"),
        ("sys.exit()\n" + RIGHT, "the cell does not run: sys.exit"),
        ("ridge_point = 3\n", "the cell defines no ridge_points"),
        ("from course_lib.roofline import ridge_points\n", "'from course_lib.roofline import ridge_points' was left out"),
        ("ridge_points = 3\n", "got int 3"),
        (body("return missing_name"), "NameError"),
    ],
)
def test_a_bad_end_is_told(source, words):
    verdict = run(source)
    assert verdict.score == 0
    assert words in reasons(verdict)[0]


@pytest.mark.parametrize("hang", ["while True: pass", "time.sleep(1e9)", "os.waitpid(os.fork() or os._exit(time.sleep(1e9)), 0)"])
def test_a_hang_ends_at_the_limit_even_when_it_ignores_signals(hang):
    ignore = "[signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM)]"
    verdict = run(body(ignore, hang), seconds=1)
    assert "ran longer than its limit: 1 s" in reasons(verdict)[0]


def test_what_was_finished_before_a_crash_counts():
    source = "calls = []\n" + body(
        "calls.append(1)", "if len(calls) > 1: os._exit(3)", "return p.double() * 1e3 / b.double()[:, None]"
    )
    verdict = run(source)
    assert [outcome.points for outcome in verdict.outcomes] == [2.0, 0.0, 0.0]
    assert "exit code 3" in reasons(verdict)[1]


def test_a_child_of_the_answer_is_ended_with_it(tmp_path):
    pid_file = tmp_path / "pid"
    spawn = f"pid = os.fork()\nif pid == 0:\n    open({str(pid_file)!r}, 'w').write(str(os.getpid()))\n    time.sleep(1e9)\n"
    verdict = run(spawn + RIGHT)
    assert verdict.score == 4
    pid = int(pid_file.read_text())
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    state = open(f"/proc/{pid}/stat").read().split()[2]  # noqa: SIM115
    assert state == "Z", f"process {pid} of the answer still runs"


def test_a_flood_on_every_stream_changes_nothing():
    flood = ["print('x' * 1000000)", "os.write(2, b'y' * 1000000)", "sys.__stdout__.write('z' * 1000000)"]
    verdict = run(body(*flood, "return p.double() * 1e3 / b.double()[:, None]"))
    assert verdict.score == 4
    assert len(verdict.context["printed"]) < 20_000


def test_a_cell_that_is_not_required_may_fail_and_is_named_when_it_is_missed():
    broken = Cell("000-cell", "SCALE = 1e3\nundefined", required=False)
    assert run(RIGHT, cells=[broken]).score == 4
    later = Cell("000-cell", "from course_lib.hardware import spec", required=False)
    verdict = run(body("return spec('h100-sxm')"), cells=[later])
    assert "'from course_lib.hardware import spec' was left out" in reasons(verdict)[0]


def test_a_forged_result_file_earns_nothing(tmp_path):
    forge = [
        "import glob, tempfile",
        "for path in glob.glob(tempfile.gettempdir() + '/course-judge-*/results'):",
        "    open(path, 'wb').write(b'\\xff' * 1000)",
        "os._exit(0)",
    ]
    assert run(body(*forge)).score == 0


def test_line_numbers_are_those_of_the_cell():
    verdict = run(body("x = 1", "return p / 'text'"))
    assert "(line 4 of the cell, in ridge_points: return p / 'text')" in reasons(verdict)[0]


def test_lab_is_there_as_a_stub_that_does_nothing():
    setup = Cell("setup", "from course_lib import lab\nimport torch\nlab.start(1)\nlab.anything.at_all(3)", required=False)
    check = "lab.check('1.1', None)\n"
    assert run(RIGHT + check, cells=[setup]).score == 4


def seen(*names):
    """An answer that fails and tells what these variables are in its process."""
    return body(f"raise ValueError([os.environ.get(name) for name in {names!r}])")


def test_a_child_is_told_how_its_kernels_run(monkeypatch):
    monkeypatch.setattr(child, "child_environment", lambda: dict(os.environ, TRITON_INTERPRET="0", COURSE_TOLD="yes"))
    assert "['0', 'yes']" in reasons(run(seen("TRITON_INTERPRET", "COURSE_TOLD")))[0]


def test_a_child_whose_parent_saw_a_driver_asks_torch_before_the_answer_runs(monkeypatch):
    undecided = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
    monkeypatch.setattr(child, "child_environment", lambda: undecided | hidden)
    early = "import triton.language as tl\nLIBRARY = type(tl.sum).__name__\n"
    answer = body("raise ValueError(LIBRARY)")
    assert "InterpretedFunction" in reasons(run(early + answer))[0]


@pytest.mark.parametrize(
    ("device", "before", "after"), [(True, None, None), (False, None, "1"), (False, "0", "0"), (True, "1", "1"), (False, "", "1")]
)
def test_a_device_that_torch_sees_is_used_and_a_value_that_is_set_stands(device, before, after, tmp_path):
    (tmp_path / "torch.py").write_text(f"class cuda:\n    is_available = staticmethod(lambda: {device})\n")
    code = "from inside.worker import settle_triton\nsettle_triton()\nimport os\nprint(os.environ.get('TRITON_INTERPRET'))"
    folder = Path(inside.__file__).parents[1]
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["PYTHONPATH"] = os.pathsep.join([str(tmp_path), str(folder)])
    env |= {} if before is None else {"TRITON_INTERPRET": before}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"{after}\n", "")


def test_a_runner_finds_the_workloads_and_nothing_else_of_the_course():
    """They come along in the tree; what an exercise teaches does not."""
    parts = ("workloads.decode_stack", "roofline", "exercises", "timing")
    runner = f"""
import importlib
__course_runner__ = True

def ridge_points(entry, case):
    found = []
    for part in {parts}:
        try:
            importlib.import_module("course_lib." + part)
            found.append("found")
        except ImportError:
            found.append("not here")
    return found
"""
    jobs = plan(KNOWN, "check", seed=5)[:1]
    files = runners.files("phase1_ridge") | {"runner.py": runner.encode()}
    (attempt,) = attempts_in_child(KNOWN, "check", jobs, [Cell("ex-1-1", RIGHT, required=True)], files)
    assert attempt["output"] == ["found", "not here", "not here", "not here"], attempt
