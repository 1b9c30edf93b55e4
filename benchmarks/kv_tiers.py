"""KV beyond a flat table in device memory: what a second level of the table costs, and what a reload from the host saves.

Tables   a walk through block tables of one level and of two (leaves of 256 entries) that reads each block once, in turns, with a
         cold L2: as many bytes as K of a decode step of 8 KV heads of 128 in bf16, blocks of 16. Then one program alone, which
         waits for each block before it asks for the next: the latency of a look-up.
Host     a prefix of Llama-3-8B's shape (131,072 bytes a token in bf16) comes back into its blocks, against a prefill of as many
         tokens by the course's decoder with random weights. Four ways: the library's, HostCopies, which gets all blocks at once;
         block by block, an indexed copy for each tensor of each block, from pageable memory and from pinned; and one piece of
         pinned memory that lies tensor by tensor, scattered by one indexed copy for each. And the way out by HostCopies.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ._result import write_result
from .kv_host_ways import fill, reloads, saves

SOURCES = (
    "benchmarks/kv_tiers.py", "benchmarks/kv_host_ways.py",
    "course_lib/kvcache/copy_batches.py", "course_lib/kvcache/host_copies.py",
    "course_lib/kvcache/host_slots.py", "course_lib/kvcache/storage.py", "course_lib/kvcache/two_level.py",
    "course_lib/model/attend.py", "course_lib/model/attention.py", "course_lib/model/cache.py", "course_lib/model/decoder.py",
    "course_lib/model/layers.py", "course_lib/model/presets.py", "course_lib/model/rope.py", "course_lib/timing/events.py",
    "course_lib/timing/flush.py", "course_lib/workloads/table_walk.py", "course_lib/workloads/table_walk_kernel.py",
)  # fmt: skip
BLOCK_SIZE, LEAF = 16, 256
BLOCK_WORDS = 8192  # K of 16 tokens in a layer: 16 * 8 heads * 128 * 2 bytes
WALKS = ((64, 8192), (1, 131072))  # rows, tokens of each
PARTS = {64: 8, 1: 528}  # programs a row: four for each SM
ALONE_BLOCKS, ALONE_WORDS = 8192, 32
TOKENS = (256, 1024, 4096, 16384)
MODEL = "llama-3-8b"
ROUNDS = 9


def main() -> int:
    if not torch.cuda.is_available():
        print("blocked: needs a CUDA device")
        return 1
    rows = [*walk_rows(), *alone_rows(), *table_byte_rows()]
    rows += host_rows(TOKENS, prefill_call(MODEL, max(TOKENS)), storage_of(MODEL, max(TOKENS), "cuda"))
    for row in rows:
        peer = "" if row["peer"] is None else f"{row['peer_name']} {row['peer']:.4g}, ratio {row['ratio']:.4f}"
        print(f"{row['case']:<76}{row['ours']:>12.4g} {row['unit']:<10}{peer}", flush=True)
    print(write_result("kv_tiers", rows, SOURCES))
    return 0


def in_turns(calls: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Device seconds of each call in each round: the median of five with a cold L2, every second round backwards."""
    from course_lib.timing import l2_flusher, time_calls

    flush = l2_flusher()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds):
        for name in list(calls) if number % 2 == 0 else list(calls)[::-1]:
            seconds[name].append(time_calls(calls[name], repeats=5, warmup=1, before=flush).median_seconds)
    return seconds


