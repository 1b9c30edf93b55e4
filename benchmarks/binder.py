"""What Binder has to hold: the environment of binder/ built in a clean folder, and the largest solved lab run in it.

A free Binder gives 2 GB of memory and builds without a GPU. So: no CUDA package, an installation that fits, and a Jupyter server
with a kernel and the processes that judge answers in 1.5 GB together. `python -m benchmarks.binder` takes some minutes.
"""

import json
import os
import platform
import re
import tempfile
import time
from pathlib import Path
from typing import Any

from ._binder_build import Built, NoPython, build, cuda_packages
from ._binder_server import run_notebook, server
from ._process_memory import PeakMemory, family_gb
from ._result import ROOT, write_result

BAR_GB = 1.5
SOURCES = (
    "binder/requirements.txt", "binder/runtime.txt", "binder/postBuild", "binder/start",
    "benchmarks/binder.py", "benchmarks/_binder_build.py", "benchmarks/_binder_server.py", "benchmarks/_process_memory.py",
)  # fmt: skip
KERNEL = """
from course_lib import interpreter, lab
import torch, triton, triton.language as tl

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    live = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i, mask=live) + tl.load(y_ptr + i, mask=live), mask=live)

x, y, out = torch.randn(1000), torch.randn(1000), torch.full((1000,), float("nan"))
with interpreter.ledger() as book:
    add_kernel[(4,)](x, y, out, 1000, BLOCK=256)
print("right" if torch.equal(out, x + y) else "wrong", book.counts()["bytes"], torch.__version__, triton.__version__)
"""


def largest_solved_lab() -> Path:
    """The solved notebook with most bytes."""
    return max(ROOT.glob("solutions/*/*.ipynb"), key=lambda path: path.stat().st_size)


def row(case: str, unit: str, ours: float, bar: float | None = None, **more: Any) -> dict[str, Any]:
    """A row of the result; `bar` is the most that it may be."""
    ratio = None if bar is None else ours / bar
    peer_name = None if bar is None else "at most"
    return {"case": case, "unit": unit, "ours": ours, "peer": bar, "peer_name": peer_name, "ratio": ratio,
            "roof_share": None, "spread": None} | more  # fmt: skip


def measured_environment(built: Built, folder: Path) -> list[dict[str, Any]]:
    """Rows on what was installed. Raises AssertionError for a CUDA package or a kernel that gives a wrong answer."""
    cuda = cuda_packages(list(built.packages))
    assert not cuda, f"CUDA packages were installed: {', '.join(cuda)}"
    script = folder / "add_kernel.py"
    script.write_text(KERNEL, encoding="utf-8")
    start = time.monotonic()
    said = built.run("python", str(script)).split()
    seconds = time.monotonic() - start
    assert said[:2] == ["right", "12000"], f"the kernel said {said}"
    assert said[2].endswith("+cpu"), f"torch {said[2]} is no CPU build"
    return [
        row("installed environment", "MB on disk", built.disk_mb, packages=len(built.packages), torch=said[2], triton=said[3]),
        row("installation", "seconds", built.install_seconds),
        row("installation, peak memory", "GB", built.install_gb, BAR_GB),
        row("a Triton kernel in the interpreter, imports included", "seconds", seconds),
    ]


def measured_server(built: Built, folder: Path) -> list[dict[str, Any]]:
    """Rows on the server at rest and with the largest solved lab. Raises AssertionError where a point was lost."""
    notebook = largest_solved_lab()
    place = f"work/{notebook.parent.name}/{notebook.name}"
    with server(built, folder / "jupyter") as jupyter:
        opened, _ = jupyter.ask("/")
        assert opened.partition("?")[0].endswith(f"/lab/tree/{place}"), f"JupyterLab opens {opened}"
        at_rest, _, _ = family_gb(jupyter.process.pid)
        with PeakMemory(jupyter.process.pid) as peak:
            seconds = run_notebook(jupyter, notebook, place)
    points, most = earned(built, notebook)
    assert points == most, f"{notebook.stem} earned or awaits {points:g} of {most:g} points"
    what = f"server, kernel and judges, solved {notebook.stem}"
    return [
        row("server at rest", "GB", at_rest, BAR_GB),
        row(what, "GB", peak.proportional_gb, BAR_GB, processes=peak.processes, points=points),
        row(f"{what}, shared pages counted for each process", "GB", peak.resident_gb),
        row(f"solved {notebook.stem}", "seconds", seconds),
    ]


def earned(built: Built, notebook: Path) -> tuple[float, float]:
    """-> (points earned in the learner's copy or waiting for a GPU, all points of the exercises that the notebook checks)."""
    ids = {f"{phase}.{number}" for phase, number in re.findall(r'"ex-(\d+)-(\d+)-check"', notebook.read_text(encoding="utf-8"))}
    progress = json.loads(built.run("labs", "progress", "--json", cwd=built.clone / "work"))
    mine = [exercise for phase in progress["phases"] for exercise in phase["exercises"] if exercise["id"] in ids]
    return sum(e["points"] + e["waiting_points"] for e in mine), sum(e["max_points"] for e in mine)


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        try:
            built = build(Path(name))
        except NoPython as error:
            print(f"blocked: {error}")
            return 1
        rows = [*measured_environment(built, Path(name)), *measured_server(built, Path(name))]
    for made in rows:
        bar = "" if made["peer"] is None else f"  (at most {made['peer']})"
        print(f"{made['case']:<90} {made['ours']:9.2f} {made['unit']}{bar}")
    print(write_result("binder", rows, SOURCES, device=f"CPU {platform.machine()} {os.cpu_count()} cores"))
    return 0 if all(made["ratio"] is None or made["ratio"] <= 1 for made in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
