"""Scrapes for exercise 2.11's diagnosis: two readings of the library's own metrics around a stretch of a simulated run.

Each run has a planted cause: nothing to share, a pool that is too small, blocks that somebody forgot to give back. Where a bound
is given it was counted: the same prompts through a pool that never evicts.
"""

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from ...grading.criteria import Case

if TYPE_CHECKING:
    from ...kvcache import KVMetrics

Scrape = dict[str, int | float]


class Run(NamedTuple):
    before: Scrape
    after: Scrape
    bound_hits: int


def number_cases(seed: int) -> list[Case]:
    """Runs for what can be computed: hit rate, waste and room."""
    draw = random.Random(seed)
    size = draw.choice((4, 8))
    prompts = _customers(draw, size, 24)
    busy = _run(prompts, 12, 400, size, running=prompts[:5], preallocate=9)
    full = _run(prompts, 10, 40, size, running=prompts[:2])
    quiet = _run(prompts, len(prompts), 400, size)
    changed = _run(prompts, 12, 400, size, running=prompts[:2], early=prompts[3:9], preallocate=5)
    short = _run([_text(draw, size + 1) for _ in range(6)], 2, 40, size, running=[_text(draw, n) for n in (1, size, size + 1)])
    return [
        _case("sequences are running, more blocks than they need", busy, size),
        _case("no block is free, and many are cached", full, size),
        _case("nobody asks any more", quiet, size, bound=False),
        _case("short sequences", short, size),
        _case("other sequences at each of the scrapes", changed, size),
    ]


def cause_cases(seed: int) -> list[Case]:
    """Runs for what can or cannot be told, and plain numbers on the edges."""
    draw = random.Random(seed)
    size = draw.choice((4, 8))
    customers, once = _customers(draw, size, 30), [_text(draw, 6 * size + draw.randint(1, size)) for _ in range(20)]
    small = _run(customers, 20, 16, size)  # five beginnings of four blocks each do not fit
    single = _run(once, 10, 16, size)
    large = _run(customers, 10, 600, size)
    idle = _run(customers, len(customers), 16, size)
    waiting = _run(customers, 20, 60, size, running=customers[:2])
    leaking = _run(customers, 20, 60, size, forgotten=1)
    hidden = _run(customers, 20, 60, size, running=customers[:1], forgotten=2)
    since = _run(customers, 2, 16, size)
    old = _run(customers, 20, 60, size, early_forgotten=2)
    ended = _run(customers, 20, 80, size, early=customers[:3], forgotten=1)
    clean = _run(customers, 20, 80, size, early=customers[:3])
    assert since.before["prefix_cache_evictions"] == 0 < since.after["prefix_cache_evictions"]
    assert old.before["kv_blocks_held"] == old.after["kv_blocks_held"] > 0 == old.after["kv_sequences"]
    assert ended.before["kv_blocks_held"] > ended.after["kv_blocks_held"] > 0
    return [
        _case("a pool that is too small", small, size),
        _case("a pool that is too small, and nobody knows the bound", small, size, bound=False),
        _case("texts that nobody sends twice", single, size),
        _case("texts that nobody sends twice, and nobody knows the bound", single, size, bound=False),
        _case("a large pool", large, size),
        _case("a large pool, and nobody knows the bound", large, size, bound=False),
        _case("nobody asks any more, after evictions", idle, size, bound=False),
        _case("sequences are running", waiting, size),
        _case("no sequence, and blocks are held", leaking, size),
        _case("a sequence is running, and blocks are held besides", hidden, size),
        _case("the first evictions come between the scrapes, and nobody knows the bound", since, size, bound=False),
        _case("no sequence, and blocks are held as before", old, size),
        _case("the sequences of the first scrape have ended, and a block is held", ended, size),
        _case("the sequences of the first scrape have ended", clean, size),
        *_edges(draw, small, size),
    ]


