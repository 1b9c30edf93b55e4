"""The ledger's sectors against the ones that Nsight Compute counts: a copy, a tiled matrix product and a flash-attention forward.

    python -m benchmarks.ledger_sectors --measure FOLDER        on a GPU with ncu: all of it -> benchmarks/results/
    python -m benchmarks.ledger_sectors --measure FOLDER FILE   the same, with the ledger's side predicted before
    python -m benchmarks.ledger_sectors --predict FILE          the ledger's side alone, on a CPU (--measure does this in a child)
    python -m benchmarks.ledger_sectors --launch                what ncu runs: each case warmed up, then once under the profiler

What ncu counts   L1 loads: sectors of global loads (LDG) and of copies into shared memory (LDGSTS, which cp.async becomes), which
                  have counters of their own; L1 stores; and what L1 asked of L2. The caches are flushed before each pass.
"""

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ._result import write_result

SOURCES = (
    "benchmarks/ledger_sectors.py",
    "course_lib/interpreter/counts/accounting.py",
    "course_lib/interpreter/mistakes/access.py",
    "tests/interpreter/kernels/copy.py",
    "tests/interpreter/kernels/matmul.py",
    "tests/interpreter/kernels/flash.py",
)
FIELDS = ("sectors_loaded", "sectors_stored", "loaded_bytes", "stored_bytes", "distinct_loaded_bytes", "distinct_stored_bytes")
LD = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
LD_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
LDG = "smsp__inst_executed_op_global_ld.sum"
LDGSTS = ("sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_access.sum",
          "sm__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ldgsts_cache_bypass.sum")  # fmt: skip
ST = "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"
L2_READ = "lts__t_sectors_srcunit_tex_op_read.sum"
L2_WRITE = "lts__t_sectors_srcunit_tex_op_write.sum"
OTHERS = (
    "smsp__inst_executed_op_ldgsts.sum",
    "smsp__inst_executed_op_global_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__m_l1tex2xbar_write_sectors.sum",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "dram__sectors_read.sum",
    "dram__sectors_write.sum",
    "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "sm__sass_data_bytes_mem_global_op_ld.sum",
    "sm__sass_data_bytes_mem_global_op_st.sum",
    "sm__sass_data_bytes_mem_global_op_ldgsts.sum",
    "smsp__inst_executed_op_global_atom.sum",
)
WANTED = (LD, LD_REQUESTS, LDG, *LDGSTS, ST, L2_READ, L2_WRITE, *OTHERS)
INTERESTING = re.compile(
    r"(t_sectors|t_requests|data_bytes).*(global|srcunit_tex|ldgsts)|xbar2l1tex|l1tex2xbar|executed_op_(global|ldgsts)|tma"
)


def cases() -> dict[str, tuple[str, Callable[[str], Callable[[], object]]]]:
    """By name: the kernel's name, and device -> the launch, with its tensors made."""
    found: dict[str, tuple[str, Callable]] = {}
    for dtype in ("float32", "float16"):
        for power in (20, 22, 24):
            found[f"copy {dtype} 2^{power}"] = ("copy_kernel", _copy(1 << power, dtype))
    found["copy float32 2^18 of every 4th"] = ("copy_kernel", _copy(1 << 18, "float32", stride=4))
    found["copy float16 2^18 of every 3rd"] = ("copy_kernel", _copy(1 << 18, "float16", stride=3))
    found["copy float16 1000003"] = ("copy_kernel", _copy(1_000_003, "float16"))
    for m, n, k, block in ((512, 512, 512, 64), (1024, 512, 768, 64), (1024, 512, 768, 128), (500, 328, 200, 64)):
        found[f"matmul float16 {m}x{n}x{k} tiles {block}"] = ("matmul_kernel", _matmul(m, n, k, block))
    for length in (512, 1024):
        for dim in (64, 128):
            for causal in (False, True):
                name = f"flash float16 S{length} D{dim}{' causal' if causal else ''}"
                found[name] = ("flash_kernel", _flash(length, dim, causal))
    return found


def _copy(n: int, dtype: str, stride: int = 1) -> Callable[[str], Callable[[], object]]:
    def prepare(device: str) -> Callable[[], object]:
        import torch

        from tests.interpreter.kernels.copy import copy

        source = _random((n * stride,), dtype, device)[::stride]
        target = torch.empty(n, dtype=source.dtype, device=device)
        return lambda: copy(source, target)

    return prepare


def _matmul(m: int, n: int, k: int, block: int) -> Callable[[str], Callable[[], object]]:
    def prepare(device: str) -> Callable[[], object]:
        from tests.interpreter.kernels.matmul import matmul

        a, b = _random((m, k), "float16", device), _random((k, n), "float16", device)
        return lambda: matmul(a, b, bm=block, bn=block, bk=64)

    return prepare


def _flash(length: int, dim: int, causal: bool) -> Callable[[str], Callable[[], object]]:
    def prepare(device: str) -> Callable[[], object]:
        from tests.interpreter.kernels.flash import flash

        q, k, v = (_random((1, length, 4, dim), "float16", device) for _ in range(3))
        return lambda: flash(q, k, v, causal=causal)

    return prepare


def _random(shape: tuple[int, ...], dtype: str, device: str):
    import torch

    return torch.randn(shape, device=device).to(getattr(torch, dtype))


def predict(path: Path) -> int:
    """The ledger's counts of every case -> JSON by case."""
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
    from course_lib import interpreter

    found: dict[str, dict[str, int]] = {}
    for name, (_, prepare) in cases().items():
        launch = prepare("cpu")
        with interpreter.ledger() as book:
            launch()
        total = book.launches[0].total
        found[name] = {field: int(getattr(total, field)) for field in FIELDS}
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(name, found[name], flush=True)
    return 0


