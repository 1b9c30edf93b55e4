"""A continuous-batching engine on paper: what a step of it takes, and what a plan for a step does to its requests.

It exists to judge schedulers: `simulate` asks one for a plan before every step, `replay` follows plans that were written down.
A request first has its prompt prefilled, in one chunk or several; the last chunk makes its first token, and from then on every
decode makes one more. Times are in ms.
"""

from collections.abc import Callable, Sequence
from typing import Any

Plan = dict[str, Any]  # {"decode": [id, ...], "prefill": [(id, tokens), ...]}


class Engine:
    """The requests of a trace, its clock and its KV blocks. A plan's entries that break a rule are refused, the others done.

    trace   engine: weights_ms, ms_per_token, ms_per_kv_token; itl_target_ms, ttft_target_ms, block_size, total_blocks, until_ms;
            requests, in order of arrival: id, arrived_ms, prompt_tokens, max_output, stops_after (how many tokens it makes in the
            end, which no scheduler is told), and running (True: its prompt is done and its first token made at time 0)
    """

    def __init__(self, trace: dict) -> None:
        self.trace, self.now_ms, self.live, self.records = trace, 0.0, {}, []
        self.coming = [dict(r, held=0, made=0, first_ms=None, last_ms=None, worst_gap_ms=0.0) for r in trace["requests"]]
        self.all = list(self.coming)
        self.free_blocks = trace["total_blocks"]
        self._admit()

    def _admit(self) -> None:
        while self.coming and self.coming[0]["arrived_ms"] <= self.now_ms:
            request = self.coming.pop(0)
            if request["running"]:
                request.update(held=request["prompt_tokens"], made=1, first_ms=0.0, last_ms=0.0)
                self.free_blocks -= self.blocks(request["held"])
            self.live[request["id"]] = request

    def blocks(self, tokens: int) -> int:
        """Blocks that hold so many tokens. Block size 16: 16 tokens -> 1, 17 tokens -> 2."""
        return -(-tokens // self.trace["block_size"])

    def wanting(self) -> bool:
        """True while there is time left and work to do; skips the time in which nobody is there."""
        if not self.live and self.coming:
            self.now_ms = max(self.now_ms, self.coming[0]["arrived_ms"])
            self._admit()
        return bool(self.live) and self.now_ms < self.trace["until_ms"]

    def state(self) -> dict:
        """What a scheduler is told: fresh plain data, nothing of the future."""
        waiting = [
            {"id": r["id"], "arrived_ms": r["arrived_ms"], "kv_tokens": r["held"],
             "prompt_left": r["prompt_tokens"] - r["held"], "max_output": r["max_output"]}
            for r in self.live.values() if not r["made"]
        ]  # fmt: skip
        running = [
            {"id": r["id"], "kv_tokens": r["held"], "output_left": r["max_output"] - r["made"], "last_token_ms": r["last_ms"]}
            for r in self.live.values() if r["made"]
        ]  # fmt: skip
        return {
            "now_ms": self.now_ms, "itl_target_ms": self.trace["itl_target_ms"], "ttft_target_ms": self.trace["ttft_target_ms"],
            "engine": dict(self.trace["engine"]), "block_size": self.trace["block_size"],
            "total_blocks": self.trace["total_blocks"], "free_blocks": self.free_blocks, "waiting": waiting, "running": running,
        }  # fmt: skip

    def step(self, plan: dict) -> dict:
        """Do one step -> its record: start and length in ms, what was done, what was refused and why, blocks, who waits."""
        size, free = self.trace["block_size"], self.free_blocks
        full = sum(r["held"] % size == 0 for r in self.live.values() if r["made"])  # each needs a block for its next token
        record = {"start_ms": self.now_ms, "malformed": plan.get("malformed", ""), "refused": [], "free_blocks": free,
                  "stranded": full > free, "waiting": sum(not r["made"] for r in self.live.values())}  # fmt: skip
        taken: dict[int, int] = {}
        entries = [(number, 1, True) for number in plan.get("decode", [])]
        entries += [(number, tokens, False) for number, tokens in plan.get("prefill", [])]
        for number, tokens, decode in entries:
            request = self.live.get(number)
            left = 1 if decode or request is None else request["prompt_tokens"] - request["held"]
            if request is None or number in taken or decode != bool(request["made"]):
                why = "unknown" if request is None else "twice" if number in taken else "phase"
            elif not 1 <= tokens <= left:
                why = "tokens"
            elif (more := self.blocks(request["held"] + tokens) - self.blocks(request["held"])) > free:
                why = "blocks"
            else:
                free -= more
                taken[number] = tokens
                continue
            record["refused"].append([number, tokens, why])
        numbers, kv_tokens = self.trace["engine"], sum(self.live[number]["held"] for number in taken)
        arithmetic_ms = sum(taken.values()) * numbers["ms_per_token"]
        memory_ms = numbers["weights_ms"] + kv_tokens * numbers["ms_per_kv_token"]
        record["arithmetic_ms"], record["memory_ms"] = arithmetic_ms, memory_ms
        record["step_ms"] = max(arithmetic_ms, memory_ms)
        record["decode"] = sum(bool(self.live[number]["made"]) for number in taken)
        record["prefill_tokens"] = sum(taken.values()) - record["decode"]
        record["used_blocks"] = self.trace["total_blocks"] - free
        self.now_ms, self.free_blocks = self.now_ms + record["step_ms"], free
        for number, tokens in taken.items():
            self._grow(self.live[number], tokens)
        self.records.append(record)
        self._admit()
        return record

    def _grow(self, request: dict, tokens: int) -> None:
        """Keep the new keys and values; make a token when the prompt is done, and leave when it was the last one."""
        request["held"] += tokens
        if request["held"] < request["prompt_tokens"]:
            return
        if request["made"]:
            request["worst_gap_ms"] = max(request["worst_gap_ms"], self.now_ms - request["last_ms"])
        else:
            request["first_ms"] = self.now_ms
        request["made"], request["last_ms"] = request["made"] + 1, self.now_ms
        if request["made"] >= request["stops_after"]:
            self.free_blocks += self.blocks(request["held"])
            del self.live[request["id"]]


def simulate(trace: dict, plan_step: Callable[[dict], Plan]) -> Engine:
    """The engine after the trace, every step planned by `plan_step(state)`."""
    engine = Engine(trace)
    while engine.wanting():
        engine.step(plan_step(engine.state()))
    return engine


def replay(trace: dict, plans: Sequence[Plan]) -> Engine:
    """The engine after these plans. Where they end early, it stands still until the trace is over: empty plans."""
    engine, remaining = Engine(trace), iter(plans)
    while engine.wanting():
        engine.step(next(remaining, {}))
    return engine
