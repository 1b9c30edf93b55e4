"""Recorded results are found by name, and by nothing that is no name."""

import pytest

from course_lib.recorded import recorded


def test_a_result_that_is_kept_is_found():
    assert recorded("ridge")["rows"]


def test_one_that_is_not_kept_is_named_with_those_that_are():
    with pytest.raises(FileNotFoundError, match=r"no result nvidia-h200/never is kept.*nvidia-h200/ridge"):
        recorded("never")


NO_NAMES = ["../nvidia-h200/ridge", "/etc/passwd", "", ".", "a/b", "a\0b", "x" * 300, "Ridge", None, 3, "ridge\n"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ValueError, match="names no result"):
        recorded(name)
    with pytest.raises(ValueError, match="names no result"):
        recorded("ridge", name)
