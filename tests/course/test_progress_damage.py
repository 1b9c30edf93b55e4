"""Damaged logs: what is still on their pages is saved, the damaged file is kept, and the user is told."""

import random
import sqlite3
import tracemalloc
from pathlib import Path

import pytest

from course_lib.course import progress
from course_lib.course.progress_event import new_event, to_row
from course_lib.course.progress_salvage import salvage
from course_lib.course.progress_store import PAGE_BYTES, open_log

from .progress_helpers import PHASES, exercise, verdict

EXERCISES = [exercise("1.1")]
NUM_EVENTS = 60


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(progress, "_unsaved", [])
    return tmp_path / "home"


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """-> (the bytes of a log of 60 events, the events): small rows, rows of several pages, integers kept as reals."""
    path = tmp_path_factory.mktemp("sound") / "progress.db"
    events = [
        new_event(verdict("1.1", 2 if n % 3 else 1.25, ratio=0.5 + n, device=str(n), printed="é" * (97 * n)), "live")
        for n in range(NUM_EVENTS)
    ]
    with open_log(path) as log:
        for event in events:
            log.append([event])
    return path.read_bytes(), events


def put(home: Path, data: bytes) -> Path:
    path = home / ".course" / "progress.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return path


def flipped(data: bytes, page: int) -> bytes:
    start = page * PAGE_BYTES
    return data[:start] + bytes(byte ^ 0xFF for byte in data[start : start + PAGE_BYTES]) + data[start + PAGE_BYTES :]


def numbers(event: dict) -> dict:
    return {key: value for key, value in event.items() if key != "verdict"}


def test_salvage_finds_every_event_of_a_sound_file_whole(sound):
    data, events = sound
    assert len(data) > 50 * PAGE_BYTES
    assert salvage(data) == events


