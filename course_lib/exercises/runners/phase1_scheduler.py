"""Exercise 1.8: an engine on paper (course_lib.workloads.batching) asks the learner's scheduler for a plan before every step.

Only the plans leave this process. What they did to the requests is worked out outside, from the trace.
"""

from itertools import islice
from operator import index
from typing import Any

__course_runner__ = True  # messages name the learner's line, not one of this file

MOST_ENTRIES = 10_000  # of one plan


def plans_of_a_trace(entry: Any, case: dict) -> list[dict]:
    """Every plan that the learner's function made. It sees a fresh copy of the state, and nothing of the future."""
    from course_lib.workloads.batching import Engine

    engine, plans = Engine(case), []
    while engine.wanting():
        plans.append(_plain(entry(engine.state())))
        engine.step(plans[-1])
    return plans


def _plain(plan: Any) -> dict:
    """{"decode": [id, ...], "prefill": [[id, tokens], ...]}, or {"malformed": why} for what cannot be read as a plan."""
    if not isinstance(plan, dict):
        return {"malformed": f"a plan is a dict with decode and prefill, this is of type {type(plan).__name__}"[:200]}
    try:
        decode = [_whole(number) for number in islice(plan["decode"], MOST_ENTRIES + 1)]
        prefill = [[_whole(number), _whole(tokens)] for number, tokens in islice(plan["prefill"], MOST_ENTRIES + 1)]
    except KeyError as error:
        return {"malformed": f"the plan has no {error}"}
    except (TypeError, ValueError) as error:
        return {"malformed": f"decode lists ids, prefill pairs (id, tokens), all int; {type(error).__name__}: {error}"[:200]}
    if len(decode) + len(prefill) > MOST_ENTRIES:
        return {"malformed": f"a plan of more than {MOST_ENTRIES:,} entries"}
    return {"decode": decode, "prefill": prefill}


def _whole(value: Any) -> int:
    number = index(value)
    if abs(number) >= 2**63:
        raise ValueError(f"a number of {number.bit_length()} bits")
    return number