def launch_all() -> int:
    """Under ncu, which profiles only between start and stop: one kernel for each case, in order."""
    import torch

    for _, prepare in cases().values():
        launch = prepare("cuda")
        launch()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        launch()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
    return 0


def measure(folder: Path, predicted: Path | None = None) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    here = [sys.executable, "-m", "benchmarks.ledger_sectors"]
    log, child = folder / "ledger_sectors_predict.log", None
    if predicted is None:
        predicted = folder / "ledger_sectors_predicted.json"
        with log.open("w") as output:
            interpreted = dict(os.environ, TRITON_INTERPRET="1")
            child = subprocess.Popen([*here, "--predict", str(predicted)], env=interpreted, stdout=output, stderr=output)
    metrics = available_metrics(folder)
    print(f"metrics: {len(metrics)} of {len(WANTED)}; missing: {', '.join(sorted(set(WANTED) - set(metrics))) or 'none'}")
    names = "regex:^(copy_kernel|matmul_kernel|flash_kernel)"
    command = ["ncu", "--profile-from-start", "off", "--kernel-name", names, "--clock-control", "none", "--cache-control", "all",
               "--metrics", ",".join(metrics), "--csv", "--page", "raw", "--print-units", "base", *here, "--launch"]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, TRITON_INTERPRET="0"))
    (folder / "ledger_sectors_ncu.csv").write_text(done.stdout + "\n" + done.stderr, encoding="utf-8")
    try:
        counted = parse(done.stdout)
    except Exception as error:
        print(f"ncu gave nothing to read ({error}), exit {done.returncode}:\n{(done.stdout + done.stderr)[-2000:]}")
        if child is not None:
            child.kill()
        return 1
    (folder / "ledger_sectors_counted.json").write_text(json.dumps(counted, indent=1) + "\n", encoding="utf-8")
    code = 0 if child is None else child.wait()
    ours = json.loads(predicted.read_text()) if predicted.exists() else {}
    rows = compare(ours, counted)
    for row in rows:
        print(f"{row['case']:<52}{row['ours']:>10}{row['peer']:>10}  {row['ratio'] or 0:.4f}")
    if code or len(ours) != len(counted):
        said = log.read_text()[-1500:] if log.exists() else ""
        print(f"the ledger's side ended with {code} after {len(ours)} of {len(counted)} cases:\n{said}")
        return 1
    log.unlink(missing_ok=True)
    print(write_result("ledger_sectors", rows, SOURCES))
    return 0


def available_metrics(folder: Path) -> list[str]:
    """Those wanted that ncu has for this chip (an unknown one would stop the run); all that are related are listed in folder."""
    done = subprocess.run(["ncu", "--query-metrics"], capture_output=True, text=True)
    names = re.findall(r"^(\w+__\w+)", done.stdout, re.MULTILINE)
    related = [line for line in done.stdout.splitlines() if INTERESTING.search(line.split(" ")[0])]
    (folder / "ledger_sectors_metrics.txt").write_text("\n".join(related) or done.stdout + done.stderr, encoding="utf-8")
    known = set(names)
    return [metric for metric in WANTED if metric.rsplit(".", 1)[0] in known] if known else list(WANTED)


def parse(text: str) -> dict[str, dict[str, float]]:
    """ncu's CSV -> by case its metrics. One row for each case, in order; the second line holds units."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    rows = [row for row in csv.DictReader(lines) if row["ID"]]
    wanted = cases()
    if len(rows) != len(wanted):
        raise ValueError(f"{len(rows)} kernels were profiled, {len(wanted)} were launched")
    found = {}
    for (name, (kernel, _)), row in zip(wanted.items(), rows, strict=True):
        if not row["Kernel Name"].startswith(kernel):
            raise ValueError(f"{name} should be a {kernel}, ncu saw {row['Kernel Name']}")
        found[name] = {key: float(value.replace(",", "")) for key, value in row.items() if key in WANTED and value.strip()}
    return found


def l1_loads(counted: dict[str, float]) -> int:
    """Sectors of all global loads at L1. The counter of plain loads takes LDGSTS in on some chips: its requests tell."""
    copies = sum(counted.get(metric, 0.0) for metric in LDGSTS)
    together = counted[LD_REQUESTS] > counted[LDG]
    return round(counted[LD] if together else counted[LD] + copies)


def compare(ours: dict[str, dict[str, int]], counted: dict[str, dict[str, float]]) -> list[dict]:
    rows = []
    for case, metrics in counted.items():
        if case not in ours:
            continue
        mine = ours[case]
        counts = {
            "loads at L1": ("sectors_loaded", l1_loads(metrics)),
            "stores at L1": ("sectors_stored", round(metrics[ST])),
            "loads at L2": ("sectors_loaded", round(metrics[L2_READ])),
            "stores at L2": ("sectors_stored", round(metrics[L2_WRITE])),
        }
        for what, (own, theirs) in counts.items():
            ratio = mine[own] / theirs if theirs else None
            rows.append({"case": f"{case}, {what}", "unit": "sectors", "ours": mine[own], "peer": theirs, "peer_name": "ncu",
                         "ratio": ratio, "roof_share": None, "spread": None})  # fmt: skip
    return rows


def main(arguments: list[str]) -> int:
    match arguments:
        case ["--predict", path]:
            return predict(Path(path))
        case ["--launch"]:
            return launch_all()
        case ["--measure", folder]:
            return measure(Path(folder))
        case ["--measure", folder, predicted]:
            return measure(Path(folder), Path(predicted))
    print(__doc__)
    return 2


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
