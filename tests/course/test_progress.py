"""Recording, summing up, moving to another machine: with a folder that works."""

import json
import math
import sqlite3
import subprocess
import sys
import threading

import pytest

from course_lib.course import progress
from course_lib.course.progress_event import new_event
from course_lib.course.progress_store import open_log
from course_lib.grading.verdict import Verdict

from .progress_helpers import PHASES, ROOT, child, exercise, verdict

EXERCISES = [exercise("1.1"), exercise("1.2", check=4, timed=6)]


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(progress, "_unsaved", [])
    return tmp_path / "home"


def summary():
    return progress.summary(EXERCISES, PHASES)


def test_what_is_recorded_is_summed_up(home, capfd):
    assert progress.record(verdict("1.1", 2), "live") == ""
    assert progress.record(verdict("1.2", 4, 4), "judge") == ""
    assert progress.record(verdict("1.2", 0, 6, waiting=6, cell="timed"), "grade") == ""
    got = summary()
    assert (got.phases[0].points, got.phases[0].waiting_points, got.phases[0].state) == (6, 6, "done, timing waiting")
    assert got.messages == []
    assert capfd.readouterr() == ("", "")


def test_asking_creates_nothing(home):
    assert summary().text == "0 of 4 phases (0%)"
    assert progress.export_events() == []
    assert not home.exists()


def test_an_event_carries_everything_about_its_verdict(home):
    given = verdict("1.2", 5, 6, cell="timed", ratio=0.8, device="H200", seed=7)
    progress.record(given, "check")
    [event] = progress.export_events()
    assert event["at"].endswith("Z")
    assert {k: v for k, v in event.items() if k not in ("uuid", "at", "course_version", "verdict")} == {
        "exercise": "1.2", "cell": "timed", "source": "check", "score": 5, "max_points": 6, "waiting_points": 0,
        "state": "partial", "best_ratio": 0.8, "device": "H200",
    }  # fmt: skip
    assert Verdict.from_json(event["verdict"]) == given


def test_a_verdict_full_of_strange_things_is_recorded(home, capfd):
    strange = verdict(
        "1.1", 2, device="\ud800\x00café", nan=math.nan, thing=object(), nested={1: {2, 3}, "b": b"x"}, printed="x" * 2_000_000
    )
    assert progress.record(strange, "live") == ""
    [event] = progress.export_events()
    assert event["score"] == 2
    assert len(event["verdict"]["context"]["printed"]) <= 10_000
    json.dumps(event, allow_nan=False).encode()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("broken", [None, object(), verdict("1.1", math.nan), verdict("", 1)])
def test_what_is_no_verdict_is_refused_in_a_sentence_and_nothing_is_written(home, broken):
    assert "not recorded" in progress.record(broken, "live")
    assert not (home / ".course" / "progress.db").exists()


def test_an_unknown_source_is_refused_naming_the_known_ones(home):
    message = progress.record(verdict("1.1", 2), "lives")
    assert "'lives'" in message
    assert "grade" in message


