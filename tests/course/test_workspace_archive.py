"""`labs export` and `labs import`: all of it arrives, what is there stays, no archive does harm."""

import io
import json
import os
import stat
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib.course import (
    progress,
    release,
    workspace,
    workspace_archive,
    workspace_archive_check,
    workspace_files,
)
from course_lib.course.environment import environment
from course_lib.course.workspace import WorkspaceError

from .workspace_helpers import LAB, MINE, V1, V2, Course, backups, notebook, started, tree

EVENT = {
    "uuid": "6f1c0f0e-0000-4000-8000-000000000001", "at": "2026-11-29T12:00:00.000000Z", "exercise": "1.1",
    "cell": "check", "source": "live", "score": 2.0, "max_points": 4.0, "waiting_points": 0.0,
    "state": "partial", "best_ratio": None, "device": "CPU", "course_version": "0.1.0", "verdict": None,
}  # fmt: skip
OTHER = notebook("0.1.0", ex_1_1="answer = 43")


@pytest.fixture
def course(tmp_path, monkeypatch):
    course = Course(tmp_path / "labs")
    monkeypatch.setattr(release, "labs_dir", lambda: course.labs)
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "nowhere"))
    return course


@pytest.fixture
def work(course, tmp_path):
    """A copy with an edited notebook, files of the learner's and one progress event."""
    work = started(course, tmp_path / "work")
    (work / LAB).write_bytes(MINE)
    (work / "notes ü 屋根").mkdir()
    (work / "notes ü 屋根" / "a.md").write_bytes(b"a\r\nb\n")
    (work / "empty.py").write_bytes(b"")
    with environment({"COURSE_HOME": str(work)}):
        assert progress.merge_events([EVENT]) == 1
    return work


@pytest.fixture
def archive(work, tmp_path):
    workspace.export(tmp_path / "my.zip", work)
    return tmp_path / "my.zip"


def events(work):
    with environment({"COURSE_HOME": str(work)}):
        return progress.export_events()


def test_what_was_exported_arrives_on_a_new_machine(work, archive, tmp_path):
    report = workspace.import_(archive, tmp_path / "new")
    there = tmp_path / "new"
    assert tree(there) == tree(work)
    assert events(there) == events(work) != []
    assert report.events == 1
    assert report.files("replaced") == [LAB]
    assert V1 in backups(there)
    again = workspace.import_(archive, there)
    assert (again.changed, again.events) == (False, 0)
    assert tree(there) == tree(work)


