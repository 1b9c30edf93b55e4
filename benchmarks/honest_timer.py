"""What wrong clocks say about a product, a copy and a short kernel, beside the right one, in one run."""

import torch

from course_lib.timing.wrong_clocks import as_rows, measure_clocks

from ._result import write_result

SOURCES = ("benchmarks/honest_timer.py", "course_lib/timing/wrong_clocks.py", "course_lib/timing/events.py",
           "course_lib/timing/flush.py")  # fmt: skip


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    rows = as_rows(measure_clocks())
    for row in rows:
        print(f"{row['case']:<62}{row['ours']:>11.1f} us  right {row['peer']:>9.1f}  ratio {row['ratio']:.3f}")
    print(write_result("honest_timer", rows, SOURCES))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
