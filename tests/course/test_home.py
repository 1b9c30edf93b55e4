import os
import subprocess
import sys
from pathlib import Path

import pytest

from course_lib.course import release
from course_lib.course.home import course_home, found_home, state_dir


@pytest.fixture(autouse=True)
def no_course_home(monkeypatch):
    monkeypatch.delenv("COURSE_HOME", raising=False)
    monkeypatch.setattr(release, "repo_root", lambda: None)  # a clone that is in use has a work/ of its own


def test_the_environment_variable_wins_over_a_course_folder_nearby(tmp_path, monkeypatch):
    (tmp_path / ".course").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "elsewhere"))
    assert course_home() == tmp_path / "elsewhere"
    assert state_dir() == tmp_path / "elsewhere" / ".course"


@pytest.mark.parametrize("value", ["", "  "])
def test_an_empty_variable_counts_as_none(tmp_path, monkeypatch, value):
    (tmp_path / ".course").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COURSE_HOME", value)
    assert course_home() == tmp_path


def test_the_variable_may_use_a_tilde_and_may_be_relative(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    monkeypatch.setenv("COURSE_HOME", "~/course")
    assert course_home() == tmp_path / "ann" / "course"
    monkeypatch.setenv("COURSE_HOME", "here/../there")
    assert course_home() == tmp_path / "there"


@pytest.mark.parametrize(
    ("marker", "stand", "home"),
    [
        ("work/.course", "work/phase1/deep", "work"),
        ("work/.course", "work", "work"),
        ("work/.course", ".", "work"),
        ("work/.course", "solutions/phase1", "work"),
        (".course", "a/b", "."),
    ],
)
def test_the_folder_with_the_state_is_found_from_below_and_from_beside(tmp_path, monkeypatch, marker, stand, home):
    (tmp_path / marker).mkdir(parents=True)
    (tmp_path / stand).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / stand)
    assert course_home() == (tmp_path / home).resolve()


def test_the_nearest_state_wins_over_one_further_up(tmp_path, monkeypatch):
    (tmp_path / ".course").mkdir()
    (tmp_path / "repository" / "work" / ".course").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "repository")
    assert course_home() == tmp_path / "repository" / "work"


def test_a_file_of_that_name_is_no_state_folder_and_without_one_the_default_is_used(tmp_path, monkeypatch):
    (tmp_path / ".course").write_text("not a folder")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "ann"))
    assert course_home() == tmp_path / "ann" / ".local" / "share" / "llm-inference-course"
    assert not (tmp_path / "ann").exists()  # asking creates nothing


def test_a_deleted_working_directory_leads_to_the_default(tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    code = (
        "import os; os.rmdir(os.getcwd()); from course_lib.course import home; home.release.repo_root = lambda: None; "
        "print(home.course_home())"
    )
    environment = os.environ | {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], cwd=gone, env=environment, capture_output=True, text=True)
    assert done.stdout.strip() == str(tmp_path / ".local/share/llm-inference-course"), done.stderr


def test_a_user_without_a_home_is_told_to_set_the_variable(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it does for an unknown user
    with pytest.raises(RuntimeError, match="COURSE_HOME"):
        course_home()


def test_an_installed_course_and_a_clone_are_found_where_labs_start_puts_them(tmp_path, monkeypatch):
    (tmp_path / "llm-inference-work" / ".course").mkdir(parents=True)
    (tmp_path / "clone" / "work" / ".course").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    assert course_home() == tmp_path / "llm-inference-work"
    assert found_home(tmp_path / "clone" / "labs") == tmp_path / "clone" / "work"
    monkeypatch.setattr(release, "repo_root", lambda: tmp_path / "clone")
    (tmp_path / "llm-inference-work" / ".course").rmdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert course_home() == tmp_path / "clone" / "work"


def test_what_finds_a_copy_and_what_records_progress_agree(tmp_path, monkeypatch):
    from course_lib.course.workspace import find_copy

    (tmp_path / "llm-inference-work" / ".course").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert find_copy() == course_home()
