"""Exercise 1.8, a scheduler that knows the roofline: what is asked, and how the plans of an answer are judged.

The runner brings back plans. They are replayed here, through the same trace, so nothing that the
answer's process says about times or tokens is taken on trust. Traces are in scheduler_cases.py.
"""

import json
from functools import lru_cache
from typing import Any

from ...grading.criteria import Case, Correct
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from ...workloads.served import ROUNDING, counted, goodput, in_time, longest_wait, tokens_made, tokens_per_second, worst_gap_ms
from .scheduler_cases import goodput_cases, itl_cases, kv_cases, plan_cases, starvation_cases, throughput_cases

LEAST_TOKENS = 0.25  # of the reference's: whoever does nothing keeps every promise
LEAST_GOODPUT = 0.85  # of the reference's; of the answers known, wrong ones reach 0.4 at most, right ones 1.0
LEAST_THROUGHPUT = 0.75  # of the reference's in each trace; wrong ones fall to 0.45 or less in one, right ones reach 0.99
MOST_WAITING = 4.0  # times the reference's longest wait; wrong ones reach 1.5 times as much, right ones a quarter


def _replayed(case: Case, output: Any) -> Any:
    """The engine after the answer's plans, or a Mistake when the output is no list of plans."""
    from ...workloads.batching import replay

    def whole(value: Any) -> bool:
        return type(value) is int

    def plan(value: Any) -> bool:
        if not isinstance(value, dict) or not value.keys() <= {"decode", "prefill", "malformed"}:
            return False
        decode, prefill = value.get("decode", []), value.get("prefill", [])
        if not isinstance(decode, list) or not isinstance(prefill, list) or type(value.get("malformed", "")) is not str:
            return False
        return all(map(whole, decode)) and all(isinstance(p, list) and len(p) == 2 and all(map(whole, p)) for p in prefill)

    if not isinstance(output, list) or not all(map(plan, output)):
        return Mistake("the plans did not come back as plans", "Are there far too many entries in one of them?")
    return replay(case, output)


def _reference(case: Case) -> Any:
    """The engine after the reference's plans. Only to be read: it is kept for the next answer to the same case."""
    return _reference_of(json.dumps(case))


@lru_cache(maxsize=64)
def _reference_of(case_json: str) -> Any:
    from ...roofline.scheduling import plan_step
    from ...workloads.batching import simulate

    return simulate(json.loads(case_json), plan_step)


def _too_idle(case: Case, engine: Any) -> Mistake | None:
    """A promise kept by hardly doing anything is not kept."""
    made, could = tokens_made(engine), tokens_made(_reference(case))
    if made >= LEAST_TOKENS * could:
        return None
    return Mistake(f"{made} tokens were made in {case['until_ms']:.0f} ms; {could} can be, with every promise kept",
                   "Does everyone who runs get a token in each step?")  # fmt: skip


def check_plans(case: Case, output: Any) -> Mistake | None:
    """Every entry is something that the engine can do, and no step is empty while there is work."""
    engine = _replayed(case, output)
    if isinstance(engine, Mistake):
        return engine
    words = {
        "unknown": ("is not there", "Which ids are in the state of this very step?"),
        "twice": ("stands in the plan twice", "A request has one entry in a step."),
        "phase": ("is in the other list", "Who waits is prefilled, who runs decodes."),
        "tokens": ("cannot take so many", "A chunk has at least one token, and no more than prompt_left."),
    }
    for place, record in enumerate(engine.records):
        if record["malformed"]:
            return Mistake(f"{_step(place, record)}: {record['malformed']}")
        for number, tokens, why in record["refused"]:
            if why in words:
                return Mistake(f"{_step(place, record)}: request {number} with {tokens} tokens {words[why][0]}", words[why][1])
        if not record["decode"] + record["prefill_tokens"] and not record["refused"]:
            return Mistake(f"{_step(place, record)}: an empty plan, with {record['waiting']} waiting and nobody else served",
                           "What would change before the next step?")  # fmt: skip
    return None


def check_itl(case: Case, output: Any) -> Mistake | None:
    """No gap between two tokens of a request is longer than the target."""
    engine = _replayed(case, output)
    if isinstance(engine, Mistake):
        return engine
    target = case["itl_target_ms"]
    late = [r for r in engine.all if r["made"] and worst_gap_ms(engine, r) > target * (1 + ROUNDING)]
    if not late:
        return _too_idle(case, engine)
    gap = max(worst_gap_ms(engine, request) for request in late)
    place, longest = max(enumerate(engine.records), key=lambda pair: pair[1]["step_ms"])
    if longest["step_ms"] <= target * (1 + ROUNDING):
        number = max(late, key=lambda request: worst_gap_ms(engine, request))["id"]
        reason = f"request {number} waited {gap:.1f} ms for a token, over several steps; the target is {target:.1f} ms"
        return Mistake(reason, "Does everyone who runs get a token in each step?")
    reason = (f"{_step(place, longest)} takes {longest['step_ms']:.1f} ms, the target is {target:.1f} ms. Its "
              f"{longest['decode']} decodes and {longest['prefill_tokens']} prompt tokens need "
              f"{longest['arithmetic_ms']:.1f} ms of arithmetic and {longest['memory_ms']:.1f} ms of memory")  # fmt: skip
    if longest["arithmetic_ms"] >= longest["memory_ms"]:
        return Mistake(reason, "A step has room for a number of tokens, decodes included, and a prompt can be cut.")
    return Mistake(reason, "Memory reads the weights, and the KV of everyone in the step. That KV grows with every token.")


