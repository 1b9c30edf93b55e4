"""The child process: load the cells and the runner from this folder, make the attempts asked for, write each one down at once.

`main(REQUEST, RESULTS)` runs in a fresh tree that holds `inside/`, `runner.py`, what that imports of the course, and `cells/`.
REQUEST  packed: {"entry", "params", "cells": [{"file", "required"} in order],
         "jobs": [{"run", "observe", "launches", "case"}]}
RESULTS  one packed record after another, each behind its length in 8 bytes; a missing one means that the process died in it.
"""

import contextlib
import importlib
import importlib.util
import linecache
import os
import re
import sys
import types

from .attempt import MAX_OUTPUT_BYTES, attempt, check_entry, empty_record
from .border import pack, unpack
from .cell_run import run_cell
from .quiet import Quiet

__all__ = ["main"]


class _Nothing(types.ModuleType):
    """Stands in for the course's `lab`, and for what only a notebook has: every use of it does nothing."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *_args, **_kwargs):
        return self

    def __float__(self):
        return 0.0


def settle_triton() -> None:
    """Turn Triton's interpreter on where torch, asked, sees no device: the parent may have seen a driver only.

    Before the runner and the cells, which may import Triton: it reads the variable then. A value that is set stands.
    """
    if os.environ.get("TRITON_INTERPRET") or "triton" in sys.modules:
        return
    with contextlib.suppress(ImportError):  # a runner that needs torch says so itself
        import torch

        if not torch.cuda.is_available():
            os.environ["TRITON_INTERPRET"] = "1"


def kernels_with_right_numbers() -> None:
    """Interpreted kernels run with the course's numbers and checks, from the first import of Triton on.

    Before the cells take the name course_lib. Where the course is not installed, kernels run as Triton's interpreter runs them.
    """
    with contextlib.suppress(ImportError):
        importlib.import_module("course_lib.interpreter.after_import").arm()


def recorder_of(jobs: list[dict]):
    """What writes launches down, when a job asks for it and Triton and the course are here; else None."""
    if any(job["launches"] for job in jobs):
        with contextlib.suppress(ImportError):
            return importlib.import_module("course_lib.interpreter.recorded.recording").record
    return None


def load_runner(path: str):
    spec = importlib.util.spec_from_file_location("runner", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["runner"] = module
    spec.loader.exec_module(module)
    return module


def load_cells(cells: list[tuple[str, bool]], skipped: list[str], entry: str, root: str) -> dict:
    """Run each cell's file in one namespace, as the notebook would; -> that namespace, which is the module `__main__`.

    Of the course there is what lies in the tree (workloads, for the runner), and a `lab` that does nothing.

    A cell that fails is left behind where it stopped, and `skipped` says why. When a required one fails before `entry` is
    defined, its exception goes on.
    """
    course = types.ModuleType("course_lib")
    course.__path__ = [os.path.join(root, "course_lib")]
    course.lab = _Nothing("course_lib.lab")
    sys.modules.update({"course_lib": course, "course_lib.lab": course.lab})
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.get_ipython = module.display = _Nothing("IPython")
    failure, futures = None, 0
    for path, required in cells:
        linecache.checkcache(path)
        with open(path, encoding="utf-8") as file:
            source = file.read()
        try:
            futures |= run_cell(source, path, futures, module.__dict__, skipped)
        except BaseException as error:  # sys.exit() ends no notebook either
            failure = error if required else failure
            first = source.strip().splitlines()[0][:60] if source.strip() else path
            skipped.append(f"the cell that begins with '{first}' stopped ({type(error).__name__}: {error})"[:300])
    if failure is not None and entry not in module.__dict__:
        raise failure
    return module.__dict__


def _load(request: dict, root: str, skipped: list[str]) -> tuple[object, dict | None]:
    """-> (entry, None), or (None, the record that every job gets)."""
    cells = [(os.path.join(root, "cells", cell["file"]), cell["required"]) for cell in request["cells"]]
    space: dict = {}
    record = attempt(lambda _entry, _case: space.update(load_cells(cells, skipped, request["entry"], root)), None, {})
    if record["status"] != "returned":
        # Python names a file of ours in a SyntaxError
        message = re.sub(r"\([\w.-]+\.py, line (\d+)\)", r"(line \1 of the cell)", record["message"])
        return None, record | {"status": "malformed", "message": f"the cell does not run: {message}"}
    if request["entry"] not in space:
        return None, empty_record("malformed", "; ".join([f"the cell defines no {request['entry']}", *skipped]))
    with Quiet():
        wrong = check_entry(space[request["entry"]], request["params"])
    return space[request["entry"]], empty_record("malformed", wrong) if wrong else None


def main(request_path: str, results_path: str) -> None:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(request_path, "rb") as file:
        request = unpack(file.read())
    settle_triton()
    kernels_with_right_numbers()
    recorder = recorder_of(request["jobs"])
    runner, skipped = load_runner(os.path.join(root, "runner.py")), []
    with open(results_path, "wb") as results:
        entry, refusal = _load(request, root, skipped)
        for job in request["jobs"]:
            observe = getattr(runner, job["observe"]) if job["observe"] else None
            record = refusal or attempt(
                getattr(runner, job["run"]), entry, job["case"], observe, recorder if job["launches"] else None
            )
            if skipped and record["message"].startswith("NameError"):
                record["message"] += "; " + "; ".join(skipped)
            data = pack(record, MAX_OUTPUT_BYTES)
            results.write(len(data).to_bytes(8, "little") + data)
            results.flush()
