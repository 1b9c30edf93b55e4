"""Variants of one call, tiles say, in turns with a peer: a row for each, beside the peer and beside the default."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ._peers import Call, Row, alone, apart, in_a_line, in_turns, rates


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several ways of doing the same. default: the name of the one that is taken unless another is asked for."""

    call: Call
    default: str
    fields: dict[str, Any] = field(default_factory=dict)  # of its row
    why_not: str = ""  # known before: it does not run, or is wrong


def variant_rows(
    words: str, unit: str, work: float, variants: Mapping[str, Variant], *, right: torch.Tensor, budget: float,
    peer_name: str, peer: Call | None, roof: float | None = None, rounds: int = 5,
) -> list[Row]:  # fmt: skip
    """A row for each variant, best first, all in turns with the peer: `ratio` is to the peer, `ratio_to_default` to the default.

    right, budget  what each has to give, and how far off it may be
    peer           None where it does not run here
    One that fails or is wrong has None for its rate and says `why_not`; it comes last.
    """
    why_not = {name: one.why_not or _what_is_wrong(one.call, right, budget) for name, one in variants.items()}
    calls = {name: one.call for name, one in variants.items() if not why_not[name]}
    seconds = in_turns(calls | ({peer_name: peer} if peer else {}), rounds)
    theirs = rates(work, seconds[peer_name])[0] if peer else None
    rows = []
    for name, one in variants.items():
        row = alone(f"{words}: {name}", unit, None) | one.fields
        row |= {"is_default": name == one.default, "ratio_to_default": None, "why_not": why_not[name]}
        if name in calls:
            ours, low, high = rates(work, seconds[name])
            row |= {"ours": ours, "spread": [low, high], "roof_share": ours / roof if roof else None}
            if theirs:
                row |= {"peer": theirs, "peer_name": peer_name, "ratio": ours / theirs}
            if one.default in calls:
                row["ratio_to_default"] = ours / rates(work, seconds[one.default])[0]
        rows.append(row)
    return sorted(rows, key=lambda row: -(row["ours"] or 0))


def _what_is_wrong(call: Call, right: torch.Tensor, budget: float) -> str:
    try:
        distance = apart(call(), right)
    except Exception as error:  # a variant that does not fit is a row of the table, not the end of it
        return in_a_line(error)
    return "" if distance <= budget else f"WRONG: {distance} from the default's, the budget is {budget}"