def _edges(draw: random.Random, run: Run, size: int) -> list[Case]:
    """9 of 10 to be had are found, one token less, one more; all of them; evictions before the window only."""
    unit = draw.randint(20, 60)  # with 15 units of queries, rates in float meet the edge too
    found = 9 * unit
    cases = []
    for name, hits, bound in (
        ("nine tenths of what could be found", found, 10 * unit), ("a token less than nine tenths", found - 1, 10 * unit),
        ("a token more than nine tenths", found + 1, 10 * unit), ("all that could be found", found, found),
        ("nothing could be found", 0, 0),
    ):  # fmt: skip
        cases.append(_case(name, _with(run, hits, 15 * unit, 3)._replace(bound_hits=bound), size))
    cases.append(_case("evictions, but none between the scrapes", _with(run, found, 15 * unit, 0), size, bound=False))
    return cases


def _with(run: Run, hits: int, queries: int, evictions: int) -> Run:
    """The same run with other counts between its scrapes."""
    before, after = run.before, dict(run.after)
    assert before["prefix_cache_evictions"] > 0
    for name, more in (("queries", queries), ("hits", hits), ("misses", queries - hits), ("evictions", evictions)):
        after[f"prefix_cache_{name}"] = before[f"prefix_cache_{name}"] + more
    return run._replace(after=after)


def _case(name: str, run: Run, size: int, bound: bool = True) -> Case:
    known = run.bound_hits if bound else None
    return {"name": name, "before": run.before, "after": run.after, "block_size": size, "bound_hits": known}


def _text(draw: random.Random, tokens: int) -> list[int]:
    return [draw.randrange(10**6) for _ in range(tokens)]


def _customers(draw: random.Random, size: int, count: int) -> list[list[int]]:
    """Prompts that begin with one of five instructions of four blocks; all five come up at once, and again and again."""
    starts = [_text(draw, 4 * size) for _ in range(5)]
    order = [number % 5 for number in range(count)]
    return [starts[number] + _text(draw, draw.randint(1, 2 * size)) for number in order]


def _run(
    prompts: list[list[int]], window: int, num_blocks: int, size: int, *,
    running: list[list[int]] = (), preallocate: int = 0, forgotten: int = 0,
    early: list[list[int]] = (), early_forgotten: int = 0,
) -> Run:  # fmt: skip
    """Prompts one after the other, the scrapes before number `window` and at the end.

    running    prompts of sequences that are there at the end, not looked up; forgotten: blocks that nobody gave back
    early      prompts of those that are there at the first scrape and end then; early_forgotten: from before it
    """
    before, after, _ = _replayed(prompts, window, num_blocks, size, running, preallocate, forgotten, early, early_forgotten)
    *_, bound = _replayed(prompts, window, 4000, size)
    return Run(before, after, bound)


def _replayed(
    prompts: Any, window: int, num_blocks: int, size: int, running: Any = (), preallocate: int = 0, forgotten: int = 0,
    early: Any = (), early_forgotten: int = 0,
) -> tuple[Scrape, Scrape, int]:  # fmt: skip
    from ...kvcache import BlockPool, BlockTables, KVMetrics, PrefixCache

    pool = BlockPool(num_blocks, size)
    tables, cache = BlockTables(pool, preallocate=preallocate), PrefixCache(pool)
    metrics, before = KVMetrics(pool, tables, cache), None
    for number, prompt in enumerate(prompts):
        if number == window:
            pool.allocate(early_forgotten)
            for place, text in enumerate(early):
                tables.add(f"early {place}", len(text))
            before = _scrape(metrics)
            for place in range(len(early)):
                tables.free(f"early {place}")
        tables.add(number, len(prompt), cache.match(prompt).blocks)
        cache.insert(prompt, tables.blocks(number))
        tables.free(number)
    before = before or _scrape(metrics)
    for number, prompt in enumerate(running):
        tables.add(f"running {number}", len(prompt))
    pool.allocate(forgotten)
    after = _scrape(metrics)
    return before, after, int(after["prefix_cache_hits"] - before["prefix_cache_hits"])


def _scrape(metrics: "KVMetrics") -> Scrape:
    return {reading.name: reading.value for reading in metrics.readings()}
