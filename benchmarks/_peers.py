"""What benchmarks of calls beside their peers share: the frame, calls in turns, rows of a result, and what is printed of them.

Work   of one call, in the unit's numerator: GB for GB/s, TFLOP for TFLOP/s, 1 for calls/s
Row    the fields of _result.py; `bar` is asked of the ratio, `roof_bar` of the share of the roof
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from course_lib.timing import l2_flusher, time_calls

from ._result import write_result

SOURCES = ("benchmarks/_peers.py", "course_lib/timing/events.py", "course_lib/timing/flush.py")
PRODUCT_SOURCES = (  # of _points.product_tflops
    "benchmarks/_points.py", "course_lib/workloads/large_product.py", "course_lib/workloads/event_seconds.py",
)  # fmt: skip
ROUNDS, REPEATS = 7, 3
SDPA = {"SDPA cuDNN": SDPBackend.CUDNN_ATTENTION, "SDPA flash": SDPBackend.FLASH_ATTENTION}
Row = dict[str, Any]
Call = Callable[[], Any]


def run(name: str, sources: Sequence[str], measure: Callable[[], Iterator[Row]]) -> int:
    """Print each row as it comes, write them all -> the exit code."""
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    rows = []
    for row in measure():
        print(words_of(row), flush=True)
        rows.append(row)
    print(write_result(name, rows, sources))
    return 0


def in_turns(calls: Mapping[str, Call], rounds: int = ROUNDS, repeats: int = REPEATS) -> dict[str, list[float]]:
    """Seconds of each call in each round: a median with a cold L2, every second round backwards."""
    flush = l2_flusher()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(calls)[:: 1 if number % 2 == 0 else -1]:
            seconds[name].append(time_calls(calls[name], repeats=repeats, warmup=1, before=flush).median_seconds)
    return seconds


def rates(work: float, seconds: Sequence[float]) -> tuple[float, float, float]:
    """(median, lowest, highest) work a second."""
    return work / statistics.median(seconds), work / max(seconds), work / min(seconds)


def sdpa(backend: SDPBackend, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, **options: Any) -> Call:
    """torch's attention over [batch, heads, rows, head_dim] by one backend; options as torch's function takes them."""

    def call() -> torch.Tensor:
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, **options)

    return call


def first_result(name: str, call: Call) -> Any:
    """What the call gives; None, and a line that says why, where a peer does not run here."""
    try:
        return call()
    except RuntimeError as error:
        print(f"{name} does not run: {in_a_line(error)}", flush=True)
        return None


def in_a_line(error: Exception) -> str:
    """ValueError("too large\\nand more") -> "ValueError: too large"."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:150]}"


def budget_of(values: torch.Tensor) -> float:
    """How far two attentions over V = `values` may be apart: each rounds its weights and its result to bf16, and is off by at
    most 2 ** -7 of the largest value."""
    return 2 * 2**-7 * values.abs().max().item()


def apart(found: torch.Tensor, right: torch.Tensor) -> float:
    return (found.float() - right.float()).abs().max().item()


def check_alike(words: str, found: torch.Tensor, right: torch.Tensor, budget: float) -> None:
    """AssertionError where they are further apart, or one holds NaN."""
    if not (distance := apart(found, right)) <= budget:
        raise AssertionError(f"{words} differ by {distance}, more than {budget}")


def alone(case: str, unit: str, ours: float | None, spread: Sequence[float] | None = None) -> Row:
    """The row of what has no peer."""
    return {"case": case, "unit": unit, "ours": ours, "peer": None, "peer_name": None, "ratio": None, "roof_share": None,
            "spread": spread}  # fmt: skip


def rows_beside(
    words: str, unit: str, work: float, seconds: Mapping[str, Sequence[float]], *, roof: float | None = None,
    peer_work: Mapping[str, float] | None = None, bars: Mapping[str, float] | None = None, **more: Any,
) -> list[Row]:  # fmt: skip
    """A row for each peer in `seconds`; "ours" is the same measurement in all of them.

    roof       rate that the share of the roof is of
    peer_work  where a peer does another work than ours
    bars       peer -> ratio that is asked for; more: further fields of every row
    """
    ours, low, high = rates(work, seconds["ours"])
    rows = []
    for name in [name for name in seconds if name != "ours"]:
        theirs = (peer_work or {}).get(name, work)
        peer = rates(theirs, seconds[name])[0]
        ratios = [work / mine / (theirs / its) for mine, its in zip(seconds["ours"], seconds[name], strict=True)]
        asked = {"bar": bars[name]} if bars and name in bars else {}
        rows.append({
            "case": f"{words}, against {name}", "unit": unit, "ours": ours, "peer": peer, "peer_name": name,
            "ratio": ours / peer, "roof_share": ours / roof if roof else None, "spread": [low, high],
            "ratio_by_round": [min(ratios), max(ratios)], "microseconds": work / ours * 1e6, **asked, **more,
        })  # fmt: skip
    return rows


def words_of(row: Row) -> str:
    """The line of a row: `4 x 4096, against SDPA cuDNN: 499 TFLOP/s, 1.03 of SDPA cuDNN (483) [1.02 to 1.04]`."""
    if row["ours"] is None:
        return f"{row['case']}: {row['why_not']}"
    parts = [f"{row['case']}: {_number(row['ours'])} {row['unit']}"]
    if row["ratio"] is not None:
        by_round = row.get("ratio_by_round")
        rounds = f" [{by_round[0]:.3f} to {by_round[1]:.3f}]" if by_round else ""
        parts.append(f"{row['ratio']:.3f} of {row['peer_name']} ({_number(row['peer'])}){rounds}{_asked(row, 'ratio', 'bar')}")
    if row["roof_share"] is not None:
        parts.append(f"{row['roof_share']:.3f} of the roof{_asked(row, 'roof_share', 'roof_bar')}")
    if row.get("is_default"):
        parts.append("the default")
    elif row.get("ratio_to_default") is not None:
        parts.append(f"{row['ratio_to_default']:.3f} of the default")
    return ", ".join(parts)


def _asked(row: Row, value: str, bar: str) -> str:
    return f" bar {row[bar]}{'' if row[value] >= row[bar] else ' MISSED'}" if bar in row else ""


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
