"""Runs every probe on a device and keeps what came out; a probe that hangs or kills its process costs only itself.

Worker processes share the list; each probe leaves a file. The parent starts a worker anew when it dies, gives up on a probe
that its worker died in, and writes what there is every few seconds, so that a run that is cut short has not been in vain.
"""

import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..device_semantics import BY_NAME, PROBES, packed, save_record
from .bits import Bits
from .measured import report
from .probe import Probe, poisoned, run

WORKERS = max(2, min(12, (os.cpu_count() or 2) - 2))
_PATIENCE_SECONDS = 90


def record(folder: Path) -> int:
    """-> folder/device_semantics.npz (what is committed), _full.npz (every bit), _report.json (errors, measured bounds)."""
    folder.mkdir(parents=True, exist_ok=True)
    found = run_all("device", lambda done: _write(folder, done))
    errors = _write(folder, found)
    for name, error in sorted(errors.items()):
        print(f"ERROR {name}: {error.strip().splitlines()[-1][:160]}")
    print(f"{len(found) - len(errors)} of {len(PROBES)} probes recorded, {len(errors)} with errors")
    return 0 if len(found) == len(PROBES) else 1


def compile_all() -> int:
    """Does every probe compile for sm_90? Needs no GPU."""
    found = run_all("compile", lambda done: None)
    errors = {name: item for name, item in found.items() if isinstance(item, str)}
    for name, error in sorted(errors.items()):
        print(f"ERROR {name}: {error.strip()[-700:]}")
    print(f"{len(found) - len(errors)} of {len(PROBES)} probes compile")
    return 1 if errors else 0


