"""Made-up archives go through fetching, preparing, encoding and packing; the packed tokens give the text back."""

import hashlib
import io
import json
import lzma
import re
import tarfile
import zipfile

import numpy as np
import pytest

from course_lib.model import held_out
from course_lib.model.tokenizer import VOCAB, Tokenizer
from tools.corpus import archives, encode, fetch, manifest, prepare, shards, sources, stages, train_tokenizer
from tools.corpus.held_out import HeldOut
from tools.corpus.sources import Source

METADATA = "Metadata-Version: 2.1\nName: tiny\nLicense-Expression: {}\n\nText\n"


def module(number: int) -> bytes:
    body = "".join(f"def step_{number}_{i}(first_value):\n    return first_value + {number} * {i}\n\n\n" for i in range(6))
    return f'"""Module number {number}: prints words."""\n\n\n{body}'.encode()


def wheel(path, licence="MIT", files=None):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in (files or {}).items():
            file.writestr(name, content)
        file.writestr("tiny-1.0.dist-info/METADATA", METADATA.format(licence))
        file.writestr("tiny-1.0.dist-info/licenses/LICENSE", "MIT License\n\nCopyright (c) 2020 Ada Writer\n\nPermission ...\n")
        file.writestr("tiny/tool.so", b"\x7fELF")
    return path


@pytest.fixture
def made(tmp_path):
    """One wheel with ten modules, a copy, a test, a vendored file, a guide; and what prepare() makes of it."""
    files = {f"tiny/m{i}.py": module(i) for i in range(10)}
    files |= {"tiny/copy.py": module(3), "tiny/_vendor/six.py": module(50), "tiny/test_m.py": module(60)}
    files["tiny/guide.md"] = b"# Guide\n\nThis is how the steps are used, one after the other, with care and with patience.\n" * 2
    source = Source("tiny", "1.0", "wheel", "MIT", "test")
    found = {"tiny": wheel(tmp_path / "tiny-1.0.whl", files=files)}
    prepare.prepare([source], found, HeldOut([module(7)], ["x"]), tmp_path)
    return tmp_path, source, found


def test_what_is_kept_and_why_the_rest_is_not(made):
    build, _, _ = made
    kept = {d.path: d for d in prepare.documents(build)}
    modules = {f"tiny/m{i}.py" for i in range(10) if i not in (3, 7)}
    assert kept.keys() == modules | {"tiny/copy.py", "tiny/guide.md", "tiny/test_m.py"}
    texts = dict(zip(kept, prepare.contents(build, list(kept.values())), strict=True))
    assert texts["tiny/m4.py"].rstrip() == module(4).rstrip()
    assert all(hashlib.sha256(texts[path]).hexdigest() == d.sha256 for path, d in kept.items())
    assert [kept[f"tiny/{name}"].kind for name in ("m1.py", "test_m.py", "guide.md")] == ["code", "test", "prose"]
    reasons = {line.split("\t")[3]: line.split("\t")[0] for line in (build / prepare.DROPPED).read_text().splitlines()}
    assert reasons == {"tiny/m3.py": "exact duplicate", "tiny/m7.py": "copy of held out", "tiny/_vendor/six.py": "vendored"}
    assert prepare.sums(build)["dropped"]["vendored"] == [1, len(module(50))]


def test_a_package_with_a_refused_licence_stops_everything(tmp_path):
    found = {"tiny": wheel(tmp_path / "a.whl", "GPL-2.0", {"tiny/a.py": module(1)})}
    with pytest.raises(ValueError, match=r"tiny-1\.0 may not be used: its metadata names GPL"):
        prepare.prepare([Source("tiny", "1.0", "wheel", "MIT", "test")], found, HeldOut([b""], ["x"]), tmp_path)


def test_an_sdist_is_read_without_its_top_folder(tmp_path):
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        members = {"a-1/b.py": b"x = 1\n", "a-1/docs/c.txt": b"words", "a-1/data.txt": b"1", "a-1/PKG-INFO": b"Name: a"}
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            file.addfile(info, io.BytesIO(content))
    source = Source("a", "1", "sdist", "MIT", "test")
    assert list(archives.documents(source, path)) == [("b.py", b"x = 1\n"), ("docs/c.txt", b"words")]
    assert archives.metadata(source, path) == "Name: a"


@pytest.fixture
def tokenized(made):
    """The tokenizer is the course's own where it is shipped: training 4096 entries needs more text than a test has."""
    build, _, _ = made
    (build / "shards").mkdir()
    from course_lib.model.tokenizer import DEFAULT

    (build / "shards" / "tokenizer.json").write_bytes(DEFAULT.read_bytes())
    encode.run(build)
    return build


