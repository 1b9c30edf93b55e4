"""No sequence of start, update, export and import ever loses bytes that a learner wrote."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from course_lib.course import release, workspace, workspace_import, workspace_manifest
from course_lib.course.workspace_archive import export_copy

from .workspace_helpers import Course, notebook, tree

PHASES = st.sampled_from(["phase1_roofline", "phase2_attention"])
COPIES = st.sampled_from(["first", "second"])


class Learner(RuleBasedStateMachine):
    """Two copies, a course that changes, and a learner who does what they like between commands."""

    def __init__(self):
        super().__init__()
        self.home = Path(tempfile.mkdtemp())
        self.patch = pytest.MonkeyPatch()
        course = self.course = Course(self.home / "labs")
        self.patch.setattr(release, "labs_dir", lambda: course.labs)
        for module in (workspace, workspace_import):  # git is not what keeps the bytes
            self.patch.setattr(module, "snapshot", lambda *_: None)
        self.patch.setattr(os, "fsync", lambda _: None)
        self.handed_out = {path.read_bytes() for path in workspace.TEMPLATE.iterdir()}
        self.count = 0
        self.archives: list[tuple[Path, dict[str, bytes]]] = []
        self.publish("phase1_roofline")

    def teardown(self):
        self.patch.undo()
        shutil.rmtree(self.home)

    def copy(self, name: str) -> Path:
        return self.home / name

    def notebooks(self, name: str) -> list[Path]:
        return sorted(self.copy(name).glob("phase*/*")) if self.copy(name).exists() else []

    @rule(phase=PHASES)
    def publish(self, phase):
        self.count += 1
        data = notebook(f"0.{self.count}", text=str(self.count))
        self.handed_out.add(data)
        self.course.release(data, phase)

    @rule(name=COPIES, which=st.integers(0, 9), clock=st.sampled_from([0, 4_000_000_000]))
    def edit(self, name, which, clock):
        if found := self.notebooks(name):
            path = found[which % len(found)]
            self.count += 1
            path.write_bytes(notebook("0.1", mine=str(self.count)))
            os.utime(path, (clock, clock))

    @rule(name=COPIES, which=st.integers(0, 9), back=st.booleans())
    def move(self, name, which, back):
        """The learner takes an offered file over, or puts their own out of the way."""
        if found := self.notebooks(name):
            path = found[which % len(found)]
            target = path.parent / (f"{path.parent.name}.ipynb" if back else "aside.ipynb")
            if not target.exists():
                path.rename(target)

    @rule(name=COPIES, which=st.integers(0, 9))
    def restore(self, name, which):
        """The learner throws their file away and puts an old release in its place."""
        if found := self.notebooks(name):
            notebooks = sorted(data for data in self.handed_out if data.startswith(b"{"))
            found[which % len(found)].write_bytes(notebooks[which % len(notebooks)])

    @rule(name=COPIES, damage=st.sampled_from([None, b"{"]))
    def damage(self, name, damage):
        manifest = self.copy(name) / ".course" / "manifest.json"
        manifest.unlink(missing_ok=True)
        if damage is not None and manifest.parent.exists():
            manifest.write_bytes(damage)

    @rule(name=COPIES)
    def start(self, name):
        self.command(name, lambda: workspace.start(self.copy(name)))

    @rule(name=COPIES)
    def update(self, name):
        if self.copy(name).exists():
            self.command(name, lambda: workspace.update(self.copy(name)))

    @rule(name=COPIES)
    def export(self, name):
        if self.copy(name).exists():
            target = self.home / f"{len(self.archives)}.zip"
            self.command(name, lambda: export_copy(self.copy(name), target))
            self.archives.append((target, tree(self.copy(name))))

    @rule(name=COPIES, which=st.integers(0, 9))
    def import_(self, name, which):
        if self.archives:
            archive, files = self.archives[which % len(self.archives)]
            self.command(name, lambda: workspace.import_(archive, self.copy(name)))
            arrived = set(tree(self.copy(name)).values())
            lost = [path for path, data in files.items() if data not in self.handed_out and data not in arrived]
            assert not lost, f"{lost} of the archive did not arrive"

    def command(self, name, run):
        work = self.copy(name)
        before = tree(work)
        run()
        after, kept = tree(work), set(tree(work, with_state=True).values())
        for path, data in before.items():
            if data not in self.handed_out:
                assert after.get(path) == data, f"{path} was the learner's"
            else:
                assert after.get(path) == data or data in kept, f"{path} was replaced without a backup"


CALM = settings(max_examples=150, stateful_step_count=16, deadline=None)
FIRST_FAULT = settings(CALM, max_examples=500, phases=[Phase.generate], report_multiple_bugs=False, print_blob=False)


def test_no_sequence_of_commands_loses_what_a_learner_wrote():
    run_state_machine_as_test(Learner, settings=CALM)


def test_the_property_finds_a_manifest_that_takes_every_file_for_untouched(monkeypatch):
    monkeypatch.setattr(workspace_manifest.Manifest, "was_handed_out", lambda *_: True)
    with pytest.raises(AssertionError, match=r"was the learner's|did not arrive"):
        run_state_machine_as_test(Learner, settings=FIRST_FAULT)
