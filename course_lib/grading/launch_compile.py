"""What the recorded kernels of an attempt compile to, as the evidence that a `compiled` criterion weighs."""

from collections.abc import Mapping, Sequence
from typing import Any

from .criteria import Criterion

CELL = "<cell>"  # the same name in the notebook and in the judge


def compiled(cases: Sequence[tuple[Criterion, dict, Mapping[str, Any]]], cached: bool) -> list[dict]:
    """Compiled evidence for each (criterion, case, attempt) whose launches were replayed; what is equal is compiled once."""
    if not cases:
        return []
    from ..interpreter.recorded.recorded_compile import compile_recordings

    tapes: dict[tuple[str, ...], list[int]] = {}
    for place, (criterion, *_) in enumerate(cases):
        tapes.setdefault(tuple(criterion.targets), []).append(place)
    found: dict[int, dict] = {}
    for targets, places in tapes.items():
        try:
            data = [cases[i][2]["launches"]["tape"] for i in places]
            reports = compile_recordings(data, targets, cached=cached, where=CELL)
            found |= {i: _worst(targets, mine) for i, mine in zip(places, reports, strict=True)}
        except RuntimeError as error:
            found |= {i: {"blocked": f"nothing could be compiled here: {error}"} for i in places}
        except Exception as error:  # a forged recording has any shape
            found |= {i: {"failed": f"the launches cannot be compiled apart: {type(error).__name__}: {error}"} for i in places}
    return [found[i] for i in range(len(cases))]


def _worst(targets: Sequence[str], reports: Sequence[Any]) -> dict:
    """For each target the worst of all kernels; "kernels" keeps what each one had."""
    each = [{"kernel": report.kernel, **report.evidence()} for report in reports]
    merged = []
    for place, target in enumerate(targets):
        mine = [one["targets"][place] for one in each]
        if not mine:
            continue
        wrong = next(((one["kernel"], one["targets"][place]) for one in each if not one["targets"][place]["compiles"]), None)
        cores: dict[str, int] = {}
        for row in mine:
            for name, count in row["tensor_cores"].items():
                cores[name] = cores.get(name, 0) + count
        merged.append(
            {
                "target": target, "compiles": wrong is None, "why_not": f"{wrong[0]}: {wrong[1]['why_not']}" if wrong else "",
                "shared_bytes": max(row["shared_bytes"] for row in mine), "shared_limit_bytes": mine[0]["shared_limit_bytes"],
                "spills": max(row["spills"] for row in mine), "tensor_cores": cores,
            }
        )  # fmt: skip
    return {"targets": merged, "kernels": each}
