"""From the wheel alone, with no clone and no network: start, solve, check, see it in the progress."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import nbformat
import pytest

from .classroom import PHASE, ROOT, cell, read

SHIPPED = ("course_lib", "labs", "benchmarks/results", "pyproject.toml", "README.md", "LICENSE")
RESULTS = sorted(path.relative_to(ROOT / "benchmarks/results").as_posix() for path in ROOT.glob("benchmarks/results/*/*.json"))


def _run(*command, cwd: Path, **environment: str) -> subprocess.CompletedProcess:
    """Without the variables that would lead back to the clone or out to a network."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COURSE_", "PIP_")) and "proxy" not in k.lower()}
    nowhere = {"PIP_NO_INDEX": "1", "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    ended = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=kept | nowhere | environment, capture_output=True, text=True
    )
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        else:
            shutil.copy(ROOT / name, source)
    ended = _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out, cwd=source)
    assert ended.returncode == 0, ended.stderr
    (made,) = out.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def labs(wheel, tmp_path_factory):
    """`labs` of an environment that has the wheel, and everything else from this one; -> a function that calls it."""
    home = tmp_path_factory.mktemp("learner")
    environment = home / "venv"
    ended = _run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=home)
    assert ended.returncode == 0, ended.stderr
    python = environment / "bin" / "python"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    (packages / "from_the_other_environment.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "--quiet", "--ignore-installed")
    ended = _run(*pip, wheel, cwd=home)
    assert ended.returncode == 0, ended.stderr
    found = _run(python, "-c", "import course_lib; print(course_lib.__file__)", cwd=home)
    assert found.stdout.strip().startswith(str(packages)), "the clone was imported, not the wheel"

    def call(*arguments: str, cwd: Path = home) -> subprocess.CompletedProcess:
        return _run(environment / "bin" / "labs", *arguments, cwd=cwd, HOME=str(home))

    call.home, call.python = home, python
    return call


def test_the_wheel_holds_the_labs_and_no_solution(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert f"course_lib/_labs/{PHASE}/{PHASE}.ipynb" in names
    assert "course_lib/hardware/gpus.toml" in names
    assert [name for name in names if "solutions" in name or name.startswith(("tests", "benchmarks"))] == []
    texts = [zipfile.ZipFile(wheel).read(name) for name in names if name.endswith(".ipynb")]
    assert not any(b"BEGIN SOLUTION" in text for text in texts)


def test_the_wheel_holds_every_recorded_result(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "nvidia-h200/ridge.json" in RESULTS
    assert sorted(n.removeprefix("course_lib/_results/") for n in names if n.startswith("course_lib/_results/")) == RESULTS


def test_the_wheel_holds_the_courses_models_whole(wheel):
    folder, archive = ROOT / "course_lib/model/weights", zipfile.ZipFile(wheel)
    assert {path.suffix for path in folder.iterdir()} >= {".safetensors", ".json", ".md", ".tsv", ".xz"}
    for path in folder.iterdir():
        assert archive.read(f"course_lib/model/weights/{path.name}") == path.read_bytes(), path.name


def test_an_installed_course_finds_the_recorded_results_and_names_them_for_one_that_is_not_there(labs):
    find = "import json; from course_lib.recorded import recorded; print(json.dumps(recorded('ridge')))"
    found = _run(labs.python, "-c", find, cwd=labs.home)
    assert json.loads(found.stdout) == json.loads((ROOT / "benchmarks/results/nvidia-h200/ridge.json").read_text())
    miss = "from course_lib.recorded import recorded\ntry: recorded('nothing')\nexcept FileNotFoundError as error: print(error)"
    said = _run(labs.python, "-c", miss, cwd=labs.home).stdout
    assert "no result nvidia-h200/nothing" in said
    assert "nvidia-h200/ridge" in said


def test_an_installed_course_is_started_solved_checked_and_followed(labs):
    started = labs("start")
    assert started.returncode == 0, started.stderr
    (lab,) = labs.home.glob(f"*/{PHASE}/{PHASE}.ipynb")
    copy = lab.parents[1]

    notebook = read(lab)
    cell(notebook, "ex-1-1").source = cell(read(ROOT / "solutions" / PHASE / f"{PHASE}.ipynb"), "ex-1-1").source
    nbformat.write(notebook, lab)
    solved = labs("check", f"{PHASE}/{PHASE}.ipynb", "1.1", "--json", cwd=copy)
    check, timed = json.loads(solved.stdout)
    assert (check["score"], check["max_points"], check["state"]) == (4.0, 4.0, "done")
    assert timed["score"] + timed["waiting_points"] == 1.0
    assert solved.returncode == 0

    phase = json.loads(labs("progress", "--json", cwd=copy).stdout)["phases"][0]
    assert phase["points"] == 4.0 + timed["score"]
    assert (copy / ".course" / "progress.db").exists()


def test_a_command_that_needs_the_clone_says_so(labs):
    ended = labs("build")
    assert ended.returncode == 1
    assert "is in no clone of the course" in ended.stderr
