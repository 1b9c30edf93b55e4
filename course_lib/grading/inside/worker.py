"""The child process: load the cells and the runner from this folder, make the attempts asked for, write each one down at once.

Started as `python -I -m inside.worker REQUEST RESULTS` in a fresh tree that holds `inside/`, `runner.py` and `cells/`.
REQUEST  packed: {"entry", "params", "cells": [file names in order], "jobs": [{"run", "observe", "case"}]}
RESULTS  one packed record after another, each behind its length in 8 bytes; a missing one means that the process died in it.
"""

import importlib.util
import linecache
import os
import sys
import types

from .attempt import attempt, check_entry
from .border import pack, unpack
from .quiet import Quiet

__all__ = ["main"]


class _Lab(types.ModuleType):
    """Stands in for the course's `lab` while cells are loaded: everything on it does nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


def _nothing(*_args, **_kwargs):
    return _nothing


def load_runner(path: str):
    """Import the runner file; its frames are marked, so that messages name the learner's line and not ours."""
    spec = importlib.util.spec_from_file_location("runner", path)
    module = importlib.util.module_from_spec(spec)
    module.__course_runner__ = True
    sys.modules["runner"] = module
    spec.loader.exec_module(module)
    return module


def load_cells(paths: list[str]) -> dict:
    """Run each cell's file in one namespace, as the notebook would; -> that namespace, which is the module `submission`."""
    course = types.ModuleType("course_lib")
    course.lab = _Lab("course_lib.lab")
    sys.modules.update({"course_lib": course, "course_lib.lab": course.lab})
    module = types.ModuleType("submission")
    sys.modules["submission"] = module
    for path in paths:
        linecache.checkcache(path)
        with open(path, encoding="utf-8") as file:
            code = compile(file.read(), path, "exec")
        exec(code, module.__dict__)
    return module.__dict__


def _refusal(status: str, message: str, where: str = "", printed: str = "") -> dict:
    return {"status": status, "message": message, "where": where, "output": None, "changed": [], "aliases": [],
            "evidence": None, "printed": printed, "seconds": 0.0}  # fmt: skip


def _load(request: dict, root: str) -> tuple[object, dict | None]:
    """-> (entry, None), or (None, the record that every job gets)."""
    cells = [os.path.join(root, "cells", name) for name in request["cells"]]

    def run(_entry, _case):
        return load_cells(cells).get(request["entry"], _Missing)

    loaded = {}
    record = attempt(lambda e, c: loaded.update(entry=run(e, c)), None, {})
    if record["status"] != "returned":
        record["message"] = f"the cell does not run: {record['message']}"
        return None, record
    if loaded["entry"] is _Missing:
        return None, _refusal("malformed", f"the cell defines no {request['entry']}")
    with Quiet():
        wrong = check_entry(loaded["entry"], request["params"])
    return loaded["entry"], _refusal("malformed", wrong) if wrong else None


class _Missing:
    pass


def main(request_path: str, results_path: str) -> None:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(request_path, "rb") as file:
        request = unpack(file.read())
    runner = load_runner(os.path.join(root, "runner.py"))
    with open(results_path, "wb") as results:
        entry, refusal = _load(request, root)
        for job in request["jobs"]:
            observe = getattr(runner, job["observe"]) if job["observe"] else None
            record = refusal or attempt(getattr(runner, job["run"]), entry, job["case"], observe)
            data = pack(record)
            results.write(len(data).to_bytes(8, "little") + data)
            results.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
