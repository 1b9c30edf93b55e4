"""The clean process: nothing of the learner's but recorded texts, an empty folder, a time limit, and the end of its whole group.

This is isolation from accidents (a crash, a hang), not from malice: the child has the rights of its parent.
Its Python ignores the environment and the working folder (-I), but for one thing: a Triton that PYTHONPATH puts before the
installed one was chosen for this process, and runs its launches, so it runs them again as well.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..entry import VARIABLE
from . import plain

START_SECONDS = 120.0  # importing torch and triton on a slow disk
_ROOT = str(Path(__file__).resolve().parents[3])
_CODE = """
import sys
behind_the_standard_library = next((i for i, p in enumerate(sys.path) if p.endswith("-packages")), len(sys.path))
sys.path[behind_the_standard_library:behind_the_standard_library] = sys.argv[2:]
from course_lib.interpreter.recorded.replay_worker import main
main(sys.argv[1])
"""


def run(requests: Sequence[Mapping[str, Any]], seconds: float) -> tuple[list[dict[str, Any]], str]:
    """-> (results of the first requests, "" or why there are no more). `seconds` is the limit for all of them together."""
    with tempfile.TemporaryDirectory(prefix="course-replay-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        plain.save(folder / "request", list(requests))
        end = _run_worker(folder, len(requests), seconds)
        if (folder / "unfit").exists():
            return [], str(plain.load(folder / "unfit"))
        results = []
        with contextlib.suppress(FileNotFoundError, ValueError):
            for number in range(len(requests)):
                results.append(plain.load(folder / f"result_{number}"))
        return results, "" if len(results) == len(requests) else end


def _run_worker(folder: Path, count: int, seconds: float) -> str:
    """Run it to its end or the limit -> how it ended, in words."""
    argv = [sys.executable, "-I", "-c", _CODE, str(folder), _ROOT, *_chosen_triton()]
    env = {name: value for name, value in os.environ.items() if not name.startswith("TRITON_")}
    env |= {VARIABLE: "1", "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
    with open(folder / "stderr", "wb") as stderr:
        child = subprocess.Popen(
            argv, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
        )
        try:
            code = _wait(child, folder / "started", seconds)
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if code is None:
        return f"the replay of {count} recordings ran longer than {seconds:g} s"
    tail = (folder / "stderr").read_bytes()[-400:].decode("utf-8", "replace").strip().splitlines()
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return f"the replay {how}" + (f" ({tail[-1]})" if tail else "")


def _chosen_triton() -> list[str]:
    """The folder of PYTHONPATH from which `import triton` is answered here, if there is one."""
    named = [] if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "").split(os.pathsep)
    found = [os.path.abspath(name) for name in named if name and os.path.exists(os.path.join(name, "triton", "__init__.py"))]
    return found[:1]


def _wait(child: subprocess.Popen, started: Path, seconds: float) -> int | None:
    """Exit code, or None at the limit, which counts from when the worker has loaded Triton."""
    deadline, running = time.monotonic() + START_SECONDS, False
    while (code := child.poll()) is None and time.monotonic() < deadline:
        if not running and started.exists():
            deadline, running = time.monotonic() + seconds, True
        time.sleep(0.01)
    return code
