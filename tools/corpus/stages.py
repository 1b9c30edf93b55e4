"""Stages that can be interrupted: each leaves a mark with a fingerprint of what it was made from, and the sizes of what it wrote.

A stage runs again when a source file of this package, sources.toml, the held-out list or an earlier stage changed, or when one of
its outputs is gone or has another size. Everything else is found done in a moment.
"""

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

HERE = Path(__file__).parent
HELD_OUT_LIST = HERE.parents[1] / "course_lib" / "model" / "held_out.txt"


def fingerprint(modules: Sequence[str], *more: str) -> str:
    """One hash over the named files of this package, the held-out list and further words."""
    total = hashlib.sha256()
    for path in (*(HERE / name for name in modules), HELD_OUT_LIST):
        total.update(path.name.encode() + b"\0" + path.read_bytes())
    for word in more:
        total.update(b"\0" + word.encode())
    return total.hexdigest()


def run_stage(build: Path, name: str, key: str, outputs: Sequence[str], work: Callable[[], None]) -> str:
    """Run `work` unless its mark says that it is done; -> a key for the stages that follow."""
    mark = build / f"{name}.done.json"
    if _done(build, mark, key):
        print(f"{name}: done before", flush=True)
        return key
    mark.unlink(missing_ok=True)
    start = time.monotonic()
    work()
    sizes = {output: (build / output).stat().st_size for output in outputs}
    if empty := [output for output, size in sizes.items() if not size]:
        raise RuntimeError(f"{name} left {', '.join(empty)} empty")
    mark.write_text(json.dumps({"key": key, "sizes": sizes}, indent=1) + "\n", encoding="utf-8")
    print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    return key


def _done(build: Path, mark: Path, key: str) -> bool:
    try:
        found = json.loads(mark.read_text(encoding="utf-8"))
        return found["key"] == key and all((build / o).stat().st_size == size for o, size in found["sizes"].items())
    except (OSError, ValueError, KeyError):
        return False
