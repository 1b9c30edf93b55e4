"""Run worker.py for a list of jobs: a fresh folder and cache, no interpreter, a time limit, and one death costs one job.

This is isolation from accidents (a compiler that aborts or hangs), not from malice: the child has the rights of its parent.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

SECONDS_PER_JOB = 120.0
_KEPT_VARIABLES = re.compile(r"TRITON_\w+_PATH")  # where another ptxas or disassembler lies
_DROPPED_VARIABLES = ("TRITON_", "MLIR_", "LLVM_", "AMDGCN_", "NVPTX_", "DISABLE_", "PTXAS_", "USE_IR_LOC")
_LAST_WORDS = re.compile(r"(?:Assertion [`'].*|LLVM ERROR: .*|fatal error: .*|.*\berror: .*)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one job left: the worker's facts and the texts beside them, by suffix ("ptx", "sass", "amdgcn")."""

    facts: Mapping[str, Any]
    texts: Mapping[str, str]


def run_jobs(
    kernels: Sequence[tuple[str, str]],
    jobs: Sequence[Mapping[str, Any]],
    *,
    seconds_per_job: float = SECONDS_PER_JOB,
    processes: int = 1,
    triton_folder: str = "",
) -> list[Outcome]:
    """One outcome for each job, in order.

    kernels        (text of a module, name of the kernel in it)
    jobs           as in worker.py, without "id"
    triton_folder  a folder that holds another Triton, put before the installed one
    """
    shares = [list(range(start, len(jobs), processes)) for start in range(min(processes, len(jobs)))]
    with ThreadPoolExecutor(max(1, len(shares))) as pool:
        runs = pool.map(lambda share: _run_share(kernels, [jobs[i] for i in share], seconds_per_job, triton_folder), shares)
        found = {
            index: outcome
            for share, outcomes in zip(shares, runs, strict=True)
            for index, outcome in zip(share, outcomes, strict=True)
        }
    return [found[index] for index in range(len(jobs))]


def _run_share(
    kernels: Sequence[tuple[str, str]], jobs: list[Mapping[str, Any]], seconds: float, triton_folder: str
) -> list[Outcome]:
    with tempfile.TemporaryDirectory(prefix="course-compile-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for number, (text, _) in enumerate(kernels):
            (folder / f"kernel_{number}.py").write_text(text, encoding="utf-8")
        (folder / "worker.py").write_bytes(resources.files(__package__).joinpath("worker.py").read_bytes())
        named = [dict(job, id=f"job_{number}") for number, job in enumerate(jobs)]
        request = {"kernels": [{"file": f"kernel_{i}.py", "name": name} for i, (_, name) in enumerate(kernels)], "jobs": named}
        (folder / "request.json").write_text(json.dumps(request))
        while waiting := [job["id"] for job in named if not (folder / f"{job['id']}.json").exists()]:
            end = _run_worker(folder, waiting, seconds, triton_folder)
            if all((folder / f"{job}.json").exists() for job in waiting):
                break
            started = folder / "started"
            job = started.read_text() if started.exists() else waiting[0]
            started.unlink(missing_ok=True)
            if job not in waiting:
                job = waiting[0]
            if not (folder / f"{job}.json").exists():
                blame = {"compiles": False, "died": True, "line": None, "message": _last_words(folder, job, end), "log": ""}
                (folder / f"{job}.json").write_text(json.dumps(blame))
        return [_outcome(folder, job["id"]) for job in named]


def _run_worker(folder: Path, waiting: list[str], seconds: float, triton_folder: str) -> str:
    """Run until it ends, or until no job has been finished for `seconds` -> how it ended, in words."""
    output = (folder / "worker.log").open("wb")
    argv = [sys.executable, str(folder / "worker.py"), str(folder)]
    with (
        output,
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=_environment(folder, triton_folder),
            start_new_session=True,
        ) as child,
    ):
        try:
            left, deadline = len(waiting), time.monotonic() + seconds
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = child.wait(0.2)
                    return f"died of {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
                still = sum(not (folder / f"{job}.json").exists() for job in waiting)
                if still < left:
                    left, deadline = still, time.monotonic() + seconds
                if time.monotonic() > deadline:
                    return f"took longer than {seconds:g} s"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # the whole group: ptxas too


def _environment(folder: Path, triton_folder: str) -> dict[str, str]:
    """Without what changes how Triton compiles; everything that it writes goes into the folder."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if _KEPT_VARIABLES.fullmatch(name) or not name.startswith(_DROPPED_VARIABLES)
    }
    kept |= {"TRITON_CACHE_DIR": str(folder / "cache"), "TRITON_HOME": str(folder), "TMPDIR": str(folder)}
    kept |= {"TRITON_DUMP_PTXAS_LOG": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"}
    if triton_folder:
        kept["PYTHONPATH"] = os.pathsep.join(filter(None, [triton_folder, kept.get("PYTHONPATH", "")]))
    return kept


def _last_words(folder: Path, job: str, end: str) -> str:
    """How the compiler ended, and the last thing that it said about why."""
    logs = [folder / f"{job}.log", folder / "worker.log"]
    said = "\n".join(log.read_text(errors="replace") for log in logs if log.exists())
    words = _LAST_WORDS.findall(said) or re.findall(r"^\w*(?:Error|Exception)\b.*", said, re.MULTILINE)
    return f"the compiler {end}" + (f": {words[-1].strip()[:300]}" if words else "")


def _outcome(folder: Path, job: str) -> Outcome:
    texts = {}
    for suffix in ("ptx", "sass", "amdgcn"):
        file = folder / f"{job}.{suffix}"
        if file.exists():
            texts[suffix] = file.read_text(errors="replace")
    return Outcome(json.loads((folder / f"{job}.json").read_text()), texts)