def test_packed_tokens_give_back_every_document_and_prose_twice(tokenized, monkeypatch):
    monkeypatch.setattr(shards, "SHARD_TOKENS", 500)  # so that there are several
    aside = (held_out.HeldOutText("x", module(7)),)
    shards.run(tokenized, aside)
    folder = tokenized / "shards"
    description = json.loads((folder / "shards.json").read_text())
    assert len(description["shards"]) > 1
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    found = []
    for row in description["shards"]:
        ids = shards.read_shard(folder / row["file"])
        with lzma.open(folder / row["file"]) as file:  # as README.md promises it to whoever reads the file without us
            assert ids.tolist() == np.frombuffer(file.read(), dtype="<u2").tolist()
        assert max(ids) < tokenizer.vocab
        assert ids[-1] == Tokenizer.END
        found += [tokenizer.decode(map(int, part)) for part in split(ids)]
    kept = prepare.documents(tokenized)
    texts = [*prepare.contents(tokenized, kept), *prepare.contents(tokenized, [d for d in kept if d.kind == "prose"])]
    assert sorted(found) == sorted(texts)
    assert tokenizer.decode(map(int, shards.read_shard(folder / "held_out.xz"))) == module(7)
    aside_tokens = description["held_out"]["tokens"] - 1
    assert description["held_out"]["modules"] == [{"module": "x", "bytes": len(module(7)), "tokens": aside_tokens}]
    first = [(folder / row["file"]).read_bytes() for row in description["shards"]]
    shards.run(tokenized, aside)
    assert first == [(folder / row["file"]).read_bytes() for row in description["shards"]]  # the same every time


def split(ids):
    ends = [i for i, token in enumerate(ids) if token == Tokenizer.END]
    return [ids[a + 1 : b] for a, b in zip([-1, *ends], ends, strict=False)]


def test_a_budget_keeps_the_prose_and_a_fixed_choice_of_the_rest(made):
    kept = prepare.documents(made[0])
    half = sum(d.bytes for d in kept) // 2
    some = encode.chosen(kept, half)
    assert half - 1000 < sum(d.bytes for d in some) <= half
    assert {d.path for d in kept if d.kind == "prose"} <= {d.path for d in some}
    assert some == encode.chosen(kept[::-1], half) == sorted(some, key=lambda d: d.start)
    assert encode.chosen(kept, 10**9) == kept


def test_a_torn_token_file_is_noticed(tokenized):
    path = tokenized / encode.TOKENS
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(AssertionError, match="encode again"):
        encode.encoded(tokenized)


def test_a_damaged_shard_is_noticed(tokenized):
    shards.run(tokenized, (held_out.HeldOutText("x", module(7)),))
    path = tokenized / "shards" / "shards.json"
    path.write_text(re.sub(r'"tokens": \d+', '"tokens": 5', path.read_text()))
    with pytest.raises(AssertionError, match=r"train-00\.xz unpacks to"):
        shards.check(tokenized / "shards")


def test_shards_beyond_the_limit_are_refused(tokenized, monkeypatch):
    shards.run(tokenized, (held_out.HeldOutText("x", module(7)),))
    packed = sum(path.stat().st_size for path in (tokenized / "shards").glob("*.xz"))
    monkeypatch.setattr(shards, "LIMIT_BYTES", packed)
    shards.check(tokenized / "shards")
    monkeypatch.setattr(shards, "LIMIT_BYTES", packed - 1)
    with pytest.raises(AssertionError, match="the shards take"):
        shards.check(tokenized / "shards")
    monkeypatch.setattr(shards, "LIMIT_BYTES", 100)
    with pytest.raises(RuntimeError, match="lower BUDGET_BYTES"):
        shards.run(tokenized, (held_out.HeldOutText("x", module(7)),))


def test_the_same_text_gives_the_same_tokenizer_with_the_mark_at_0():
    texts = [module(i).decode() for i in range(20)]
    first, second = train_tokenizer.train(texts, 300), train_tokenizer.train(texts, 300)
    assert first.to_str() == second.to_str()
    assert first.token_to_id("<|end|>") == 0
    assert Tokenizer(first).decode(Tokenizer(first).encode("def step")) == b"def step"
    with pytest.raises(ValueError, match=rf"not {VOCAB}; train on more text"):
        train_tokenizer.train(texts[:1])


def test_the_sample_is_random_but_fixed_and_as_large_as_asked(made):
    kept = prepare.documents(made[0])
    some = train_tokenizer.sample(kept, kept[0].bytes * 3)
    assert some == train_tokenizer.sample(kept[::-1], kept[0].bytes * 3)
    assert 3 <= len(some) < len(kept)