def check_kv(case: Case, output: Any) -> Mistake | None:
    """No plan asks for a block that is not there, and everyone who runs finds room for the next token."""
    engine = _replayed(case, output)
    if isinstance(engine, Mistake):
        return engine
    for place, record in enumerate(engine.records):
        here = f"{_step(place, record)}, {record['free_blocks']} of {case['total_blocks']} blocks free"
        if record["stranded"]:
            hint = "How many blocks will a request hold at its last token? Who has begun may come to need them all."
            return Mistake(f"{here}: those who run need more than that for their next token", hint)
        for number, tokens, why in record["refused"]:
            if why == "blocks":
                return Mistake(f"{here}: no room for {tokens} tokens of request {number}",
                               "The entries of a plan share the free blocks.")  # fmt: skip
    return _too_idle(case, engine)


def check_starvation(case: Case, output: Any) -> Mistake | None:
    """Everybody gets a first token in a bounded time."""
    engine = _replayed(case, output)
    if isinstance(engine, Mistake):
        return engine
    most_ms = max(MOST_WAITING * longest_wait(_reference(case))[0], 10 * case["itl_target_ms"])
    waited_ms, request = longest_wait(engine)
    if waited_ms <= most_ms:
        return None
    end = "until" if request["first_ms"] is not None else "without"
    reason = (f"request {request['id']}, of {request['prompt_tokens']} tokens, waited {waited_ms:.0f} ms {end} its first token; "
              f"{most_ms:.0f} ms are enough")  # fmt: skip
    return Mistake(reason, "Who goes first when somebody large waits and small ones keep coming?")


def check_goodput(case: Case, output: Any) -> Mistake | None:
    """The share of requests that keep both targets."""
    engine = _replayed(case, output)
    if isinstance(engine, Mistake):
        return engine
    share, could = goodput(engine), goodput(_reference(case))
    if share >= LEAST_GOODPUT * could:
        return None
    missed = [r for r in counted(engine) if not in_time(engine, r)]
    late = sum(worst_gap_ms(engine, r) > case["itl_target_ms"] * (1 + ROUNDING) for r in missed if r["made"])
    reason = f"{share:.0%} of the requests meet both targets, {could:.0%} can; {late} of the {len(missed)} others miss the ITL"
    return Mistake(reason, "" if late else "Their first token comes too late. What else could a step have done?")


def check_throughput(case: Case, output: Any) -> Mistake | None:
    """Tokens of prompts and answers in a second, when there is more to do than can be done."""
    engine = _replayed(case, output)
    if isinstance(engine, Mistake):
        return engine
    share = tokens_per_second(engine) / tokens_per_second(_reference(case))
    if share >= LEAST_THROUGHPUT:
        return None
    each = sum(r["decode"] + r["prefill_tokens"] for r in engine.records) / max(len(engine.records), 1)
    reason = f"{tokens_per_second(engine):,.0f} tokens/s of prompts and answers, {share:.0%} of what a good scheduler reaches"
    return Mistake(reason, f"A step of yours has {each:.0f} tokens on average. How many cost no more time than one?")


def _step(place: int, record: dict) -> str:
    return f"step {place + 1}, at {record['start_ms']:.0f} ms"


def _criterion(name: str, claim: str, points: float, cases: Any, check: Any) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=check, run="plans_of_a_trace")


SCHEDULER = Exercise(
    id="1.8",
    title="A scheduler that knows the roofline",
    entry="plan_step",
    params=("state",),
    returns='dict: "decode" a list of ids, "prefill" a list of (id, tokens)',
    runner="phase1_scheduler",
    may_import=frozenset({"bisect", "collections", "heapq", "itertools", "math", "torch"}),
    seconds=60.0,
    criteria=(
        _criterion("plans", "every plan is one that the engine can carry out", 1.0, plan_cases, check_plans),
        _criterion("ITL", "nobody waits longer than the target between two tokens", 3.0, itl_cases, check_itl),
        _criterion("KV headroom", "whoever has begun finds blocks to the end", 2.0, kv_cases, check_kv),
        _criterion("nobody starves", "a large request is not passed over for ever", 1.0, starvation_cases, check_starvation),
        _criterion("goodput", "as many requests meet both targets as can", 2.0, goodput_cases, check_goodput),
        _criterion("throughput", "under overload no step is wasted", 1.0, throughput_cases, check_throughput),
    ),
)
