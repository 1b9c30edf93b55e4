"""`labs update`: bytes decide. What a learner edited stays, and what is new comes beside it."""

import json
import os
import subprocess

import pytest

from course_lib.course import workspace, workspace_files, workspace_git
from course_lib.course.workspace_changes import cell_changes
from course_lib.course.workspace_files import digest
from course_lib.course.workspace_manifest import Manifest

from .workspace_helpers import LAB, MINE, V1, V2, V3, backups, notebook, started, tree

NEW = "phase1_roofline/phase1_roofline.new-0.2.0.ipynb"
PAST, FUTURE = 0, 4_000_000_000


@pytest.fixture
def work(course, tmp_path):
    return started(course, tmp_path / "work")


@pytest.mark.parametrize("time", [PAST, FUTURE])
def test_an_edited_notebook_stays_whatever_the_clocks_say(course, work, time):
    (work / LAB).write_bytes(MINE)
    course.release(V2)
    os.utime(work / LAB, (time, time))
    report = workspace.update(work)
    assert report.files("offered") == [NEW]
    assert tree(work)[LAB] == MINE
    assert tree(work)[NEW] == V2
    assert MINE in backups(work)


@pytest.mark.parametrize("time", [PAST, FUTURE])
def test_an_untouched_notebook_is_replaced_and_kept_as_backup_whatever_the_clocks_say(course, work, time):
    course.release(V2)
    os.utime(work / LAB, (time, time))
    report = workspace.update(work)
    assert report.files("replaced") == [LAB]
    assert tree(work)[LAB] == V2
    assert backups(work) == [V1]
    assert any(str(report.backup) in message for message in report.messages)


def test_nothing_new_changes_nothing(course, work):
    (work / "notes.md").write_text("mine")
    before = tree(work)
    report = workspace.update(work)
    assert not report.changed
    assert "nothing to do" in report.messages[-1]
    assert tree(work) == before
    assert backups(work) == []


def test_crlf_and_cr_copies_count_as_edited(course, tmp_path):
    data = b'{"metadata": {},\n "cells": []}\n'
    work = started(course, tmp_path / "crlf", data)
    crlf = data.replace(b"\n", b"\r\n")
    (work / LAB).write_bytes(crlf)
    course.release(V2)
    assert workspace.update(work).files("offered") == [NEW]
    assert tree(work)[LAB] == crlf


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[]", b'{"cells": 3}', b"null"])
def test_a_damaged_notebook_is_the_learners_too(course, work, data):
    (work / LAB).write_bytes(data)
    course.release(V2)
    assert workspace.update(work).files("offered") == [NEW]
    assert tree(work)[LAB] == data


def test_a_read_only_notebook_stays(course, work):
    (work / LAB).chmod(0o444)
    course.release(V2)
    assert workspace.update(work).files("offered") == [NEW]
    assert tree(work)[LAB] == V1


def test_a_link_or_a_folder_in_its_place_stays(course, work, tmp_path):
    elsewhere = tmp_path / "mine.ipynb"
    elsewhere.write_bytes(V1)
    (work / LAB).unlink()
    (work / LAB).symlink_to(elsewhere)
    course.release(V2)
    assert workspace.update(work).files("offered") == [NEW]
    assert (work / LAB).is_symlink()
    assert elsewhere.read_bytes() == V1
    (work / LAB).unlink()
    (work / LAB).mkdir()
    course.release(V3)
    assert len(workspace.update(work).files("offered")) == 1
    assert (work / LAB).is_dir()


def test_a_deleted_notebook_comes_back_in_the_new_version(course, work):
    (work / LAB).unlink()
    course.release(V2)
    assert workspace.update(work).files("copied") == [LAB]
    assert tree(work)[LAB] == V2


def test_a_release_that_changed_twice_and_back_is_recognised(course, work):
    for data in (V2, V3, V1):
        course.release(data)
        assert workspace.update(work).files("replaced") == [LAB]
        assert tree(work)[LAB] == data
    assert sorted(backups(work)) == sorted([V1, V2, V3])


def test_an_old_version_brought_back_by_the_learner_is_still_untouched(course, work):
    course.release(V2)
    workspace.update(work)
    (work / LAB).write_bytes(V1)
    course.release(V3)
    assert workspace.update(work).files("replaced") == [LAB]


def test_a_version_is_offered_once(course, work):
    (work / LAB).write_bytes(MINE)
    course.release(V2)
    workspace.update(work)
    (work / NEW).rename(work / LAB)  # taken over ...
    (work / LAB).write_bytes(MINE + b"\n")  # ... and edited
    report = workspace.update(work)
    assert not report.changed
    assert NEW not in tree(work)
    course.release(V3)
    assert workspace.update(work).files("offered") == ["phase1_roofline/phase1_roofline.new-0.3.0.ipynb"]