def test_the_report_tells_sizes_and_the_archive_is_the_same_each_time(work, archive, tmp_path):
    os.utime(work / LAB, (0, 0))
    report = workspace.export(tmp_path / "again.zip", work)
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()
    assert {item.file: item.size_bytes for item in report.items}[LAB] == len(MINE)
    assert report.events == 1
    assert "bytes" in report.messages[-1] or "KiB" in report.messages[-1]
    with zipfile.ZipFile(archive) as opened:
        assert opened.testzip() is None
        assert {info.date_time for info in opened.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_an_export_holds_only_what_is_the_learners(work, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (work / "link").symlink_to(tmp_path / "secret")
    (work / "folder").symlink_to(tmp_path)
    for name in (".ipynb_checkpoints", "phase1_roofline/__pycache__", ".venv"):
        (work / name).mkdir()
        (work / name / "x").write_text("x")
    os.mkfifo(work / "pipe")
    (work / os.fsdecode(b"bad\xff.txt")).write_text("x")
    workspace.export(work / "first.zip", work)
    report = workspace.export(tmp_path / "out.zip", work)
    names = {name for name in zipfile.ZipFile(tmp_path / "out.zip").namelist() if name.startswith("files/")}
    expected = {LAB, "notes ü 屋根/a.md", "empty.py", "README.md", "AGENTS.md", ".gitignore"}
    assert names == {f"files/{name}" for name in expected}
    assert report.files("left out") == ["bad\\udcff.txt", "first.zip", "folder", "link", "pipe"]
    assert sum("left out" in message for message in report.messages) == 5


@pytest.mark.parametrize("limit", ["MAX_FILES", "MAX_TOTAL_BYTES"])
def test_a_copy_too_large_for_an_archive_is_refused_with_numbers(work, tmp_path, monkeypatch, limit):
    monkeypatch.setattr(workspace_archive, limit, 3)
    with pytest.raises(WorkspaceError, match=r"3 (files|bytes).*[Mm]ove"):
        workspace.export(tmp_path / "out.zip", work)
    assert not (tmp_path / "out.zip").exists()


def test_a_huge_file_is_left_out_and_named(work, tmp_path, monkeypatch):
    monkeypatch.setattr(workspace_archive, "MAX_FILE_BYTES", 10_000)
    (work / "weights.bin").write_bytes(bytes(10_001))
    report = workspace.export(tmp_path / "out.zip", work)
    assert report.files("left out") == ["weights.bin"]
    assert workspace.import_(tmp_path / "out.zip", tmp_path / "new").files("replaced") == [LAB]


def test_an_export_overwrites_nothing(work, archive, tmp_path, monkeypatch):
    before = archive.read_bytes()
    with pytest.raises(WorkspaceError, match="not overwritten"):
        workspace.export(archive, work)
    (tmp_path / "dangling.zip").symlink_to(tmp_path / "gone")
    for target, message in [
        ("dangling.zip", "not overwritten"),
        ("no/such/a.zip", "no folder"),
        ("work", "not overwritten"),
    ]:
        with pytest.raises(WorkspaceError, match=message):
            workspace.export(tmp_path / target, work)
    link = os.link

    def late(source, target, **options):
        (tmp_path / "late.zip").write_bytes(b"somebody else's")
        return link(source, target, **options)

    monkeypatch.setattr(os, "link", late)
    with pytest.raises(WorkspaceError, match="not overwritten"):
        workspace.export(tmp_path / "late.zip", work)
    assert (tmp_path / "late.zip").read_bytes() == b"somebody else's"
    assert archive.read_bytes() == before


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_an_export_that_fails_leaves_no_part_of_a_file(work, tmp_path, monkeypatch, error):
    def fail(*_):
        raise error

    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(zipfile.ZipFile, "writestr", fail)
    with pytest.raises((WorkspaceError, KeyboardInterrupt)):
        workspace.export(tmp_path / "out.zip", work)
    assert sorted(tmp_path.iterdir()) == before


def test_progress_that_cannot_be_read_stops_the_export(work, tmp_path, monkeypatch):
    def fail():
        raise RuntimeError("newer schema")

    monkeypatch.setattr(progress, "export_events", fail)
    with pytest.raises(WorkspaceError, match="newer schema"):
        workspace.export(tmp_path / "out.zip", work)


def test_files_with_other_content_come_beside_and_are_numbered(work, archive, tmp_path):
    there = workspace.start(tmp_path / "new").path
    (there / LAB).write_bytes(OTHER)
    (there / "empty.py").write_bytes(b"mine")
    (there / "empty.imported-1.py").write_bytes(b"mine as well")
    before = tree(there)
    report = workspace.import_(archive, there)
    first = LAB.replace(".ipynb", ".imported-1.ipynb")
    assert sorted(report.files("beside")) == ["empty.imported-2.py", first]
    assert before.items() <= tree(there).items()
    assert tree(there)[first] == MINE
    assert not workspace.import_(archive, there).changed


def test_an_untouched_lab_in_the_archive_never_replaces_or_clutters(course, tmp_path):
    started(course, tmp_path / "old")
    workspace.export(tmp_path / "old.zip", tmp_path / "old")
    there = started(course, tmp_path / "new", V2)
    report = workspace.import_(tmp_path / "old.zip", there)
    assert not report.changed
    assert tree(there)[LAB] == V2


def test_after_an_import_into_a_newer_course_the_new_version_is_offered(course, archive, tmp_path):
    course.release(V2)
    report = workspace.import_(archive, tmp_path / "new")
    assert tree(tmp_path / "new")[LAB] == MINE
    assert [message for message in report.messages if "labs update" in message]
    report = workspace.update(tmp_path / "new")
    assert report.files("offered") == ["phase1_roofline/phase1_roofline.new-0.2.0.ipynb"]
    (message,) = [message for message in report.messages if "changed cells: text" in message]
    assert "Compared with yours" not in message  # it knows the version that the file was made from


def test_progress_is_merged_once(work, archive, tmp_path):
    there = workspace.start(tmp_path / "new").path
    with environment({"COURSE_HOME": str(there)}):
        progress.merge_events([EVENT | {"uuid": "6f1c0f0e-0000-4000-8000-000000000002"}])
    assert [workspace.import_(archive, there).events for _ in range(2)] == [1, 0]
    assert len(events(there)) == 2


def made(path, files, header=None, members=()):
    """An archive as a stranger might make it."""
    header = {"format": 1, "course_version": "0.1.0"} if header is None else header
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("course-export.json", header if isinstance(header, str) else json.dumps(header))
        for name, data in files.items():
            archive.writestr(f"files/{name}" if isinstance(name, str) else name, data)
        for name, data in members:
            archive.writestr(name, data)
    return path


def linked(name, target):
    info = zipfile.ZipInfo(f"files/{name}")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target


def refused(archive, work, match):
    """The archive is refused, and all is as it was; into a new place nothing is made."""
    outside = work.parent
    before = tree(outside, with_state=True)
    with pytest.raises(WorkspaceError, match=match) as caught:
        workspace.import_(archive, work)
    with pytest.raises(WorkspaceError, match=match):
        workspace.import_(archive, outside / "new place")
    assert tree(outside, with_state=True) == before
    return str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "a/../../evil",
        "/evil",
        "a//b",
        "./a",
        "C:evil",
        "a\\..\\evil",
        ".git/hooks/post-commit",
        ".GIT/config",
        ".course/manifest.json",
        "a/.git/config",
        ".git./config",
        "x" * 300,
        "a\x01b",
        "__pycache__/torch.pyc",
    ],
)
def test_names_that_leave_the_copy_or_are_not_the_learners_are_refused(work, tmp_path, name):
    message = refused(made(tmp_path / "bad.zip", {name: "x"}), work, "Nothing was imported")
    assert repr(name)[1:20] in message


