"""Which files are worth learning from: rules on the path and on the content, each with a name that the report counts.

Every rule answers for one file alone; duplicates.py and held_out.py compare files. The limits were chosen on the sources of
sources.toml by looking at what each dropped, so that tables, fixtures and machine-written code go and hand-written code stays.
"""

import re

VENDORED = re.compile(r"(^|/)(_?vendor(ed)?[^/]*|third_?party|_?extern(al|als)?|bundled|node_modules|typeshed)/")
DATA_PATH = re.compile(
    r"(^|/)(site-packages|encodings|locales?|locale-data|migrations|lib2to3/tests/data|idlelib/Icons|__pycache__|config-[^/]*)/"
    r"|(^|/)[^/]*\.dist-info/|_pb2(_grpc)?\.pyi?$"
    r"|(^|/)(unicodedata|_?tables?|codata|html5?_entities|_sysconfigdata[^/]*|_emoji_codes)\.py$"
)
GENERATED = re.compile(
    rb"(?i)do not (manually )?(edit|modify)|auto-?(matically )?generated|machine[- ]generated"
    rb"|(code|file|module|stub)s? (is|was|has been) generated"
    rb"|^\W{0,4}generated (by|from|using)|@generated",
    re.M,
)
BLOB = re.compile(rb"[A-Za-z0-9+/=]{240}|(\\x[0-9a-fA-F]{2}){60}|(0x[0-9a-fA-F]+,\s*){80}")
SMALLEST_BYTES, LARGEST_BYTES = 120, 400_000
LONGEST_LINE_BYTES, LONGEST_MEAN_LINE_BYTES = 1_000, 90
MOST_DIGITS, MOST_NON_ASCII = 0.18, 0.10
GENERATED_HEAD_BYTES = 1_500


def drop_path(path: str) -> str:
    """Why this path is not read ("vendored", "data path"), or ""."""
    if VENDORED.search(path):
        return "vendored"
    return "data path" if DATA_PATH.search(path) else ""


def drop_content(content: bytes) -> str:
    """Why this text is not learned from, or "". The cheap rules come first."""
    size = len(content)
    if size < SMALLEST_BYTES:
        return "too short"
    if size > LARGEST_BYTES:
        return "too long"
    try:
        content.decode("utf-8")
    except UnicodeDecodeError:
        return "not UTF-8"
    if b"\0" in content:
        return "not text"
    if GENERATED.search(content[:GENERATED_HEAD_BYTES]):
        return "generated"
    # translate with a delete table counts bytes at C speed
    if 1 - len(content.translate(None, b"0123456789")) / size > MOST_DIGITS:
        return "digits"
    if len(content.translate(None, bytes(range(128)))) / size > MOST_NON_ASCII:
        return "non-ASCII"
    lines = content.split(b"\n")
    if max(map(len, lines)) > LONGEST_LINE_BYTES:
        return "long lines"
    if size / len(lines) > LONGEST_MEAN_LINE_BYTES and not _is_prose(content):
        return "mean line"
    return "blob" if BLOB.search(content) else ""


def normalised(content: bytes) -> bytes:
    """Unix newlines, no byte-order mark, no spaces at the end of lines, one newline at the end."""
    content = content.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return re.sub(rb"[ \t]+(?=\n)", b"", content).strip(b"\n") + b"\n"


def kind_of(path: str) -> str:
    """ "prose", "test" or "code": what the report counts by, and prose is repeated (shards.py)."""
    if path.endswith((".md", ".rst", ".txt")):
        return "prose"
    return "test" if re.search(r"(^|/)(tests?|testing)/|(^|/)(test_[^/]*|[^/]*_tests?|conftest)\.py$", path) else "code"


def _is_prose(content: bytes) -> bool:
    """Text written one paragraph a line: most words are plain letters."""
    words = content.split()
    return sum(word.isalpha() for word in words) > 0.6 * len(words)
