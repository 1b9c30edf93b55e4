"""Recording where something is broken. Each case is real: killed children, a disk with no room, folders of other users."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from course_lib.course import progress, progress_spool
from course_lib.course.progress_store import open_log

from .progress_helpers import PHASES, child, exercise, verdict

EXERCISES = [exercise("1.1")]
NOBODY = 65534


@pytest.fixture
def tmp(tmp_path, monkeypatch):
    """The temporary folder that the spool falls back to."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def home(tmp_path, tmp, monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(progress, "_unsaved", [])
    return tmp_path / "home"


def devices() -> list[str]:
    return sorted(event["device"] for event in progress.export_events())


def points() -> float:
    return progress.summary(EXERCISES, PHASES).phases[0].points


def integrity(home: Path) -> str:
    database = sqlite3.connect(home / ".course" / "progress.db")
    try:
        return database.execute("PRAGMA integrity_check").fetchone()[0]
    finally:
        database.close()


# A killed process


def test_a_process_killed_in_a_write_loop_loses_no_row_that_it_had_been_told_was_saved(home, tmp):
    code = """
for n in range(100_000):
    progress.record(verdict("1.1", 2, device=f"{name} {n}"), "live")
    print(f"{name} {n}", flush=True)
"""
    told = []
    for round_ in range(6):
        writer = child(f"name = 'round {round_}'\n{code}", home, tmp, wait=False)
        told += [writer.stdout.readline().strip() for _ in range(5)]
        time.sleep(0.0007 * round_)  # another moment of the loop each time
        writer.send_signal(signal.SIGKILL)
        told += writer.communicate()[0].split("\n")[:-1]
        assert writer.returncode == -signal.SIGKILL
    assert set(told) <= set(devices())
    assert len(told) >= 30
    assert integrity(home) == "ok"
    assert progress.summary(EXERCISES, PHASES).messages == []


def test_a_transaction_that_was_killed_half_written_is_undone_at_the_next_opening(home, tmp):
    progress.record(verdict("1.1", 1, device="before"), "live")
    code = """
from course_lib.course.progress_event import new_event
from course_lib.course.progress_store import _INSERT, to_row, open_log
with open_log(progress.state_dir() / "progress.db") as log:
    log._connection.execute("PRAGMA cache_size = 1")  # so that pages reach the file before the commit
    log._connection.execute("BEGIN IMMEDIATE")
    for n in range(200):
        log._connection.execute(_INSERT, to_row(new_event(verdict("1.1", 2, printed="x" * 3000), "live")))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = child(code, home, tmp, wait=False)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert (home / ".course" / "progress.db-journal").stat().st_size > 0
    assert (home / ".course" / "progress.db").stat().st_size > 100_000
    assert devices() == ["before"]
    assert progress.record(verdict("1.1", 2, device="after"), "live") == ""
    assert devices() == ["after", "before"]
    assert integrity(home) == "ok"


# A busy log


def test_a_log_that_another_program_keeps_locked_costs_seconds_and_no_result(home, monkeypatch):
    monkeypatch.setattr("course_lib.course.progress_store.BUSY_SECONDS", 0.3)
    progress.record(verdict("1.1", 1, device="first"), "live")
    other = sqlite3.connect(home / ".course" / "progress.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    message = progress.record(verdict("1.1", 2, device="second"), "live")
    assert "locked" in message
    assert "progress-pending.jsonl" in message
    assert points() == 2  # the waiting one counts already
    assert any("wait" in text for text in progress.summary(EXERCISES, PHASES).messages)
    other.close()
    assert devices() == ["first", "second"]
    assert not (home / ".course" / "progress-pending.jsonl").exists()
    assert progress.summary(EXERCISES, PHASES).messages == []


# A full disk


def test_on_a_disk_without_room_results_wait_in_memory_and_then_are_saved(home, tmp):
    """RLIMIT_FSIZE 0: no file can grow by a byte, in any folder, for this process."""
    code = """
import resource, json
record = lambda name, score: progress.record(verdict("1.1", score, device=name), "live")
first = record("before", 0.5)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
full = [record("full", 1.5), record("full too", 1)]
counted = progress.summary(EXERCISES)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
last = record("after", 0)
again = progress.summary(EXERCISES)
print(json.dumps([first, full, counted.phases[0].points, counted.messages, last, again.phases[0].points, again.messages]))
"""
    first, full, points_, messages, last, points_again, messages_again = json.loads(child(code, home, tmp))
    assert first == last == ""
    assert all("until this session ends" in text for text in full)
    assert points_ == points_again == 1.5
    assert any("2 results are kept only until this session ends" in text for text in messages)
    assert messages_again == []
    assert devices() == ["after", "before", "full", "full too"]
    assert integrity(home) == "ok"


def test_a_log_that_cannot_grow_leaves_the_result_in_the_spool_beside_it(home, tmp):
    """RLIMIT_FSIZE at the size of the log: SQLite's write fails in the middle of a transaction, the small spool fits."""
    code = """
import resource
for n in range(3):
    assert progress.record(verdict("1.1", 1, device=f"before {n}", printed=["x" * 9000] * 2), "live") == ""
size = os.path.getsize(progress.state_dir() / "progress.db")
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
print(progress.record(verdict("1.1", 2, device="full", printed=["x" * 9000] * 2), "live"))
"""
    message = child(code, home, tmp)
    assert str(home / ".course" / "progress-pending.jsonl") in message
    assert integrity(home) == "ok"
    assert devices() == ["before 0", "before 1", "before 2", "full"]