def test_a_name_in_use_is_left_and_the_next_one_taken(course, work):
    (work / LAB).write_bytes(MINE)
    (work / NEW).write_bytes(b"a note of mine")
    course.release(V2)
    second = NEW.replace(".ipynb", "-2.ipynb")
    assert workspace.update(work).files("offered") == [second]
    assert tree(work)[NEW] == b"a note of mine"
    assert tree(work)[second] == V2


def test_the_same_file_there_already_is_not_offered_twice(course, work):
    (work / LAB).write_bytes(MINE)
    (work / NEW).write_bytes(V2)
    course.release(V2)
    assert workspace.update(work).files("offered") == []
    assert sorted(name for name in tree(work) if name.endswith(".ipynb")) == sorted([LAB, NEW])


@pytest.mark.parametrize(
    "damage",
    [
        None,
        b"",
        b"{",
        b"[]",
        b'{"format": 99, "files": {}}',
        b'{"format": 1, "files": {"a": 3}}',
        b"[" * 10**5,
        b'{"format": 1, "files": {"a": {"handed_out": {"x": "1"}, "seen": []}}}',
        b"\xff",
    ],
)
def test_without_a_sound_manifest_every_file_counts_as_edited(course, work, damage):
    manifest = work / ".course" / "manifest.json"
    manifest.unlink()
    if damage is not None:
        manifest.write_bytes(damage)
    course.release(V2)
    report = workspace.update(work)
    assert report.files("offered") == [NEW]
    assert report.files("replaced") == []
    assert tree(work)[LAB] == V1
    if damage is not None:
        assert [message for message in report.messages if "cannot be read" in message]
        assert damage in [path.read_bytes() for path in (work / ".course").glob("manifest.damaged-*")]


def test_the_manifest_keeps_every_sum_ever_handed_out(course, work):
    for data in (V2, V3):
        course.release(data)
        workspace.update(work)
    manifest = Manifest.from_json(json.loads((work / ".course" / "manifest.json").read_bytes()))
    assert {digest(V1), digest(V2), digest(V3)} == manifest.files[LAB].handed_out.keys()


def test_a_save_in_the_last_moment_is_not_overwritten(course, work, monkeypatch):
    """JupyterLab saves between our look at the file and its replacement."""
    course.release(V2)
    rename = os.rename

    def late(source, target):
        if str(source).endswith(LAB):
            (work / LAB).write_bytes(MINE)
        return rename(source, target)

    monkeypatch.setattr(os, "rename", late)
    assert workspace.update(work).files("offered") == [NEW]
    assert tree(work)[LAB] == MINE


def test_a_save_while_the_name_is_free_is_not_overwritten(course, work, monkeypatch):
    course.release(V2)
    link = os.link

    def late(source, target, **options):
        if str(target).endswith(LAB) and not (work / LAB).exists():
            (work / LAB).write_bytes(MINE)
        return link(source, target, **options)

    monkeypatch.setattr(os, "link", late)
    workspace.update(work)
    assert tree(work)[LAB] == MINE
    assert V1 in backups(work)


def test_a_disk_that_fills_up_in_the_middle_puts_the_old_file_back(course, work, monkeypatch):
    course.release(V2)
    write = workspace_files._write_part

    def full(folder, source):
        if source == V2 and folder.name == "phase1_roofline":
            raise OSError(28, "No space left on device", str(folder))
        return write(folder, source)

    monkeypatch.setattr(workspace_files, "_write_part", full)
    with pytest.raises(workspace.WorkspaceError, match="No space left"):
        workspace.update(work)
    assert tree(work)[LAB] == V1


def test_backups_on_another_disk_mean_beside_not_lost(course, work, monkeypatch):
    course.release(V2)

    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "rename", refuse)
    assert workspace.update(work).files("offered") == [NEW]
    assert tree(work)[LAB] == V1


def test_the_message_names_the_cells_and_the_way_on(course, work):
    (work / LAB).write_bytes(MINE)
    course.release(V2)
    (message,) = [m for m in workspace.update(work).messages if m.startswith(LAB)]
    assert "new cells: ex-1-2, note; changed cells: text" in message  # no heading stands above them
    assert "ex-1-1," not in message.replace("ex-1-2,", "")  # the learner's own change is no news
    assert "copy" in message
    assert "phase1_roofline.new-0.2.0.ipynb" in message


def test_the_message_names_the_cells_of_a_replaced_notebook_too(course, work):
    course.release(V2)
    (message,) = [m for m in workspace.update(work).messages if m.startswith(LAB)]
    assert "It has new cells: ex-1-2, note; changed cells: text" in message