def run_all(mode: str, progress: Any) -> dict[str, list[Bits] | str]:
    """-> for each probe its outputs, or the error's text."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = dict(os.environ, TRITON_INTERPRET="0")
        command = [sys.executable, "-m", "tests.gpu.semantics.recorder", mode, name]
        start = [subprocess.Popen([*command, str(i), str(WORKERS)], env=env) for i in range(WORKERS)]
        workers, moved, last = dict(enumerate(start)), dict.fromkeys(range(WORKERS), time.monotonic()), time.monotonic()
        seen = dict.fromkeys(range(WORKERS), 0)
        while workers:
            time.sleep(0.5)
            for i, worker in list(workers.items()):
                count = len(list(folder.glob(f"{i}-*")))
                if count != seen[i]:
                    seen[i], moved[i] = count, time.monotonic()
                if worker.poll() is None and time.monotonic() - moved[i] > _PATIENCE_SECONDS:
                    worker.kill()
                    worker.wait()
                if worker.poll() == 0:
                    del workers[i]
                elif worker.poll() is not None:
                    _give_up(folder, i, worker.returncode)
                    moved[i] = time.monotonic()
                    workers[i] = subprocess.Popen([*command, str(i), str(WORKERS)], env=env)
            if time.monotonic() - last > 15:
                last = time.monotonic()
                progress(_collect(folder))
        return _collect(folder)


def _give_up(folder: Path, worker: int, code: int) -> None:
    """The probe that was started and neither ended nor failed took its worker with it."""
    for started in folder.glob(f"{worker}-*.started"):
        if not started.with_suffix(".npz").exists() and not started.with_suffix(".error").exists():
            started.with_suffix(".error").write_text(
                f"the process died with code {code} (or did nothing for {_PATIENCE_SECONDS} s)"
            )


def _collect(folder: Path) -> dict[str, list[Bits] | str]:
    found: dict[str, list[Bits] | str] = {}
    for path in folder.iterdir():
        probe = PROBES[int(path.stem.split("-")[1])]
        if path.suffix == ".error":
            found[probe.name] = path.read_text()
        elif path.suffix == ".npz":
            types = [out.dtype if isinstance(out, Bits) else out[0] for out in probe.outputs]
            with np.load(path) as file:
                found[probe.name] = [Bits(dtype, file[f"arr_{i}"]) for i, dtype in enumerate(types)]
    return found


def work(mode: str, folder: Path, worker: int, workers: int) -> int:
    for index in range(worker, len(PROBES), workers):
        stem = folder / f"{worker}-{index}"
        if stem.with_suffix(".started").exists():
            continue
        stem.with_suffix(".started").touch()
        try:
            outputs = run(PROBES[index], "cuda") if mode == "device" else _compiled(PROBES[index])
            partial = stem.with_suffix(".part")
            with partial.open("wb") as file:
                np.savez(file, *(bits.data for bits in outputs))
            partial.rename(stem.with_suffix(".npz"))
        except Exception as error:
            stem.with_suffix(".error").write_text(_sentences(error))
            if "CUDA" in str(error) or "accelerator" in type(error).__name__.lower():
                return 3  # the context may be lost: a fresh process goes on
    return 0


def _sentences(error: BaseException) -> str:
    chain = []
    cause: BaseException | None = error
    while cause is not None:
        chain.append(f"{type(cause).__name__}: {cause}")
        cause = cause.__cause__
    return "\n".join(chain) if len(chain) > 1 or "Compilation" in chain[0] else traceback.format_exc()


def _compiled(probe: Probe) -> list[Bits]:
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    short = {"int1": "i1"} | {f"{u}int{n}": f"{u or 'i'}{n}" for u in ("", "u") for n in (8, 16, 32, 64)}
    outputs = [out if isinstance(out, Bits) else poisoned(*out) for out in probe.outputs]
    pointers = [f"*{short.get(bits.dtype, bits.dtype)}" for bits in [*probe.inputs(), *outputs]]
    scalars = ["fp32" if isinstance(s, float) else "i64" if abs(s) >> 31 else "i32" for s in probe.scalars]
    names = [name for name in probe.kernel.arg_names if name not in probe.meta]
    kinds = dict(zip(names, pointers + scalars, strict=True)) | dict.fromkeys(probe.meta, "constexpr")
    source = ASTSource(probe.kernel, {name: kinds[name] for name in probe.kernel.arg_names}, dict(probe.meta))
    triton.compile(source, target=GPUTarget("cuda", 90, 32))
    return outputs


def _write(folder: Path, found: dict[str, list[Bits] | str]) -> dict[str, str]:
    """Everything recorded so far -> the three files; -> the errors."""
    errors = {name: item for name, item in found.items() if isinstance(item, str)}
    outputs = {name: item for name, item in found.items() if not isinstance(item, str)}
    kept: dict[str, np.ndarray] = {}
    for probe in PROBES:
        if probe.name in outputs:
            kept |= packed(probe, outputs[probe.name])
    about = _about()
    save_record(folder / "device_semantics.npz", kept, about)
    whole = {f"{name}/{i}": bits.data for name, item in outputs.items() for i, bits in enumerate(item)}
    save_record(folder / "device_semantics_full.npz", whole, about)
    lines = report(BY_NAME, outputs)
    text = json.dumps({"about": about, "errors": errors, "measured": lines}, indent=1)
    (folder / "device_semantics_report.json").write_text(text + "\n", encoding="utf-8")
    if len(found) == len(PROBES):
        print("\n".join(lines))
    return errors


def _about() -> dict[str, str]:
    """In a child: asking for the device starts CUDA, which a parent of workers does not need."""
    code = "import torch, triton; print(torch.cuda.get_device_name(), '|', torch.__version__, '|', triton.__version__)"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    device, torch, triton = ([part.strip() for part in child.stdout.split("|")] + ["unknown"] * 3)[:3]
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    return {"device": device, "torch": torch, "triton": triton, "numpy": np.__version__, "date": date}


def main(arguments: Sequence[str]) -> int:
    mode, folder, worker, workers = arguments
    return work(mode, Path(folder), int(worker), int(workers))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
