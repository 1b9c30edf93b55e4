"""Benchmarks: one file per measured claim in benchmarks/, results as JSON in benchmarks/results/DEVICE/."""

import subprocess
import sys
from pathlib import Path


def benchmarks(root: Path) -> list[str]:
    """Names of the benchmarks in this clone."""
    return sorted(p.stem for p in (root / "benchmarks").glob("*.py") if not p.stem.startswith("_"))


def run_benchmark(root: Path, name: str) -> int:
    """Run one in a process of its own -> its exit code. Raises KeyError, naming the known ones."""
    known = benchmarks(root)
    if name not in known:
        raise KeyError(f"no benchmark {name!r}; there are: {', '.join(known) or 'none yet'}")
    return subprocess.call([sys.executable, "-m", f"benchmarks.{name}"], cwd=root)