def test_links_and_other_strange_members_are_refused(work, tmp_path):
    refused(made(tmp_path / "a.zip", dict([linked("link", "/etc/passwd")])), work, "'files/link' is a link")
    refused(made(tmp_path / "b.zip", {"a": "x", "a/b": "y"}), work, "both a file and a folder")
    refused(made(tmp_path / "c.zip", {}, members=[("setup.py", "x")]), work, "'setup.py' has no meaning")
    with pytest.warns(UserWarning, match="Duplicate"):
        made(tmp_path / "d.zip", {}, members=[("files/a", "x"), ("files/a", "y")])
    refused(tmp_path / "d.zip", work, "is in it 2 times")
    with zipfile.ZipFile(tmp_path / "e.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("course-export.json", "{}")
    refused(tmp_path / "e.zip", work, "method that is not used")


def test_a_zip_bomb_is_refused_with_the_limit_before_it_is_unpacked(work, tmp_path, monkeypatch):
    made(tmp_path / "bomb.zip", {"a": bytes(3_000_000)})
    assert (tmp_path / "bomb.zip").stat().st_size < 10_000
    monkeypatch.setattr(workspace_archive, "MAX_FILE_BYTES", 2 * 1024**2)
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was unpacked"))
    refused(tmp_path / "bomb.zip", work, r"'files/a' is 2\.9 MiB unpacked, the limit is 2\.0 MiB")
    monkeypatch.setattr(workspace_archive, "MAX_FILE_BYTES", 1024**3)
    monkeypatch.setattr(workspace_archive, "MAX_DATA_BYTES", 1000)
    monkeypatch.setattr(workspace_archive, "MAX_TOTAL_BYTES", 1024**2)
    refused(tmp_path / "bomb.zip", work, r"the limit is 1\.0 MiB")


def test_too_many_files_are_refused_with_the_limit(work, tmp_path, monkeypatch):
    monkeypatch.setattr(workspace_archive, "MAX_FILES", 10)
    monkeypatch.setattr(workspace_archive_check, "OTHER_MEMBERS", 0)
    refused(made(tmp_path / "many.zip", {str(n): "" for n in range(20)}), work, "21 files, the limit is 10")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"format": 2, "course_version": "9.9"}, r"format 2, .*up to format 1.*9\.9"),
        ({}, "format None"),
        ("[", "no JSON"),
        ("[" * 10**5, "no JSON"),
        ('{"format": true}', "format True"),
        ("[1]", "format None"),
    ],
)
def test_another_format_is_refused_with_the_next_step(work, tmp_path, header, message):
    refused(made(tmp_path / "x.zip", {"a": "x"}, header), work, message)