def test_the_manifest_names_every_archive_and_the_notice_its_copyright(made):
    build, source, found = made
    manifest.run(build, [source], found)
    header, row = [line.split("\t") for line in (build / "release" / "manifest.tsv").read_text().splitlines()]
    entry = dict(zip(header, row, strict=True))
    assert (entry["package"], entry["licence"], entry["files"]) == ("tiny", "MIT", str(len(prepare.documents(build))))
    assert entry["archive_sha256"] == hashlib.sha256(found["tiny"].read_bytes()).hexdigest()
    notice = (build / "release" / "NOTICE").read_text()
    assert "tiny 1.0  MIT\n  Copyright (c) 2020 Ada Writer\n" in notice
    assert "Permission" not in notice
    with zipfile.ZipFile(found["tiny"], "a") as file:
        file.writestr("tiny-1.0.dist-info/licenses/NOTICE", "Tiny\nCopyright 2019 Bo Writer\n")
    manifest.run(build, [source], found)
    notice = (build / "release" / "NOTICE").read_text()
    assert "tiny 1.0  MIT\n  Copyright (c) 2020 Ada Writer\n  Copyright 2019 Bo Writer\n" in notice
    with zipfile.ZipFile(found["tiny"], "w") as file:
        file.writestr("tiny-1.0.dist-info/licenses/LICENSE", "Apache License\n\nCopyright [yyyy] [name of copyright owner]\n")
    manifest.run(build, [source], found)
    assert "tiny 1.0  MIT\n  (its licence files state no copyright line)\n" in (build / "release" / "NOTICE").read_text()
    assert manifest.copyright_lines(['keep the notice "Copyright (c)\n2012- A Team; All Rights Reserved" in it']) == [
        "Copyright (c) 2012- A Team; All Rights Reserved"
    ]
    assert manifest.copyright_lines(["Copyright 2020 A\nThis also bundles B\nCopyright 2019 B"]) == ["Copyright 2020 A"]


def test_a_stage_runs_once_and_again_when_something_changed(tmp_path):
    runs = []

    def work():
        runs.append(1)
        (tmp_path / "out").write_text("done")

    for key in ("a", "a", "b"):
        stages.run_stage(tmp_path, "step", key, ["out"], work)
    assert len(runs) == 2
    (tmp_path / "out").write_text("torn")
    (tmp_path / "out").write_text("longer than it was")
    stages.run_stage(tmp_path, "step", "b", ["out"], work)
    assert len(runs) == 3
    with pytest.raises(ZeroDivisionError):
        stages.run_stage(tmp_path, "step", "c", ["out"], lambda: 1 / 0)
    stages.run_stage(tmp_path, "step", "b", ["out"], work)  # the failed stage left no mark behind
    assert len(runs) == 4


def test_sources_are_pinned_and_known():
    listed = sources.load_sources()
    assert len(listed) > 50
    assert {source.kind for source in listed} <= set(sources.KINDS)
    # the standard library is the running Python's, and only archives have a hash
    assert [source.name for source in listed if not re.fullmatch(r"[0-9a-f]{64}", source.sha256)] == ["cpython"]


@pytest.mark.parametrize(
    ("entry", "words"),
    [('version = "1.0"\nkind = "egg"', "kind 'egg' is unknown"), ('version = "new"\nkind = "wheel"', "version must be pinned")],
)
def test_a_wrong_entry_is_named(tmp_path, entry, words):
    path = tmp_path / "s.toml"
    path.write_text(f'[[source]]\nname = "a"\n{entry}\nlicence = "MIT"\nwhy = ""\n')
    with pytest.raises(ValueError, match=words):
        sources.load_sources(path)


def test_pinning_writes_a_hash_into_its_own_entry_only():
    text = '# head\n[[source]]\nname = "a"\nversion = "1"\nsha256 = "old"\n\n[[source]]\nname = "b"\nversion = "2"\n'
    done = fetch.pinned(text, {"a": "new"})
    assert done == text.replace("old", "new")
    assert fetch.pinned(done, {"a": "new", "b": "more"}) == done + 'sha256 = "more"\n'


def test_an_archive_with_another_hash_is_refused(tmp_path):
    (tmp_path / "tiny-1.0").mkdir()
    wheel(tmp_path / "tiny-1.0" / "tiny.whl")
    with pytest.raises(ValueError, match=r"sources\.toml pins 000"):
        fetch.fetch([Source("tiny", "1.0", "wheel", "MIT", "test", sha256="0" * 64)], tmp_path)


def test_another_python_is_not_taken_for_the_pinned_standard_library():
    with pytest.raises(RuntimeError, match=r"pins the standard library of Python 2\.7"):
        fetch.standard_library("2.7")
