"""`labs`: quick to start, helpful about what it does not know, and its answers are data when they are asked for as data."""

import json
import os
import subprocess
import sys

import pytest

from course_lib import cli
from course_lib.cli_help import KnownCommand
from tests.notebooks.classroom import PHASE, ROOT

RELEASED = str(ROOT / "labs" / PHASE / f"{PHASE}.ipynb")
HEAVY = {"torch", "triton", "matplotlib", "nbgrader", "nbformat", "nbconvert", "numpy", "sqlalchemy", "IPython"}


def _labs(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of `labs ARGUMENTS`, in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["labs", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    out, err = capsys.readouterr()
    return ended.value.code or 0, out, err


def _imported(code: str) -> set[str]:
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}\nprint('\\n'.join(sys.modules))"], cwd=ROOT, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return {name.split(".")[0] for name in ended.stdout.split()}


def test_importing_the_library_imports_nothing_heavy_and_no_terminal_library():
    found = _imported("import course_lib")
    assert "course_lib" in found
    assert found & (HEAVY | {"rich", "typer"}) == set()


@pytest.mark.parametrize("arguments", [["--help"], ["grade", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = f"sys.argv = ['labs', *{arguments}]\nfrom course_lib.cli import main\ntry: main()\nexcept SystemExit: pass"
    assert _imported(code) & HEAVY == set()


def test_importing_lab_imports_no_nbgrader():
    assert _imported("from course_lib import lab") & {"nbgrader", "matplotlib", "rich", "sqlalchemy"} == set()


COMMANDS = ["doctor", "start", "update", "export", "import", "check", "build", "run", "grade", "progress", "bench", "claims"]


def test_help_names_every_command(capsys):
    code, out, _ = _labs(capsys, "--help")
    assert code == 0
    assert [name for name in COMMANDS if f" {name} " not in out] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_lists_its_options_when_one_is_unknown(capsys, name):
    assert _labs(capsys, name, "--help")[0] == 0
    code, _, err = _labs(capsys, name, "--no-such-option")
    assert code == 2
    assert "There is no option '--no-such-option'" in " ".join(err.replace("│", " ").split())
    assert "--help" in err


def test_every_command_is_of_the_kind_that_lists_what_it_knows():
    assert {command.name for command in cli.app.registered_commands} == set(COMMANDS)
    assert all(issubclass(command.cls, KnownCommand) for command in cli.app.registered_commands)


UNKNOWN = {
    ("grad",): (2, ["There is no command 'grad'", "did you mean 'grade'?", *COMMANDS]),
    ("grade", "--studnt", "a"): (2, ["did you mean '--student'?", "--export", "--feedback", "--json", "--where"]),
    ("grade", "7"): (2, ["'7'", "'1', '2', '3', '4'"]),
    ("run", "phase9"): (2, ["'phase9'", "'1', '2', '3', '4'"]),
    ("bench", "no-such"): (1, ["no benchmark 'no-such'; there are:"]),
    ("check", RELEASED, "9.9"): (1, ["there is no exercise '9.9'; the course has 1.1"]),
    ("check", "no-such.ipynb"): (1, ["there is no file no-such.ipynb"]),
    ("build", "now"): (2, ["unexpected extra argument", "now"]),
    ("check",): (2, ["Missing argument"]),
    ("import", "no-such.zip"): (1, ["no-such.zip"]),
}


@pytest.mark.parametrize("arguments", UNKNOWN, ids=lambda arguments: " ".join(arguments)[:30])
def test_what_is_unknown_is_answered_with_what_is_known(capsys, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    wanted, words = UNKNOWN[arguments]
    code, out, err = _labs(capsys, *arguments)
    said = " ".join(err.replace("│", " ").split())
    assert code == wanted
    assert [word for word in words if word not in said] == [], said
    assert out == ""
    assert "Traceback" not in err


def test_a_command_that_needs_a_clone_says_so_elsewhere(capsys, tmp_path, monkeypatch):
    from course_lib.course import repository

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(repository, "__file__", str(tmp_path / "site-packages" / "repository.py"))
    for command in ("build", "run", "grade", "bench"):
        code, _, err = _labs(capsys, command)
        assert code == 1
        assert "is in no clone of the course; this command needs its solutions/ folder" in err


def test_progress_as_data_holds_the_four_phases(capsys):
    code, out, err = _labs(capsys, "progress", "--json")
    assert (code, err) == (0, "")
    assert len(json.loads(out)["phases"]) == 4


def test_doctor_as_data_is_data(capsys):
    code, out, _ = _labs(capsys, "doctor", "--json")
    assert code in (0, 1)
    assert json.loads(out)


def test_check_as_data_holds_a_verdict_for_each_cell_and_fails_for_an_open_exercise(capsys):
    code, out, err = _labs(capsys, "check", RELEASED, "1.1", "--json")
    assert (code, err) == (1, "")
    assert [(v["exercise"], v["cell"], v["state"], v["score"]) for v in json.loads(out)] == [
        ("1.1", "check", "open", 0.0),
        ("1.1", "timed", "open", 0.0),
    ]


def test_check_for_people_names_the_exercise_and_what_its_cell_says(capsys, monkeypatch):
    from course_lib.course import check
    from course_lib.grading.judging import refused

    monkeypatch.setattr(check, "judge", lambda _, known, cell: refused(known, cell, "the cell defines no ridge_points"))
    code, out, _ = _labs(capsys, "check", RELEASED, "1.1")
    assert code == 1
    assert "Exercise 1.1: not right yet, 0 of 4 points" in out
    assert "the cell defines no ridge_points" in out


def test_grade_as_data_holds_a_row_for_each_submission_and_fails_for_one_without_a_grade(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    (tmp_path / "submitted" / "anna" / PHASE).mkdir(parents=True)
    code, out, err = _labs(capsys, "grade", "1", "--where", str(tmp_path), "--json", "--export", str(tmp_path / "g.csv"))
    assert (code, err) == (1, "")
    (row,) = json.loads(out)
    assert (row["student"], row["phase"], row["status"], row["score"]) == ("anna", PHASE, "malformed", None)
    assert "anna" in (tmp_path / "g.csv").read_text(encoding="utf-8")


def test_grade_with_nothing_handed_in_says_where_it_belongs(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, _, err = _labs(capsys, "grade", "--where", str(tmp_path))
    assert code == 1
    assert "put STUDENT/PHASE/PHASE.ipynb there" in err


def test_grading_that_was_stopped_says_how_it_goes_on(capsys, monkeypatch):
    from course_lib.course import grade_command

    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(grade_command, "grade_folder", stopped)
    code, _, err = _labs(capsys, "grade")
    assert (code, "The same command again goes on" in err) == (130, True)


def test_a_fault_of_the_machine_is_a_message_and_no_traceback(capsys, monkeypatch):
    from course_lib.course import build

    def fails(*_, **__):
        raise FileNotFoundError(2, "No usable temporary directory found in ['/no']")

    monkeypatch.setattr(build, "build", fails)
    code, _, err = _labs(capsys, "build")
    assert (code, err) == (1, "labs: [Errno 2] No usable temporary directory found in ['/no']\n")


def test_a_terminal_of_ascii_shows_what_it_can(tmp_path):
    (tmp_path / "submitted" / "Zoë" / PHASE).mkdir(parents=True)
    ended = subprocess.run(
        [sys.executable, "-m", "course_lib.cli", "grade", "--where", str(tmp_path)], cwd=ROOT, capture_output=True, text=True,
        env=os.environ | {"PYTHONIOENCODING": "ascii"}, check=False,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (1, "")
    assert "Zo?: expected a file named" in ended.stdout


def test_build_fails_a_check_when_something_would_change(capsys, monkeypatch):
    from course_lib.course import build

    report = build.BuildReport(changed=["labs/x.ipynb"], unchanged=["solutions/x.ipynb"])
    monkeypatch.setattr(build, "build", lambda *_, **__: report)
    code, out, err = _labs(capsys, "build", "--check")
    assert code == 1
    assert "differs: labs/x.ipynb" in out
    assert "run: labs build" in err


def test_an_author_s_mistake_is_a_message_and_no_traceback(capsys, monkeypatch):
    from course_lib.course import build

    def fails(*_, **__):
        raise ValueError("phase1_roofline.py: grade_id 'ex-1-1' stands twice")

    monkeypatch.setattr(build, "build", fails)
    code, _, err = _labs(capsys, "build")
    assert (code, err) == (1, "labs: phase1_roofline.py: grade_id 'ex-1-1' stands twice\n")


def test_run_fails_with_the_failures_of_its_report(capsys, monkeypatch):
    from course_lib.course import run

    monkeypatch.setattr(run, "run", lambda *_, **__: run.RunReport([], ["phase1_roofline: 3 of 5 points"]))
    code, _, err = _labs(capsys, "run", "1")
    assert (code, err) == (1, "labs: phase1_roofline: 3 of 5 points\n")


def test_bench_lists_the_benchmarks(capsys):
    code, out, _ = _labs(capsys, "bench", "--list")
    assert code == 0
    assert out.split() == sorted(p.stem for p in (ROOT / "benchmarks").glob("*.py") if not p.stem.startswith("_"))
