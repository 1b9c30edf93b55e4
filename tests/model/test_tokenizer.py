"""The shipped tokenizer gives back every byte string, in one piece and token by token."""

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.model import tokenizer
from course_lib.model.tokenizer import DEFAULT, VOCAB, Tokenizer

SOURCE = Path(tokenizer.__file__)
TOKENIZER = Tokenizer.load()


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))))
@settings(max_examples=300, deadline=None)
def test_any_byte_string_comes_back(content):
    ids = TOKENIZER.encode(content)
    assert TOKENIZER.decode(ids) == content
    assert Tokenizer.END not in ids
    assert all(0 < i < VOCAB for i in ids)
    assert "".join(TOKENIZER.stream(ids)) == TOKENIZER.text(ids) == content.decode("utf-8", errors="replace")


@pytest.mark.parametrize(
    "content",
    [b"", bytes(range(256)), bytes(range(255, -1, -1)), b"\xff", b"\xe2\x82", b"a\xf0\x9f\x98", b"\xed\xa0\x80",
     "é\ufeff\u2028🙂".encode() * 3, b"<|end|>", b"a<|end|>b", b"    \n\n\t\r\n  x", b"\0" * 9],
)  # fmt: skip
def test_awkward_bytes_come_back(content):
    assert TOKENIZER.decode(TOKENIZER.encode(content)) == content


def test_noise_comes_back():
    content = random.Random(0).randbytes(50_000)
    assert TOKENIZER.decode(TOKENIZER.encode(content)) == content


def test_each_single_byte_has_a_token_of_its_own():
    assert sorted(TOKENIZER.pieces[1:257]) == [bytes([byte]) for byte in range(256)]
    assert len(set(TOKENIZER.pieces)) == TOKENIZER.vocab == VOCAB


def test_text_and_its_bytes_have_the_same_ids_and_code_gets_shorter():
    text = "def area(self, width: float) -> float:\n        return self.height * width\n"
    assert TOKENIZER.encode(text) == TOKENIZER.encode(text.encode())
    assert len(TOKENIZER.encode(text)) < len(text) / 3


def test_the_mark_is_an_id_and_never_text():
    assert Tokenizer.END == 0
    assert TOKENIZER.decode([0]) == b""
    assert TOKENIZER.decode([*TOKENIZER.encode("a"), 0, *TOKENIZER.encode("b")]) == b"ab"
    assert len(TOKENIZER.encode("<|end|>")) > 1


def test_a_stream_waits_for_the_rest_of_a_character():
    ids = [TOKENIZER.encode(bytes([byte]))[0] for byte in "é€!".encode()]
    assert list(TOKENIZER.stream(ids)) == ["", "é", "", "", "€", "!"]
    assert list(TOKENIZER.stream(ids[:3])) == ["", "é", "", "\ufffd"]  # what is left at the end


def test_a_stream_gives_each_piece_before_it_asks_for_the_next():
    asked = []

    def ids():
        for i in TOKENIZER.encode("one two"):
            asked.append(i)
            yield i

    stream = TOKENIZER.stream(ids())
    assert next(stream) == TOKENIZER.text(asked)
    assert len(asked) == 1


@pytest.mark.parametrize("wrong", [-1, VOCAB, 10**9])
def test_an_id_out_of_range_is_named(wrong):
    with pytest.raises(ValueError, match=rf"token {wrong} is not in the vocabulary; ids go from 0 to {VOCAB - 1}"):
        TOKENIZER.decode([5, wrong])
    with pytest.raises(ValueError, match="not in the vocabulary"):
        list(TOKENIZER.stream([wrong]))


def test_half_a_surrogate_pair_is_refused_with_its_place():
    with pytest.raises(ValueError, match=r"character 2 is half of a surrogate pair"):
        TOKENIZER.encode("ab\ud800c")


def test_a_missing_file_and_another_tokenizer_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no tokenizer at .*nothing\.json"):
        Tokenizer.load(tmp_path / "nothing.json")
    other = tmp_path / "other.json"
    other.write_text(DEFAULT.read_text().replace("<|end|>", "<|stop|>"))
    with pytest.raises(ValueError, match=r"has <\|end\|> at id None"):
        Tokenizer.load(other)


def test_many_texts_at_once_are_encoded_as_each_alone():
    texts = ["", "x = 1\n", "é🙂<|end|>", "    return None\n"]
    assert TOKENIZER.encode_many(texts) == [TOKENIZER.encode(text) for text in texts]


def test_encoding_writes_nothing_to_stderr_even_before_a_fork():
    """The library warns when a process forks after it has used threads; a notebook's graded cell must stay silent."""
    # the module by its file: the package imports torch, which takes seconds and adds nothing here
    code = (
        f"import os, runpy\nT = runpy.run_path({str(SOURCE)!r})['Tokenizer']\n"
        "t = T.load(); t.encode('def f():' * 100)\n"
        "pid = os.fork()\nt.encode('x' * 100)\nos._exit(0) if pid == 0 else os.waitpid(pid, 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