def test_on_a_really_full_file_system_nothing_is_lost(home, tmp, tmp_path):
    """A file system of 96 KB of its own, filled to the last byte."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "-Urm", "true"], capture_output=True).returncode:
        pytest.skip("this machine lets nobody mount a file system of their own; the RLIMIT_FSIZE tests stand for it")
    disk = tmp_path / "disk"
    disk.mkdir()
    code = """
import errno, shutil
assert progress.record(verdict("1.1", 0.5, device="before"), "live") == ""
with open(os.environ["COURSE_HOME"] + "/fill", "wb", buffering=0) as fill:
    try:
        while True: fill.write(b"x" * 512)
    except OSError as error:
        assert error.errno == errno.ENOSPC
message = progress.record(verdict("1.1", 1.5, device="full", printed="x" * 9000), "live")
during = progress.summary(EXERCISES).phases[0].points
os.remove(os.environ["COURSE_HOME"] + "/fill")
print(message)
print(during, progress.summary(EXERCISES).phases[0].points, sorted(e["device"] for e in progress.export_events()))
print(progress.summary(EXERCISES).messages)
"""
    mount = ("unshare", "-Urm", "sh", "-c", f'mount -t tmpfs -o size=96k none {disk} && exec "$@"', "sh")
    message, after, messages = child(code, disk, tmp, wrap=mount).splitlines()
    assert "the disk is full" in message
    assert f"It waits in {tmp}/llm-inference-course-" in message
    assert after == "1.5 1.5 ['before', 'full']"
    assert messages == "[]"


# A folder that cannot be written


def test_where_the_home_cannot_even_be_created_results_wait_in_a_private_temporary_folder(home, tmp, monkeypatch):
    home.write_text("a file is in the way")
    message = progress.record(verdict("1.1", 2, device="stuck"), "live")
    [folder] = tmp.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert str(folder) in message
    assert points() == 2
    home.unlink()
    assert progress.record(verdict("1.1", 1, device="free"), "live") == ""
    assert devices() == ["free", "stuck"]
    assert not list(folder.glob("*.jsonl"))


@pytest.mark.parametrize("exists", [True, False])
def test_a_read_only_folder_is_read_and_its_results_wait(tmp_path_factory, exists):
    """In a child that is no super-user, for whom permissions count."""
    root = Path(tempfile.mkdtemp())  # pytest's own folders are closed to other users
    try:
        root.chmod(0o755)
        home, tmp = root / "home", root / "tmp"
        (home / ".course").mkdir(parents=True)
        tmp.mkdir()
        tmp.chmod(0o777)
        if exists:
            child('assert progress.record(verdict("1.1", 1, device="before"), "live") == ""', home, tmp)
            for file in (home / ".course").iterdir():
                file.chmod(0o444)
        (home / ".course").chmod(0o555)
        code = f"""
if os.getuid() == 0:
    os.setgid({NOBODY}); os.setuid({NOBODY})