def walk_rows() -> list[dict[str, Any]]:
    """GB/s of blocks read, two levels against one."""
    from course_lib.workloads.table_walk import table_walk

    found = []
    for rows, tokens in WALKS:
        walk = table_walk(rows, tokens // BLOCK_SIZE, BLOCK_WORDS, LEAF, PARTS[rows])
        check_walk(walk)
        seconds = in_turns({"two": lambda walk=walk: walk.run(True), "flat": lambda walk=walk: walk.run(False)})
        rates = {name: [walk.read_bytes / s / 1e9 for s in some] for name, some in seconds.items()}
        found.append(row(f"walk, {rows} x {tokens} tokens, leaves of {LEAF}", "GB/s", rates["two"], rates["flat"], "flat table"))
        del walk
        torch.cuda.empty_cache()
    return found


def alone_rows() -> list[dict[str, Any]]:
    """Nanoseconds a block of one program that waits for each."""
    from course_lib.workloads.table_walk import table_walk

    walk = table_walk(1, ALONE_BLOCKS, ALONE_WORDS, LEAF, 1)
    check_walk(walk)
    seconds = in_turns({"two": lambda: walk.run(True), "flat": lambda: walk.run(False)})
    each = {name: [s / ALONE_BLOCKS * 1e9 for s in some] for name, some in seconds.items()}
    return [
        row(f"one program alone, {ALONE_BLOCKS} blocks one after the other", "ns/block", each["two"], each["flat"], "flat table")
    ]


def check_walk(walk: Any) -> None:
    """Both tables lead to the same blocks, and to all of them."""
    flat, two = walk.run(False).clone(), walk.run(True).clone()
    rows = walk.flat.shape[0]
    blocks = walk.words[walk.flat.long().flatten()].view(rows, -1, walk.words.shape[1])
    exact = blocks.sum(1, dtype=torch.int32)
    assert torch.equal(flat, two), "two levels lead elsewhere than one"
    assert torch.equal(flat.sum(1, dtype=torch.int32), exact), "not every block was read once"


def table_byte_rows() -> list[dict[str, Any]]:
    """Bytes of the tables themselves: 256 rows for prompts up to 131,072 tokens that have 1700, or all of it."""
    from course_lib.kvcache.two_level import table_bytes

    found = []
    for tokens in (1700, 131072):
        made = table_bytes([tokens] * 256, 256, 131072, BLOCK_SIZE, LEAF)
        case = f"tables for 256 rows up to 131072 tokens, {tokens} in each"
        found.append(row(case, "bytes", [made.two_level], [made.flat], "flat table"))
    return found


def storage_of(name: str, tokens: int, device: str) -> Any:
    from course_lib.kvcache import KVStorage
    from course_lib.model.presets import preset

    config = preset(name)
    return KVStorage(-(-tokens // BLOCK_SIZE), BLOCK_SIZE, layers=config.layers, shapes=config.cache_shapes, device=device)


def prefill_call(name: str, most_tokens: int, device: str = "cuda") -> Callable[[int], Callable[[], Any]]:
    """tokens -> a call that prefills so many, keys and values into a cache, logits of the last. Weights are random, bf16."""
    from course_lib.model.load import empty
    from course_lib.model.presets import preset

    config = preset(name)
    model = empty(config).to(torch.bfloat16).to_empty(device=device).eval().requires_grad_(False)
    draw = torch.Generator(device=device).manual_seed(0)
    for weight in model.parameters():
        weight.fill_(1.0) if weight.dim() == 1 else weight.normal_(std=0.02, generator=draw)
    ids = torch.randint(0, config.vocab, (1, most_tokens), generator=draw, device=device)

    def of(tokens: int) -> Callable[[], Any]:
        cache = model.new_cache(1, tokens)

        def call() -> Any:
            cache.truncate([0])
            with torch.inference_mode():
                return model(ids[:, :tokens], cache, last=True)

        return call

    return of


def host_rows(tokens: Sequence[int], prefill: Callable[[int], Callable[[], Any]], storage: Any) -> list[dict[str, Any]]:
    """Milliseconds until a prefix's keys and values are in their blocks, or out of them: each way against the prefill."""
    found = []
    fill(storage)
    for count in tokens:
        again = prefill(count)
        back, out = reloads(storage, count // BLOCK_SIZE), saves(storage, count // BLOCK_SIZE)
        calls = {"recompute": again}
        calls |= {f"{count} tokens back from the host, {name}": call for name, call in back.items()}
        calls |= {f"{count} tokens out to the host, {name}": call for name, call in out.items()}
        seconds = waited(calls)
        for name in list(calls)[1:]:
            ours, peer = ([s * 1e3 for s in seconds[one]] for one in (name, "recompute"))
            found.append(row(name, "ms", ours, peer, "prefill of as many tokens"))
        del again, calls, back, out
        if storage.device.type == "cuda":
            torch.cuda.empty_cache()
    return found


def waited(calls: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """Host seconds of each call up to the end of its work, in turns, after one to warm up: the host takes part in a copy."""
    wait = torch.cuda.synchronize if torch.cuda.is_available() else (lambda: None)
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name in list(calls) if number % 2 == 0 else list(calls)[::-1]:
            wait()
            start = time.perf_counter()
            calls[name]()
            wait()
            if number:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def row(case: str, unit: str, ours: Sequence[float], peer: Sequence[float], peer_name: str) -> dict[str, Any]:
    """Medians, and the median of the ratios of each round."""
    mine, other = statistics.median(ours), statistics.median(peer)
    paired = [a / b for a, b in zip(ours, peer, strict=True)]
    return {
        "case": case, "unit": unit, "ours": mine, "peer": other, "peer_name": peer_name, "ratio": mine / other,
        "roof_share": None, "spread": [min(ours), max(ours)], "paired_ratio": statistics.median(paired),
        "paired_spread": [min(paired), max(paired)],
    }  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