def test_the_log_can_only_grow(home):
    progress.record(verdict("1.1", 2), "live")
    database = sqlite3.connect(home / ".course" / "progress.db")
    for statement in ("UPDATE events SET score = 9", "DELETE FROM events"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            database.execute(statement)
    database.close()


def test_it_needs_no_write_ahead_log_which_network_disks_do_not_support(home):
    progress.record(verdict("1.1", 2), "live")
    database = sqlite3.connect(home / ".course" / "progress.db")
    assert database.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert database.execute("PRAGMA user_version").fetchone() == (1,)
    database.close()


def test_progress_json_beside_the_log_says_the_same_as_the_summary(home):
    progress.record(verdict("1.1", 2), "live")
    written = json.loads((home / ".course" / "progress.json").read_text())
    assert written == progress.summary().to_json()
    assert {"completed", "total", "percent"} <= written.keys()
    assert not list((home / ".course").glob("*.tmp"))


def test_a_folder_where_progress_json_should_be_does_not_hinder_recording(home):
    (home / ".course" / "progress.json").mkdir(parents=True)
    assert progress.record(verdict("1.1", 2), "live") == ""
    assert summary().phases[0].points == 2
    assert not list((home / ".course").glob("*.tmp"))


def test_events_move_to_another_machine_once(home, monkeypatch):
    for score in (1, 2):
        progress.record(verdict("1.1", score, device="T4"), "live")
    exported = json.loads(json.dumps(progress.export_events()))
    monkeypatch.setenv("COURSE_HOME", str(home.parent / "other"))
    progress.record(verdict("1.2", 4, 4), "live")
    assert progress.merge_events(exported) == 2
    assert progress.merge_events(exported) == 0
    assert progress.merge_events(exported + exported) == 0
    assert len(progress.export_events()) == 3
    assert summary().phases[0].points == 6
    assert progress.export_events()[0] == exported[0]


@pytest.mark.parametrize(
    "damage",
    [
        {"uuid": "x"}, {"uuid": None}, {"at": "yesterday"}, {"at": "2026-01-01T00:00:00"}, {"at": 5}, {"score": -1}, {"score": 3},
        {"score": "2"}, {"score": True}, {"score": math.nan}, {"score": 10**400}, {"max_points": math.inf}, {"waiting_points": 3},
        {"state": "splendid"}, {"best_ratio": -1}, {"exercise": ""}, {"exercise": "1" * 300}, {"device": 5},
    ],
)  # fmt: skip
def test_malformed_rows_are_skipped_and_counted_and_the_others_merged(home, monkeypatch, damage):
    progress.record(verdict("1.1", 2), "live")
    [good] = progress.export_events()
    monkeypatch.setenv("COURSE_HOME", str(home.parent / "other"))
    merged = progress.merge_events([good | damage, {}, None, 5, "row", [], good])
    assert (merged, merged.skipped, merged.message) == (1, 6, "")


def test_columns_that_a_newer_course_adds_do_not_hinder_a_merge(home, monkeypatch):
    progress.record(verdict("1.1", 2), "live")
    [good] = progress.export_events()
    monkeypatch.setenv("COURSE_HOME", str(home.parent / "other"))
    assert progress.merge_events([good | {"mood": "fine"}]) == 1


def test_two_processes_writing_200_events_each_lose_none(home, tmp_path):
    code = """
for n in range(200):
    progress.record(verdict("1.1", 2, device=f"{name} {n}"), "live")
"""
    writers = [child(f"name = {name!r}\n{code}", home, tmp_path, wait=False) for name in ("a", "b")]
    for writer in writers:
        out, err = writer.communicate(timeout=120)
        assert (writer.returncode, out, err) == (0, "", "")
    found = {event["device"] for event in progress.export_events()}
    assert found == {f"{name} {n}" for name in ("a", "b") for n in range(200)}
    assert not (home / ".course" / "progress-pending.jsonl").exists()


def test_threads_of_one_process_may_record_at_once(home):
    messages = []
    work = [
        threading.Thread(target=lambda n=n: messages.append(progress.record(verdict("1.1", 2, device=str(n)), "live")))
        for n in range(8)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert messages == [""] * 8
    assert len(progress.export_events()) == 8


def test_eight_writers_that_all_find_no_log_yet_create_one_together(tmp_path):
    gate, failures = threading.Barrier(8), []

    def first_start(path):
        gate.wait()
        try:
            with open_log(path) as log:
                log.append([new_event(verdict("1.1", 2), "live")])
        except Exception as error:
            failures.append(error)

    for round_ in range(4):
        path = tmp_path / f"{round_}.db"
        work = [threading.Thread(target=first_start, args=(path,)) for _ in range(8)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert failures == []
        with open_log(path) as log:
            assert len(log.read()[0]) == 8


def test_progress_costs_no_torch_no_triton_no_rich_and_no_ipywidgets():
    code = (
        "import sys, course_lib.course.progress, course_lib.display.progress_widget, course_lib.display.progress_table\n"
        "print([m for m in ('torch', 'triton', 'rich', 'ipywidgets', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
