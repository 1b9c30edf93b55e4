"""Write a result file: what was measured, on what, with which versions, and from which sources.

Layout   {name, device, driver, clocks, torch, triton, date, commit, sources, sha256, rows: [{case, unit, ours, peer, peer_name,
          ratio, roof_share, spread}]}; a table made from it is stale when the sources no longer have this hash.
"""

import datetime
import hashlib
import json
import os
import re
import subprocess
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def sources_hash(sources: Sequence[str]) -> str:
    """One hash over the files (paths from the root), in the order given."""
    digest = hashlib.sha256()
    for name in sources:
        digest.update(name.encode() + b"\0" + (ROOT / name).read_bytes())
    return digest.hexdigest()


def write_result(name: str, rows: Sequence[dict[str, Any]], sources: Sequence[str], device: str = "") -> Path:
    """Write benchmarks/results/DEVICE/NAME.json -> its path. device: "" for the CUDA device in use, or words for a CPU."""
    import torch

    state = {"driver": None, "clocks": None} if device else _driver_and_clocks()
    device = device or torch.cuda.get_device_name()
    result = {
        "name": name, "device": device, **state, "torch": torch.__version__, "triton": _version("triton"),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "commit": _commit(),
        "sources": list(sources), "sha256": sources_hash(sources), "rows": list(rows),
    }  # fmt: skip
    folder = Path(os.environ.get("COURSE_RESULTS", ROOT / "benchmarks" / "results")) / re.sub(r"[^a-z0-9]+", "-", device.lower())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    try:
        run = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("COURSE_COMMIT")
    return run.stdout.strip()


def _driver_and_clocks() -> dict[str, Any]:
    try:
        from course_lib.telemetry import handle_of, session

        with session() as nvml:
            handle = handle_of(nvml)
            clock = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
            memory = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)
            return {"driver": nvml.nvmlSystemGetDriverVersion(), "clocks": {"sm_mhz": clock, "memory_mhz": memory}}
    except Exception as error:  # NVML is a help here, not a condition
        return {"driver": None, "clocks": f"not read: {type(error).__name__}"}
