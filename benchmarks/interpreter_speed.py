"""What counting costs: kernels in the course's interpreter with the ledger open, against Triton's own interpreter, on a CPU.

Both run in one process, in alternating order, the first run of each left out. The ratio is the median of the rounds' own ratios,
because the speed of a shared machine changes more between rounds than within one.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable

from course_lib import lab  # noqa: F401  decides how Triton is set up before anything imports it

from ._result import write_result

ROUNDS = 15
BAR = 1.5  # at most this share of the unpatched interpreter's time; below 1.0 is the badge
SOURCES = (
    "benchmarks/interpreter_speed.py", "tests/interpreter/kernels/matmul.py", "tests/interpreter/kernels/flash.py",
    "course_lib/interpreter/launch.py", "course_lib/interpreter/launch_arguments.py",
    "course_lib/interpreter/numbers/frontend.py", "course_lib/interpreter/mistakes/access.py",
    "course_lib/interpreter/counts/accounting.py", "course_lib/interpreter/counts/books.py",
)  # fmt: skip


def unpatched(kernel: Callable[[], object]) -> None:
    """Run it in Triton's own interpreter."""
    from course_lib.interpreter import disable

    disable()
    kernel()


def counted(kernel: Callable[[], object], *, checked: bool) -> None:
    """Run it in the course's interpreter with the ledger open, with all checks or none."""
    from course_lib.interpreter import Checks, ledger
    from course_lib.interpreter.watch import NONE

    with ledger(checks=Checks() if checked else NONE) as book:
        kernel()
    assert all(launch.complete for launch in book.launches)


def cases() -> dict[str, Callable[[], object]]:
    """The two kernels that the bar speaks of."""
    import torch

    from tests.interpreter.kernels.flash import flash
    from tests.interpreter.kernels.matmul import matmul

    torch.manual_seed(0)
    a, b = torch.randn(512, 512).half(), torch.randn(512, 512).half()
    q, k, v = (torch.randn(1, 512, 1, 64).half() for _ in range(3))
    return {
        "matmul 512^3 fp16, blocks of 64": lambda: matmul(a, b, bm=64, bn=64, bk=64),
        # four launches, so that a run is long enough to time
        "flash forward S 512 D 64 fp16 causal, blocks of 64": lambda: [flash(q, k, v, causal=True) for _ in range(4)],
    }


def ratios(kernel: Callable[[], object], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """-> for "ledger" and "ledger and checks": time over the unpatched interpreter's, one number for each round."""
    runs: dict[str, Callable[[], None]] = {
        "unpatched": lambda: unpatched(kernel),
        "ledger": lambda: counted(kernel, checked=False),
        "ledger and checks": lambda: counted(kernel, checked=True),
    }
    for run in runs.values():
        run()
    found: dict[str, list[float]] = {name: [] for name in runs if name != "unpatched"}
    for number in range(rounds):
        seconds = {}
        for name in reversed(runs) if number % 2 else runs:
            start = time.perf_counter()
            runs[name]()
            seconds[name] = time.perf_counter() - start
        for name, values in found.items():
            values.append(seconds[name] / seconds["unpatched"])
    return found


def main() -> int:
    from course_lib.interpreter import entry

    if (now := entry.state()).mode != "interpreter":
        print(f"blocked: needs kernels to be interpreted. {now.reason}")
        return 1
    import torch

    torch.set_num_threads(1)
    rows = []
    for case, kernel in cases().items():
        for what, values in ratios(kernel).items():
            ratio = statistics.median(values)
            rows.append({
                "case": f"{case}: {what}", "unit": "of its time", "ours": ratio, "peer": 1.0,
                "peer_name": "Triton's own interpreter", "ratio": ratio, "roof_share": None, "spread": [min(values), max(values)],
            })  # fmt: skip
            print(f"{rows[-1]['case']:<72} {ratio:.2f} ({min(values):.2f} to {max(values):.2f}) of the unpatched one's time")
    print(write_result("interpreter_speed", rows, SOURCES, device=f"CPU {platform.machine()} {os.cpu_count()} cores"))
    return 0 if all(row["ratio"] <= BAR for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
