"""The held-out text is the same on every machine with the same Python, and a change is seen."""

import platform

import pytest

from course_lib.model import held_out


def test_every_listed_module_is_read_in_the_lists_order():
    texts = held_out.read()
    assert [text.module for text in texts] == [name for name in held_out.modules() if name in held_out.modules("3.11")]
    assert len(texts) == 46
    assert 0.95e6 < sum(len(text.content) for text in texts) < 1.1e6
    assert all(text.content.count(b"\n") > 20 for text in texts)


def test_this_pythons_text_is_the_recorded_one():
    recorded = held_out.known_texts().get(platform.python_version())
    if recorded is None:
        pytest.skip(f"held_out.txt records {', '.join(held_out.known_texts())}, this is {platform.python_version()}")
    assert held_out.digest(held_out.read()) == recorded


def test_one_changed_byte_changes_the_digest():
    texts = held_out.read()
    changed = (*texts[:-1], held_out.HeldOutText(texts[-1].module, texts[-1].content + b"\n"))
    assert held_out.digest(changed) != held_out.digest(texts)


def test_the_list_says_which_python_has_which_module(tmp_path, monkeypatch):
    listed = tmp_path / "held_out.txt"
    listed.write_text("# head\ntext 3.11.7 2 9 abc\nmodule a.b 3.11 3.12\nmodule c 3.11\n")
    monkeypatch.setattr(held_out, "LIST", listed)
    assert held_out.modules() == ("a.b", "c")
    assert held_out.modules("3.12") == ("a.b",)
    assert held_out.known_texts() == {"3.11.7": "abc"}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_bytes(b"x = 1\r\n")
    with pytest.raises(FileNotFoundError, match=r"held-out module c is not at .*c\.py"):
        held_out.read(tmp_path)
    (tmp_path / "c.py").write_bytes(b"\n")
    assert held_out.read(tmp_path) == (held_out.HeldOutText("a.b", b"x = 1\r\n"), held_out.HeldOutText("c", b"\n"))