@pytest.mark.parametrize(
    ("member", "data"),
    [
        ("progress.json", "{"),
        ("progress.json", "{}"),
        ("progress.json", "[1]"),
        ("manifest.json", "{}"),
        ("manifest.json", "[" * 10**5),
    ],
)
def test_damaged_data_in_an_archive_is_refused(work, tmp_path, member, data):
    refused(made(tmp_path / "x.zip", {"a": "x"}, members=[(member, data)]), work, member)


def test_what_is_no_archive_is_refused(work, archive, tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "empty.zip").write_bytes(b"")
    (tmp_path / "half.zip").write_bytes(archive.read_bytes()[: archive.stat().st_size // 2])
    for name in ("a.txt", "empty.zip", "half.zip"):
        refused(tmp_path / name, work, "no whole archive")
    refused(tmp_path / "gone.zip", work, r"gone\.zip does not exist")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("a", "b")
    refused(tmp_path / "other.zip", work, "no course-export.json in it")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_archive_is_refused_or_whole_and_never_a_traceback(archive, tmp_path_factory, data):
    whole = archive.read_bytes()
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("damaged") / "damaged.zip"
    path.write_bytes(damaged)
    try:
        with zipfile.ZipFile(io.BytesIO(bytes(damaged))) as opened:
            contents = workspace_archive_check.checked(opened, path)
    except (WorkspaceError, *workspace_archive_check.BROKEN):
        return
    with zipfile.ZipFile(io.BytesIO(bytes(damaged))) as opened, zipfile.ZipFile(archive) as sound:
        for name in contents.files:
            if f"files/{name}" in sound.namelist():
                assert opened.read(f"files/{name}") == sound.read(f"files/{name}")


def test_an_archive_cannot_declare_an_edited_file_here_untouched(work, tmp_path):
    claim = {"format": 1, "files": {LAB: {"handed_out": {workspace_files.digest(MINE): "0.1.0"}, "seen": []}}}
    bad = made(tmp_path / "x.zip", {LAB: OTHER}, members=[("manifest.json", json.dumps(claim))])
    assert workspace.import_(bad, work).files("beside") == [LAB.replace(".ipynb", ".imported-1.ipynb")]
    assert tree(work)[LAB] == MINE
    workspace.update(work)
    assert tree(work)[LAB] == MINE


def test_a_link_on_the_way_leads_nowhere(work, archive, tmp_path):
    there = workspace.start(tmp_path / "new").path
    (tmp_path / "outside").mkdir()
    (there / "notes ü 屋根").symlink_to(tmp_path / "outside")
    before = tree(tmp_path)
    with pytest.raises(WorkspaceError, match="is a link here and a folder in the archive"):
        workspace.import_(archive, there)
    assert tree(tmp_path) == before
    assert list((tmp_path / "outside").iterdir()) == []
