"""What `labs claims` shows: the table or the cards, the same as data, and which arithmetic fails."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..claims import Claim, PartState, evidence
from ..claims.counts import count


def claims_view(claims: Sequence[Claim], in_full: bool) -> Iterator[Any]:
    """Rich renderables: one for each claim in full, or a table of all."""
    from ..display.claim_table import rich_claim, rich_table

    if in_full:
        yield from map(rich_claim, claims)
    else:
        yield rich_table(claims, "Shown here")


def claims_json(claims: Sequence[Claim]) -> dict[str, Any]:
    """{claims: [each row with `evidence`, a list of {part, state, value?, test?, measured?}], verdicts, states}."""
    from ..display.claim_words import evidence_rows

    rows = []
    for claim in claims:
        parts = []
        for part, _, came in evidence_rows(claim):
            found: dict[str, Any] = {"part": str(part.check), "state": str(part.state)}
            if part.evaluated is not None:
                found["value"] = part.evaluated.value
            if part.test:
                found["test"] = part.test
            if part.measured:
                found["measured"] = came  # the sentences, with their numbers
            parts.append(found)
        rows.append(claim.to_json() | {"evidence": parts})
    counts = count(claims, "")
    return {"claims": rows, "verdicts": counts.verdicts, "states": counts.states}


def failing(claims: Sequence[Claim]) -> list[str]:
    """Ids of those whose arithmetic does not give its number."""
    return [claim.id for claim in claims if any(part.state is PartState.FAILS for part in evidence(claim))]
