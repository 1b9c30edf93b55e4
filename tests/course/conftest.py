"""What several tests of the learner's copy share."""

import pytest

from course_lib.course import release

from .workspace_helpers import Course


@pytest.fixture
def course(tmp_path, monkeypatch):
    """A small course to hand out; the copies are found by where the commands are called, not by $COURSE_HOME."""
    course = Course(tmp_path / "labs")
    monkeypatch.setattr(release, "labs_dir", lambda: course.labs)
    monkeypatch.delenv("COURSE_HOME", raising=False)
    return course