print(progress.record(verdict("1.1", 2, device="read only"), "live"))
got = progress.summary(EXERCISES)
print(got.phases[0].points, len(progress.export_events()), got.messages)
"""
        message, after = child(code, home, tmp).splitlines()
        assert "cannot be written" in message
        assert f"waits in {tmp}/llm-inference-course-" in message
        assert after.startswith(f"2.0 {1 + exists} ")
        (home / ".course").chmod(0o755)
        for file in (home / ".course").iterdir():
            file.chmod(0o644)
    finally:
        shutil.rmtree(root)


def plant_a_link(place, stranger):
    place.symlink_to(stranger)


def plant_an_open_folder(place, stranger):
    place.mkdir(mode=0o777)
    place.chmod(0o777)


def plant_a_file(place, stranger):
    place.write_text("")


def plant_another_users_folder(place, stranger):
    if os.getuid() != 0:
        pytest.skip("only a super-user can make another user's folder; the other three cases stand for it")
    place.mkdir(mode=0o700)
    os.chown(place, NOBODY, NOBODY)


@pytest.mark.parametrize("plant", [plant_a_link, plant_an_open_folder, plant_a_file, plant_another_users_folder])
def test_a_planted_temporary_folder_is_not_used_but_the_next_name(home, tmp, tmp_path, plant):
    stranger = tmp_path / "stranger"
    stranger.mkdir(mode=0o700)
    planted = tmp / f"llm-inference-course-{os.getuid()}"
    plant(planted, stranger)
    home.write_text("a file is in the way")
    message = progress.record(verdict("1.1", 2), "live")
    assert str(tmp / f"llm-inference-course-{os.getuid()}-2") in message
    assert not list(stranger.iterdir())
    assert not planted.is_dir() or not list(planted.iterdir())
    assert points() == 2


def test_a_link_in_place_of_the_spool_file_is_not_followed(home, tmp, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    (home / ".course").mkdir(parents=True)
    (home / ".course" / "progress-pending.jsonl").symlink_to(precious)
    (home / ".course" / "progress.db").mkdir()  # so that the spool is needed
    progress.record(verdict("1.1", 2), "live")
    assert precious.read_text() == "mine\n"
    assert points() == 2


def test_two_homes_do_not_mix_in_the_temporary_folder(home, tmp, tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).write_text("in the way")
        monkeypatch.setenv("COURSE_HOME", str(tmp_path / name))
        progress.record(verdict("1.1", 2, device=name), "live")
    for name in ("a", "b"):
        [(_, waiting)] = progress_spool.pending(tmp_path / name / ".course")
        assert [event["device"] for event in waiting] == [name]


def test_without_any_home_directory_a_result_is_kept_for_the_session_and_the_variable_is_named(home, monkeypatch):
    def no_home():
        raise RuntimeError("set COURSE_HOME")

    with monkeypatch.context() as context:
        context.setattr(progress, "state_dir", no_home)
        assert "set COURSE_HOME" in progress.record(verdict("1.1", 2, device="lost?"), "live")
    progress.record(verdict("1.1", 1, device="next"), "live")
    assert devices() == ["lost?", "next"]


# A newer schema


def test_a_log_of_a_newer_course_is_left_untouched_and_results_wait(home):
    progress.record(verdict("1.1", 1, device="old"), "live")
    path = home / ".course" / "progress.db"
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 2")
    database.close()
    before = path.read_bytes()
    message = progress.record(verdict("1.1", 2, device="new"), "live")
    assert "schema 2" in message
    assert "update the course" in message
    got = progress.summary(EXERCISES, PHASES)
    assert got.phases[0].points == 2
    assert any("update the course" in text for text in got.messages)
    with pytest.raises(RuntimeError, match="update the course"):  # an export must not leave anything behind in silence
        progress.export_events()
    assert path.read_bytes() == before
    assert not list(home.glob("**/*damaged*"))
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 1")  # the course was updated
    database.close()
    assert devices() == ["new", "old"]


# The spool


def test_unreadable_lines_of_a_spool_are_kept_and_named_and_the_others_merged(home):
    progress.record(verdict("1.1", 2, device="good"), "live")
    [event] = progress.export_events()
    spool = home / ".course" / "progress-pending.jsonl"
    good = json.dumps(event | {"uuid": "12345678-1234-5678-1234-567812345678", "device": "also good"})
    spool.write_text(f'{{"uuid": "torn by a full di\n{good}\n\n[]\n')
    got = progress.summary(EXERCISES, PHASES)
    [kept] = (home / ".course").glob("progress-pending.unreadable-*.jsonl")
    assert any("2 unreadable lines" in text and str(kept) in text for text in got.messages)
    assert "torn by a full di" in kept.read_text()
    assert not spool.exists()
    assert devices() == ["also good", "good"]


def test_a_line_torn_by_a_full_disk_does_not_spoil_the_next_one(home):
    spool = home / ".course" / "progress-pending.jsonl"
    spool.parent.mkdir(parents=True)
    spool.write_text('{"uuid": "torn')
    (home / ".course" / "progress.db").mkdir()
    progress.record(verdict("1.1", 2), "live")
    assert points() == 2


def test_writers_and_a_merger_at_once_lose_nothing_of_the_spool(home, tmp):
    """Two children add to the spool while this process keeps taking it in."""
    code = """
from course_lib.course import progress_spool
from course_lib.course.progress_event import new_event
for n in range(150):
    event = new_event(verdict("1.1", 2, device=f"{name} {n}"), "live")
    assert progress_spool.put(progress.state_dir(), [event])
"""
    writers = [child(f"name = {name!r}\n{code}", home, tmp, wait=False) for name in ("a", "b")]
    while any(writer.poll() is None for writer in writers):
        progress.summary(EXERCISES, PHASES)
    assert [writer.communicate() for writer in writers] == [("", "")] * 2
    assert set(devices()) == {f"{name} {n}" for name in ("a", "b") for n in range(150)}
    with open_log(home / ".course" / "progress.db") as log:
        assert len(log.read()[0]) == 300