def test_salvage_needs_no_header_and_no_inner_pages(sound):
    data, events = sound
    for page in range(len(data) // PAGE_BYTES):
        if data[page * PAGE_BYTES] in (ord("S"), 5, 2, 10):  # the header page, inner pages, the index
            data = flipped(data, page)
    assert salvage(data) == events


def test_each_page_on_its_own_may_be_lost_and_costs_only_what_stood_on_it(sound):
    data, events = sound
    leaves = 0
    for page in range(len(data) // PAGE_BYTES):
        is_leaf = data[page * PAGE_BYTES] == 13
        leaves += is_leaf
        found = {event["uuid"]: event for event in salvage(flipped(data, page))}
        whole = [event for event in events if found.get(event["uuid"]) == event]
        torn = [event for event in events if event["uuid"] in found and event not in whole]
        assert all(numbers(found[event["uuid"]]) == numbers(event) for event in torn)
        if is_leaf:  # the rows of this page are gone; no other is
            assert len(found) == NUM_EVENTS - int.from_bytes(data[page * PAGE_BYTES + 3 : page * PAGE_BYTES + 5], "big")
        else:  # at most one verdict ran over this page
            assert len(found) == NUM_EVENTS
            assert len(torn) <= 1
    assert leaves > 5


@pytest.mark.parametrize("seed", range(20))
def test_salvage_of_noise_ends_and_invents_nothing(sound, seed):
    data, events = sound
    noise = random.Random(seed)
    damaged = bytearray(data)
    for _ in range(400):
        damaged[noise.randrange(len(damaged))] = noise.randrange(256)
    known = {event["uuid"] for event in events}
    assert len({event["uuid"] for event in salvage(bytes(damaged))} & known) > NUM_EVENTS // 2
    assert salvage(noise.randbytes(20 * PAGE_BYTES + 17)) == []


def test_a_ring_of_overflow_pages_ends(sound):
    data, _ = sound
    ring = bytearray(data)
    for page in range(2, len(ring) // PAGE_BYTES):
        if ring[page * PAGE_BYTES] == 0:  # an overflow page: its first four bytes are the next one's number
            ring[page * PAGE_BYTES : page * PAGE_BYTES + 4] = (page + 1).to_bytes(4, "big")
    assert len(salvage(bytes(ring))) == NUM_EVENTS


def test_rows_of_every_size_around_the_edge_of_a_page_are_found_whole(tmp_path):
    """A row of 4061 bytes is the largest that stands on its page; the rest of a larger one starts an overflow chain."""
    base = sum(len(str(value)) for value in to_row(new_event(verdict("1.1", 2, printed=""), "live")))
    lengths = [*range(4061 - base - 60, 4061 - base + 60), *range(4100 - base, 9000, 7)]
    events = [new_event(verdict("1.1", 2, printed="x" * length), "live") for length in lengths]
    with open_log(tmp_path / "progress.db") as log:
        log.append(events)
    assert salvage((tmp_path / "progress.db").read_bytes()) == events


def test_a_row_that_claims_more_bytes_than_its_file_has_ends_and_takes_no_memory():
    huge = b"\xff\xff\xff\x7f" + b"\x01"  # 268 million bytes, row 1
    page = bytearray(PAGE_BYTES)
    page[0], page[4], page[8:10] = 13, 1, (10).to_bytes(2, "big")
    page[10 : 10 + len(huge)] = huge
    page[15:] = (2).to_bytes(4, "big") * ((PAGE_BYTES - 15) // 4) + bytes((PAGE_BYTES - 15) % 4)
    for shift in range(4):  # wherever the pointer to the chain stands, it names page 2, which names itself
        page[15:] = page[15 + shift :] + page[15 : 15 + shift]
        tracemalloc.start()
        assert salvage(bytes(page) + (2).to_bytes(4, "big") * (PAGE_BYTES // 4)) == []
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
        tracemalloc.stop()


def middle(data: bytes) -> bytes:
    return flipped(data, len(data) // PAGE_BYTES // 2)


DAMAGE = {
    "garbage at the start": lambda data: b"garbage!" * 20 + data[160:],
    "the first page gone": lambda data: bytes(PAGE_BYTES) + data[PAGE_BYTES:],
    "cut in the middle of a page": lambda data: data[: len(data) // 2 + 1000],
    "a page in the middle flipped": middle,
    "the second page flipped": lambda data: flipped(data, 1),
    "two pages flipped and cut": lambda data: flipped(middle(data), 3)[:-5000],
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_log_is_replaced_by_what_can_be_read_and_kept_beside_it(home, sound, how):
    damaged = DAMAGE[how](sound[0])
    path = put(home, damaged)
    message = progress.record(verdict("1.1", 0, device="new"), "live")
    [backup] = path.parent.glob("progress.db.damaged-*")
    assert backup.read_bytes() == damaged
    assert "was damaged" in message
    assert str(backup) in message
    readable = {event["uuid"] for event in salvage(damaged)}
    assert f"{len(readable)} results" in message
    assert len(readable) >= NUM_EVENTS // 3
    found = progress.export_events()
    assert {event["uuid"] for event in found if event["device"] != "new"} == readable
    assert sum(event["device"] == "new" for event in found) == 1
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    database.close()
    assert progress.record(verdict("1.1", 2), "live") == ""  # said once
    assert sorted(file.name for file in path.parent.iterdir()) == sorted(
        [backup.name, "progress.db", "progress.json", "progress.lock"]
    )


def test_a_file_that_was_never_a_log_is_kept_too(home):
    path = put(home, b"dear diary, " * 999)
    got = progress.summary(EXERCISES, PHASES)
    assert any("was damaged" in text and "0 results" in text for text in got.messages)
    [backup] = path.parent.glob("progress.db.damaged-*")
    assert backup.read_bytes() == b"dear diary, " * 999


def test_an_empty_file_is_what_a_killed_first_start_leaves_and_no_damage(home):
    put(home, b"")
    assert progress.record(verdict("1.1", 2), "live") == ""


def test_a_log_without_its_table_is_damaged(home):
    path = put(home, b"")
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE events (something TEXT)")
    database.execute("PRAGMA user_version = 1")
    database.close()
    assert "was damaged" in progress.record(verdict("1.1", 2), "live")
    assert progress.summary(EXERCISES, PHASES).phases[0].points == 2


@pytest.mark.parametrize("journal", [b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(600), b"noise" * 200])
def test_a_journal_of_the_damaged_file_does_not_reach_the_new_one(home, sound, journal):
    path = put(home, DAMAGE["garbage at the start"](sound[0]))
    path.with_name("progress.db-journal").write_bytes(journal)
    assert "was damaged" in progress.record(verdict("1.1", 2), "live")
    assert not path.with_name("progress.db-journal").exists()
    assert len(progress.export_events()) == NUM_EVENTS + 1


def test_what_cannot_be_repaired_here_is_still_shown_and_left_untouched(home, sound, monkeypatch):
    damaged = middle(sound[0])
    path = put(home, damaged)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("course_lib.course.progress_repair.os.replace", full)
    got = progress.summary(EXERCISES, PHASES)
    assert got.phases[0].points == 2
    assert any("the disk is full" in text for text in got.messages)
    assert path.read_bytes() == damaged
    assert "the disk is full" in progress.record(verdict("1.1", 2, device="new"), "live")
    assert {event["device"] for event in progress.export_events()} == {"new"} | {e["device"] for e in salvage(damaged)}
    monkeypatch.undo()
    monkeypatch.setenv("COURSE_HOME", str(home))
    assert "was damaged" in progress.summary(EXERCISES, PHASES).messages[0]


def test_rows_that_make_no_sense_are_left_out_and_counted(home):
    progress.record(verdict("1.1", 1), "live")
    path = home / ".course" / "progress.db"
    database = sqlite3.connect(path)
    database.execute("INSERT INTO events SELECT 'x', at, exercise, cell, source, 99, 1, 0, state, NULL, '', '', '' FROM events")
    database.commit()
    database.close()
    got = progress.summary(EXERCISES, PHASES)
    assert got.phases[0].points == 1
    assert any("1 rows" in text and "make no sense" in text for text in got.messages)


def test_two_processes_that_find_the_damage_at_once_lose_nothing(home, sound, tmp_path):
    from .progress_helpers import child

    path = put(home, middle(sound[0]))
    readable = len(salvage(path.read_bytes()))
    code = 'print(progress.record(verdict("1.1", 2, device="new"), "live"))'
    writers = [child(code, home, tmp_path, wait=False) for _ in range(4)]
    assert [writer.communicate()[1] for writer in writers] == [""] * 4
    assert len(progress.export_events()) == readable + 4
    assert len(list(path.parent.glob("progress.db.damaged-*"))) == 1
