"""What the users of a simulated engine got: gaps between tokens, waits for the first, goodput, tokens in a second.

Every function takes an `Engine` (batching.py) at the end of its trace. Times are in ms.
"""

from .batching import Engine

ROUNDING = 1e-6  # a step computed to be exactly on the target may miss it by a rounding


def worst_gap_ms(engine: Engine, request: dict) -> float:
    """The longest gap between two tokens of a request; one that is still open when the trace ends counts as well."""
    unfinished = request["id"] in engine.live and request["made"]
    return max(request["worst_gap_ms"], engine.now_ms - request["last_ms"] if unfinished else 0.0)


def longest_wait(engine: Engine) -> tuple[float, dict]:
    """(ms, request): from arrival to the first token, or to the end of the trace."""

    def waited(request: dict) -> float:
        end = engine.now_ms if request["first_ms"] is None else request["first_ms"]
        return max(0.0, end - request["arrived_ms"])

    longest = max(engine.all, key=waited)
    return waited(longest), longest


def counted(engine: Engine) -> list[dict]:
    """The requests that came early enough for one to tell whether their first token was in time."""
    last_ms = engine.trace["until_ms"] - engine.trace["ttft_target_ms"]
    return [request for request in engine.all if request["arrived_ms"] <= last_ms]


def in_time(engine: Engine, request: dict) -> bool:
    """True when the first token came within the TTFT target, and every later one within the ITL target of the one before."""
    if request["first_ms"] is None or request["first_ms"] - request["arrived_ms"] > engine.trace["ttft_target_ms"]:
        return False
    return worst_gap_ms(engine, request) <= engine.trace["itl_target_ms"] * (1 + ROUNDING)


def goodput(engine: Engine) -> float:
    """Share of the counted requests that were served in time."""
    requests = counted(engine)
    return sum(in_time(engine, request) for request in requests) / max(len(requests), 1)


def tokens_made(engine: Engine) -> int:
    """Tokens of answers."""
    return sum(request["made"] for request in engine.all)


def tokens_per_second(engine: Engine) -> float:
    """Tokens that went through the engine, of prompts and of answers, in a second of its time."""
    return 1e3 * sum(r["decode"] + r["prefill_tokens"] for r in engine.records) / max(engine.now_ms, 1e-9)
