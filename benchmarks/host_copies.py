"""Copies between host and device, pinned beside pageable memory, both directions, 4 KiB to 1 GiB."""

import torch

from course_lib.timing.host_copies import as_rows, measure_host_copies

from ._result import write_result

SOURCES = ("benchmarks/host_copies.py", "course_lib/timing/host_copies.py")


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    rows = as_rows(measure_host_copies())
    for row in rows:
        print(f"{row['case']:<34}pinned {row['ours']:>8.3f} GB/s  pageable {row['peer']:>8.3f}  ratio {row['ratio']:.2f}")
    print(write_result("host_copies", rows, SOURCES))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