def test_changes_are_told_by_id_type_and_source():
    old = notebook(a="1", b="2", c="3", ex_1="stub")
    new = notebook(a="1", b="two", d="4", ex_1="answer")
    changes = cell_changes(old, new)
    assert (changes.new, changes.changed, changes.removed) == (("d",), ("b", "ex-1"), ("c",))
    assert cell_changes(old, new, answers_too=False).changed == ("b",)
    assert str(cell_changes(old, old)).startswith("the same cells")
    assert cell_changes(b"{", new) is None


def test_the_learners_state_before_the_update_is_in_git(course, work):
    (work / LAB).write_bytes(MINE)
    course.release(V2)
    workspace.update(work)
    log = subprocess.run(["git", "log", "--format=%s"], cwd=work, capture_output=True, text=True).stdout
    assert "Your work before an update" in log.splitlines()


def test_names_beyond_ascii_are_ordinary_names(course, tmp_path):
    phase = "phase1_дах ü 屋根"
    course.release(V1, phase)
    work = workspace.start(tmp_path / "Übung 1").path
    (work / phase / f"{phase}.ipynb").write_bytes(MINE)
    course.release(V2, phase)
    assert workspace.update(work).files("offered") == [f"{phase}/{phase}.new-0.2.0.ipynb"]


def test_an_update_killed_anywhere_loses_nothing_and_is_completed_by_the_next(course, tmp_path, monkeypatch):
    from .test_workspace_start import killed_at

    monkeypatch.setattr(workspace_git.shutil, "which", lambda _: None)  # git is killed in the tests of start
    kills = 0
    for nth in range(1, 100):
        course.release(V1)
        course.release(V1, "phase2_attention")
        work = workspace.start(tmp_path / f"work{nth}").path
        (work / LAB).write_bytes(MINE)
        course.release(V2)
        course.release(V2, "phase2_attention")
        if not killed_at(nth, lambda work=work: workspace.update(work)):
            break
        kills += 1
        second = "phase2_attention/phase2_attention.ipynb"
        assert tree(work)[LAB] == MINE
        assert tree(work).get(second, V1) in (V1, V2)
        assert V1 in [*backups(work), tree(work).get(second)]
        workspace.update(work)
        assert tree(work)[LAB] == MINE
        assert tree(work)[NEW] == V2
        assert tree(work)[second] == V2
    assert kills > 10


def test_a_changed_cell_without_a_name_of_its_own_is_found_by_its_heading():
    def notebook(text):
        cells = [
            {"id": "a", "cell_type": "markdown", "metadata": {}, "source": "# Title\n## 3. Timers"},
            {"id": "b", "cell_type": "markdown", "metadata": {}, "source": text},
            {"id": "c", "cell_type": "code", "metadata": {"nbgrader": {"grade_id": "ex-1-3"}}, "source": text},
        ]
        return json.dumps({"cells": cells}).encode()

    assert str(cell_changes(notebook("old"), notebook("new"))) == "changed cells: one under '3. Timers', ex-1-3"


def cells_under(*headings_and_texts):
    """A notebook: for each heading its cells, with ids made of their text as the course's own are."""
    cells = []
    for heading, texts in headings_and_texts:
        for text in (f"## {heading}", *texts):
            cells.append({"id": f"id of {text}", "cell_type": "markdown", "metadata": {}, "source": text})
    return json.dumps({"cells": cells}).encode()


def test_a_cell_whose_text_changed_is_changed_though_its_id_is_made_of_the_text():
    old = cells_under(("Timers", ["one", "two"]), ("Clocks", ["three"]))
    new = cells_under(("Timers", ["one", "two, reworded", "two and a half"]), ("Clocks", []))
    told = "new cells: one under 'Timers'; changed cells: one under 'Timers'; removed cells: one under 'Clocks'"
    assert str(cell_changes(old, new)) == told


def test_many_new_cells_are_told_in_a_line():
    old = cells_under(("Start", []))
    few = cells_under(("Start", ["a", "b", "c"]), ("End", []))
    assert str(cell_changes(old, few)) == "new cells: 3 under 'Start', one under 'End'"
    many = cells_under(("Start", []), *((f"Section {number}", [f"text {number}"]) for number in range(1, 51)))
    assert str(cell_changes(old, many)) == "new cells: 100 under 50 headings, from 'Section 1' to 'Section 50'"
    named = {"id": "b", "cell_type": "code", "metadata": {"nbgrader": {"grade_id": "ex-1-1"}}, "source": ""}
    with_a_name = json.dumps({"cells": [*json.loads(many)["cells"], named]}).encode()
    told = "new cells: ex-1-1, 100 others under 50 headings, from 'Section 1' to 'Section 50'"
    assert str(cell_changes(old, with_a_name)) == told
