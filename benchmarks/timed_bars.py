"""What the bars of timed exercises are set from: five runs of right answers, and of slow ones that must miss the bar.

Right are the notebook's own answer and others of the tests. Slow are answers of the tests that earn every point but those of
time. A bar lies at least three times the spread of its runs below the notebook's slowest. (The notebooks are no sources of the
result: it would be stale at each typo.)
"""

import linecache
import re
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from course_lib.course.live import check_live
from course_lib.exercises import exercise

from ._result import write_result

ROOT = Path(__file__).resolve().parents[1]
RUNS = 5
ANSWERS: dict[str, tuple[str, Sequence[str], Sequence[str]]] = {  # exercise -> (its GPU tests, right answers there, slow ones)
    "1.4": ("test_copy_on_device", ("answers.by_blocks",), ("answers.through_a_buffer", "tiny_blocks")),
    "2.2": ("test_phase2_attend_rows", ("answers.by_rows", "answers.parts_of_a_row"), ("answers.two_passes", "tiny_blocks")),
    "2.4": ("test_phase2_flash", ("answers.two_loops", "answers.one_loop"), ("tiny_tiles",)),
    "2.8": ("test_phase2_paged", ("answers.one_tile", "answers.tensor_cores"), ("answers.gathers_first", "token_by_token")),
    "2.9": (
        "test_phase2_split_decode",
        ("answers.one_wave", "answers.quarter_shares"),
        ("answers.unsplit", "answers.a_head_each"),
    ),
}
SOURCES = (
    "benchmarks/timed_bars.py", "tests/exercises/answers/phase1/copy.py", "course_lib/exercises/runners/phase1_copy.py",
    *(f"tests/exercises/answers/phase2/{name}.py" for name in ("attend_rows", "flash", "paged", "split_decode")),
    *(f"course_lib/exercises/runners/phase2_{name}.py" for name in ("attend_rows", "flash", "paged", "split_decode")),
    "course_lib/workloads/beside_peer.py", "course_lib/timing/events.py", "course_lib/timing/flush.py",
)  # fmt: skip


def main() -> int:
    import torch

    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    wanted = [number for number in sys.argv[1:] if number in ANSWERS] or list(ANSWERS)
    rows = [row for number in wanted for row in rows_of(number)]
    print(write_result("timed_bars", rows, SOURCES))
    return 0


def rows_of(number: str) -> list[dict[str, Any]]:
    """A row for each answer and timed criterion: its ratios to the criterion's peer in five runs."""
    rows = []
    bars = {criterion.name: criterion.bar for criterion in exercise(number).in_cell("timed")}
    for role, name, answer in answers_of(number):
        runs = [{o.name: o for o in check_live(number, answer, "timed", seed=seed).outcomes} for seed in range(1, RUNS + 1)]
        for criterion, bar in bars.items():
            outcomes = [run[criterion] for run in runs]
            case = f"{number}, {criterion}, {role}: {name}"
            ratios = sorted(outcome.evidence["ratio"] for outcome in outcomes if "ratio" in outcome.evidence)
            if len(ratios) < RUNS:
                print(f"{case}: {outcomes[0].reason}", flush=True)
                continue
            ours, states = ratios[RUNS // 2], [outcome.state.value for outcome in outcomes]
            rows.append({
                "case": case, "unit": "of the peer's speed", "ours": ours, "peer": 1.0,
                "peer_name": outcomes[0].evidence["peer"].split(" (")[0], "ratio": ours, "roof_share": None,
                "spread": [ratios[0], ratios[-1]], "bar": bar, "role": role, "states": states,
            })  # fmt: skip
            margin = f"{(ratios[0] - bar) / max(ratios[-1] - ratios[0], 1e-9):.1f} spreads above the bar"
            print(f"{case}: {ours:.3f} [{ratios[0]:.3f} to {ratios[-1]:.3f}], bar {bar}, {margin}; {states}", flush=True)
    return rows


def answers_of(number: str) -> list[tuple[str, str, Callable[..., Any]]]:
    module, right, slow = ANSWERS[number]
    tests = import_module(f"tests.gpu.{module}")
    at_top = getattr(tests, "kernels_at_top", lambda answer: answer)  # where an answer makes its kernels at each call
    found = [("right", "the notebook's", notebooks_own(number))]
    for role, names in (("right", right), ("slow", slow)):
        for name in names:
            answer: Any = tests
            for part in name.split("."):
                answer = getattr(answer, part)
            found.append((role, name.removeprefix("answers."), at_top(answer)))
    return found


def notebooks_own(number: str) -> Callable[..., Any]:
    """The solved cells of an exercise, executed as a file of their own."""
    (path,) = (ROOT / "solutions").glob(f"phase{number[0]}_*.py")
    cell = re.compile(rf'^# %% grade_id="ex-{number.replace(".", "-")}(?:-[a-z])?".*?\n(.*?)(?=^# %%)', re.DOTALL | re.MULTILINE)
    source = "\n\n".join(cell.findall(path.read_text(encoding="utf-8")))
    file = f"<the notebook's answer to {number}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space: dict[str, Any] = {"__name__": f"notebook_{number.replace('.', '_')}", "torch": import_module("torch")}
    exec(compile(source, file, "exec"), space)
    return space[exercise(number).entry]


if __name__ == "__main__":
    sys.exit(main())
