"""The same requests through each allocator: how much of KV memory holds tokens, and what the rest is.

Shares   live      slots with keys and values of a token
         reserved  taken for tokens that this request is still to write
         internal  taken and never to be used: rounding, and lengths that were not reached
         external  free, in holes too short for what the request at the head of the queue must get in one piece
         free      free, and of use; the five sum to 1
Server   everybody waits from the start, in order; the head is admitted as soon as it fits. A step writes one token for each one
         that runs; a prompt is written when its request is admitted. When a paged request needs a block and none is free, the one
         admitted last gives its blocks up and goes back to the head of the queue with the tokens it has.
Measured while requests wait and after the first has ended: a server under load. Before and after, memory is empty for want of
         requests.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from .baselines import Allocator, Held
from .errors import KVCacheError
from .trace import Request

PARTS = ("live", "reserved", "internal", "external", "free")


class Row(NamedTuple):
    """One moment, in slots; what a figure of memory over time draws."""

    step: int
    live: int
    reserved: int
    internal: int
    external: int
    free: int
    running: int
    waiting: int

    def shares(self) -> dict[str, float]:
        total = sum(getattr(self, part) for part in PARTS)
        return {part: getattr(self, part) / total for part in PARTS}


class Replay(NamedTuple):
    """`loaded`: the steps from the first end of a request until nobody waits any more."""

    allocator: str
    total_slots: int
    rows: list[Row]
    loaded: range
    steps: int
    preemptions: int

    def loaded_rows(self) -> list[Row]:
        """Raises KVCacheError when nobody ever waited after the first had ended."""
        rows = [row for row in self.rows if row.step in self.loaded]
        if not rows:
            raise KVCacheError(f"{self.allocator}: no row under load; use more requests, or less memory")
        return rows

    def mean_shares(self) -> dict[str, float]:
        """Mean over the rows under load."""
        shares = [row.shares() for row in self.loaded_rows()]
        return {part: sum(share[part] for share in shares) / len(shares) for part in PARTS}

    def mean_running(self) -> float:
        """Requests at once: what the memory that is not wasted buys."""
        rows = self.loaded_rows()
        return sum(row.running for row in rows) / len(rows)


def replay(requests: Sequence[Request], allocator: Allocator, *, every: int = 16, check: bool = False) -> Replay:
    """Run all requests to their end; a row every `every` steps. check: the allocator proves its books at each row."""
    if every < 1:
        raise KVCacheError(f"a row every {every} steps; use at least 1")
    waiting = deque((request, request.prompt_tokens) for request in requests)
    running: list[Held] = []
    rows: list[Row] = []
    step = preemptions = loaded_from = loaded_to = 0
    while waiting or running:
        while waiting and (held := allocator.admit(*waiting[0])):
            waiting.popleft()
            running.append(held)
        if step % every == 0:
            rows.append(_row(step, allocator, running, waiting[0][0] if waiting else None, len(waiting)))
            if check:
                allocator.check()
        if waiting:
            loaded_to = step + 1
        index = 0
        while index < len(running):
            if allocator.grow(running[index]):
                index += 1
                continue
            last = running.pop()  # perhaps the one that wanted to grow
            allocator.free(last)
            waiting.appendleft((last.request, last.tokens))
            preemptions += 1
        ended = [held for held in running if held.tokens == held.request.total_tokens]
        for held in ended:
            allocator.free(held)
        if ended:
            running = [held for held in running if held.tokens < held.request.total_tokens]
            loaded_from = loaded_from or step + 1
        step += 1
    return Replay(allocator.name, allocator.total_slots, rows, range(loaded_from, loaded_to), step, preemptions)


def _row(step: int, allocator: Allocator, running: Sequence[Held], head: Request | None, waiting: int) -> Row:
    external = allocator.external(head)
    return Row(
        step=step,
        live=sum(held.tokens for held in running),
        reserved=sum(held.reserved for held in running),
        internal=sum(held.internal for held in running),
        external=external,
        free=allocator.free_slots() - external,
        running=len(running),
        waiting=waiting,
    )
