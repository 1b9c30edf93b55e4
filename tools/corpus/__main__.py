"""python -m tools.corpus BUILD_FOLDER: fetch, prepare, tokenizer, encode, shards, manifest; it may be interrupted."""

import argparse
from pathlib import Path

from course_lib.model import held_out

from . import encode, fetch, manifest, prepare, shards, train_tokenizer
from .held_out import HeldOut
from .sources import load_sources
from .stages import HERE, fingerprint, run_stage

CLEANING = ("sources.toml", "fetch.py", "archives.py", "licences.py", "clean.py", "duplicates.py", "held_out.py", "prepare.py")


def main(build: Path) -> None:
    if HERE.parents[1] in (build, *build.parents):
        raise SystemExit(f"{build} lies inside the repository; text and tokens must not enter it: name a folder elsewhere")
    build.mkdir(parents=True, exist_ok=True)
    sources = load_sources()
    found = fetch.fetch(sources, build / "archives")
    texts = held_out.read()

    def clean_up() -> None:
        judge = HeldOut(text.content for text in texts)
        prepare.prepare(sources, found, judge, build)
        share = judge.lines_found(prepare.contents(build, prepare.documents(build)))
        print(f"prepare: {share:.1%} of the held-out lines occur somewhere in the text", flush=True)

    key = fingerprint(CLEANING, held_out.digest(texts))
    key = run_stage(build, "prepare", key, [prepare.TEXT, prepare.DOCUMENTS, prepare.DROPPED], clean_up)
    key = fingerprint(["train_tokenizer.py"], key)
    key = run_stage(build, "tokenizer", key, ["shards/tokenizer.json"], lambda: train_tokenizer.run(build))
    key = fingerprint(["encode.py"], key)
    key = run_stage(build, "encode", key, [encode.TOKENS, encode.LENGTHS], lambda: encode.run(build))
    key = fingerprint(["shards.py"], key)
    key = run_stage(build, "shards", key, ["shards/shards.json"], lambda: shards.run(build, texts))
    key = fingerprint(["manifest.py"], key)
    outputs = [f"release/{name}" for name in manifest.OUTPUTS]
    run_stage(build, "manifest", key, outputs, lambda: manifest.run(build, sources, found))
    _report(build)


def _report(build: Path) -> None:
    for heading, rows in prepare.sums(build).items():
        print(heading)
        for name, (files, size) in sorted(rows.items(), key=lambda row: -row[1][1]):
            print(f"  {name:<18}{files:>7} files {size / 1e6:8.1f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tools.corpus", description=__doc__)
    parser.add_argument("build", type=Path, help="a folder outside the repository; 2 GB")
    main(parser.parse_args().build.resolve())
