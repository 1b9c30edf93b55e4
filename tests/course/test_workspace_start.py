"""`labs start`: a copy is made once, completed later, and nothing that is there changes."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib
from course_lib.course import home, release, workspace, workspace_files, workspace_git, workspace_lock
from course_lib.course.workspace import WorkspaceError

from .workspace_helpers import LAB, MINE, V1, V2, started, tree


@pytest.fixture
def work(tmp_path):
    return tmp_path / "work"


def git(work, *arguments):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *arguments], cwd=work, env=clean, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_start_makes_a_whole_copy(course, work):
    course.release(V1)
    course.release(V2, "phase2_attention")
    report = workspace.start(work)
    assert report.path == work
    assert report.files("copied") == [LAB, "phase2_attention/phase2_attention.ipynb"]
    assert tree(work)[LAB] == V1
    assert {"README.md", "AGENTS.md", ".gitignore"} < tree(work).keys()
    assert (work / ".course").is_dir()
    assert git(work, "status", "--porcelain") == ""
    assert LAB in git(work, "ls-files")
    assert ".course" not in git(work, "ls-files")


def test_a_second_start_changes_nothing(course, work):
    started(course, work)
    before, commits = tree(work, with_state=True), git(work, "log", "--format=%H")
    report = workspace.start(work)
    assert not report.changed
    assert report.messages == []
    assert tree(work, with_state=True) == before
    assert git(work, "log", "--format=%H") == commits


def test_a_start_adds_the_labs_that_appeared_since_and_leaves_the_others(course, work):
    started(course, work)
    (work / LAB).write_bytes(MINE)
    course.release(V2)
    course.release(V1, "phase2_attention")
    report = workspace.start(work)
    assert report.files("copied") == ["phase2_attention/phase2_attention.ipynb"]
    assert report.files("kept") == [LAB]
    assert tree(work)[LAB] == MINE
    assert any("0.2.0" in message and "labs update" in message for message in report.messages)


def test_the_learners_work_is_committed_before_labs_are_added(course, work):
    started(course, work)
    (work / LAB).write_bytes(MINE)
    course.release(V1, "phase2_attention")
    workspace.start(work)
    assert git(work, "log", "-2", "--format=%s").splitlines()[1] == "Your work before labs were added"
    assert git(work, "show", f"HEAD~1:{LAB}").encode() == MINE
    assert "phase2_attention" not in git(work, "ls-tree", "-r", "--name-only", "HEAD~1")


def test_a_deleted_lab_comes_back_fresh(course, work):
    started(course, work)
    (work / LAB).rename(work / "phase1_roofline" / "old.ipynb")
    assert workspace.start(work).files("copied") == [LAB]
    assert tree(work)[LAB] == V1


@pytest.mark.parametrize("variable", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"])
def test_git_variables_of_the_caller_lead_nowhere_else(course, tmp_path, monkeypatch, variable):
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    before = tree(outer)
    value = {"GIT_WORK_TREE": outer, "GIT_INDEX_FILE": outer / "index"}.get(variable, outer / ".git")
    monkeypatch.setenv(variable, str(value))
    work = started(course, outer / "work")
    assert (work / ".git" / "HEAD").is_file()
    assert git(work, "status", "--porcelain") == ""
    assert git(work, "rev-parse", "--show-toplevel") == str(work)
    assert git(outer, "ls-files", "--cached") == ""
    assert {name: data for name, data in tree(outer).items() if not name.startswith("work/")} == before


def test_a_name_for_commits_is_set_only_here_and_only_if_there_is_none(course, tmp_path, monkeypatch):
    settings = tmp_path / "gitconfig"
    settings.write_text("")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    assert "user" in (started(course, tmp_path / "a") / ".git" / "config").read_text()
    assert settings.read_text() == ""
    settings.write_text("[user]\n name = Ada\n email = ada@example.org\n")
    work = started(course, tmp_path / "b")
    assert "user" not in (work / ".git" / "config").read_text()
    assert git(work, "log", "--format=%an") == "Ada"


def test_without_git_all_else_works_and_a_message_says_so(course, work, monkeypatch):
    monkeypatch.setenv("PATH", "")
    course.release(V1)
    report = workspace.start(work)
    assert tree(work)[LAB] == V1
    assert not (work / ".git").exists()
    assert [message for message in report.messages if "git is not installed" in message]


@pytest.mark.parametrize("name", ["index.lock", "MERGE_HEAD"])
def test_a_busy_repository_stops_nothing_and_is_named(course, work, name):
    started(course, work)
    (work / LAB).write_bytes(MINE)
    (work / ".git" / name).write_text("")
    course.release(V1, "phase2_attention")
    report = workspace.start(work)
    assert report.files("copied") == ["phase2_attention/phase2_attention.ipynb"]
    assert [message for message in report.messages if "no whole snapshot" in message]


def test_a_snapshot_holds_the_very_bytes_also_with_crlf_and_leaves_large_files_out(course, work, monkeypatch):
    monkeypatch.setattr(workspace_git, "LARGE_BYTES", 1000)
    course.release(b'{"metadata": {}}')
    workspace.start(work)
    (work / "notes ü.txt").write_bytes(b"a\r\nb\n")
    for name in ("weights.bin", "trace.ncu-rep", "a*[b].bin"):
        (work / name).write_bytes(bytes(1001))
    report = workspace.start(work)
    raw = subprocess.run(["git", "show", "HEAD:notes ü.txt"], cwd=work, capture_output=True, check=True).stdout
    assert raw == b"a\r\nb\n"
    assert not {"weights.bin", "trace.ncu-rep", "a*[b].bin"} & set(git(work, "ls-files").splitlines())
    assert [message for message in report.messages if "weights.bin" in message]


def test_a_file_that_appears_while_it_is_copied_is_not_overwritten(course, work, monkeypatch):
    course.release(V1)
    link = os.link

    def late(source, target, **options):
        if str(target).endswith(LAB) and not os.path.exists(target):
            Path(target).write_bytes(MINE)
        return link(source, target, **options)

    monkeypatch.setattr(os, "link", late)
    report = workspace.start(work)
    assert tree(work)[LAB] == MINE
    assert report.files("kept") == [LAB]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_hard_links_will_do(course, work, monkeypatch, number):
    def refuse(*_, **__):
        raise OSError(number, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    started(course, work)
    assert tree(work)[LAB] == V1
    assert workspace_files.create(work / LAB, MINE) is False
    assert tree(work)[LAB] == V1
    course.release(V2)
    assert workspace.update(work).files("replaced") == [LAB]
    assert tree(work)[LAB] == V2


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_full_or_read_only_disk_is_named_and_leaves_no_half_file(course, work, monkeypatch, number):
    started(course, work)
    before = tree(work, with_state=True)
    course.release(V1, "phase2_attention")

    def refuse(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(WorkspaceError, match=os.strerror(number)):
        workspace.start(work)
    assert tree(work, with_state=True) == before


@pytest.mark.parametrize("place", ["labs", "labs/inside", "full", "file"])
def test_a_folder_that_is_somebody_elses_is_refused_and_left_alone(course, tmp_path, place):
    course.release(V1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    (tmp_path / "file").write_text("x")
    before = tree(tmp_path)
    with pytest.raises(WorkspaceError, match="new or an empty folder"):
        workspace.start(tmp_path / place)
    assert tree(tmp_path) == before


def test_notebooks_without_their_state_become_a_copy_again_and_count_as_edited(course, work):
    (work / "phase1_roofline").mkdir(parents=True)
    (work / LAB).write_bytes(MINE)
    course.release(V2)
    assert workspace.start(work).files("kept") == [LAB]
    assert workspace.update(work).files("offered") == ["phase1_roofline/phase1_roofline.new-0.2.0.ipynb"]
    assert tree(work)[LAB] == MINE


def test_no_released_lab_is_a_message_and_a_broken_one_is_named(course, work):
    assert [message for message in workspace.start(work).messages if "no lab is released" in message]
    course.release(b"{ not json")
    with pytest.raises(WorkspaceError, match=r"phase1_roofline\.ipynb is no notebook"):
        workspace.start(work)


CHILD = """
import sys, pathlib
from course_lib.course import release, workspace
release.labs_dir = lambda: pathlib.Path(sys.argv[1])
report = workspace.start(pathlib.Path(sys.argv[2]))
print(len(report.files("copied")))
"""


def test_two_starts_at_once_share_the_work(course, work):
    for number in range(1, 9):
        course.release(V1, f"phase{number}")
    command = [sys.executable, "-c", CHILD, str(course.labs), str(work)]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    copied = [int(child.communicate(timeout=60)[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert sum(copied) == 8
    assert not workspace.start(work).changed
    assert git(work, "status", "--porcelain") == ""


def test_a_copy_that_another_command_is_busy_in_is_left_alone_and_named(course, work, monkeypatch):
    started(course, work)
    monkeypatch.setattr(workspace_lock, "LOCK_SECONDS", 0.1)
    course.release(V1, "phase2_attention")
    before = tree(work, with_state=True)
    with workspace_lock.locked(work), pytest.raises(WorkspaceError, match="another `labs` command"):
        workspace.start(work)
    assert tree(work, with_state=True) == before
    assert workspace.start(work).changed


def test_a_start_killed_anywhere_is_completed_by_the_next(course, tmp_path):
    course.release(V1)
    kills = 0
    for nth in range(1, 200, 3):
        work = tmp_path / f"work{nth}"
        if not killed_at(nth, lambda work=work: workspace.start(work)):
            break
        kills += 1
        seen = tree(work) if work.exists() else {}
        assert seen.get(LAB, V1) == V1, "a half-written notebook was visible"
        workspace.start(work)
        assert tree(work)[LAB] == V1
        assert not [name for name in tree(work, with_state=True) if name.endswith(".part")]
        assert not workspace.start(work).changed
    assert kills > 8


def killed_at(nth, command):
    """Runs `command` in a child that dies at its nth step on disk or in git; False when it ended before."""
    child = os.fork()
    if child == 0:
        steps = 0

        def counted(step):
            def run(*arguments, **options):
                nonlocal steps
                steps += 1
                if steps == nth:
                    os.kill(os.getpid(), signal.SIGKILL)
                return step(*arguments, **options)

            return run

        for module, name in (
            (os, "link"),
            (os, "replace"),
            (os, "rename"),
            (os, "fsync"),
            (subprocess, "run"),
        ):
            setattr(module, name, counted(getattr(module, name)))
        try:
            command()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def test_the_copy_in_use_is_found_from_anywhere_inside_and_as_home_finds_it(course, tmp_path, monkeypatch):
    monkeypatch.setattr(release, "repo_root", lambda: None)
    monkeypatch.chdir(tmp_path)
    assert workspace.find_copy() is None
    with pytest.raises(WorkspaceError, match="labs start"):
        workspace.update()
    course.release(V1)
    work = workspace.start().path
    assert work == tmp_path / "llm-inference-work"
    assert workspace.find_copy() == work  # from the folder it was made in
    for place in (work, work / "phase1_roofline"):
        monkeypatch.chdir(place)
        assert workspace.find_copy() == work == home.course_home()
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "other"))
    assert workspace.find_copy() is None
    assert workspace.start().path == tmp_path / "other" == workspace.find_copy() == home.course_home()


def test_in_a_clone_the_copy_is_its_work_folder(course, tmp_path, monkeypatch):
    clone = tmp_path / "clone"
    clone.mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(release, "repo_root", lambda: clone)
    monkeypatch.chdir(tmp_path / "elsewhere")
    course.release(V1)
    assert workspace.start().path == clone / "work" == workspace.find_copy()


def test_released_labs_lie_in_the_clone_or_in_the_package(tmp_path, monkeypatch):
    package = tmp_path / "site" / "course_lib"
    package.mkdir(parents=True)
    monkeypatch.setattr(release, "PACKAGE", package)
    with pytest.raises(release.ReleaseError, match=r"site/labs.*course_lib/_labs"):
        release.labs_dir()
    (package / "_labs").mkdir()
    assert release.labs_dir() == package / "_labs"
    (tmp_path / "site" / "labs").mkdir()
    assert release.labs_dir() == package / "_labs"  # a folder `labs` in site-packages is not ours
    (tmp_path / "site" / "pyproject.toml").write_text("")
    assert release.labs_dir() == tmp_path / "site" / "labs"


def test_a_release_tells_its_version_or_the_courses(course):
    course.release(V2)
    course.release(b'{"metadata": {}}', "phase2_attention")
    course.release(b'{"metadata": {"course": {"lab_version": "../1 beta"}}}', "phase3_quant")
    (course.labs / "notes").mkdir()
    versions = {one.phase: one.version for one in release.released()}
    assert versions == {
        "phase1_roofline": "0.2.0",
        "phase2_attention": course_lib.__version__,
        "phase3_quant": "1-beta",
    }
