"""Exercise 2.9, first half: a work list is judged by what holds of every good one, and not by its form.

An item is (sequence, KV head, first block, end block). Of every list: each block of each pair of sequence and KV head stands in
it once. Of a good one: handed out in order, to whichever program is free, it leaves no program with much more than its share of
the blocks, and it has no more items than that takes.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import Any

from ...grading.criteria import Case
from ...grading.outcome import Mistake

FINER = 4  # no item needs to be smaller than this part of a program's share
EXCLUSIVE = "end_block is the first block that an item does not read: block 0 alone is (s, h, 0, 1)."
LEAST_BLOCKS = 8  # nor than this: below, starting and merging an item costs more than it spreads


def handed_out(sizes: Sequence[int], programs: int) -> list[tuple[int, int]]:
    """A model of the GPU: items in order, each to the program that is free first -> (program, when it starts) of each."""
    free, places = [(0, program) for program in range(programs)], []
    for size in sizes:
        start, program = heapq.heappop(free)
        places.append((program, start))
        heapq.heappush(free, (start + size, program))
    return places


def fullest(sizes: Sequence[int], programs: int) -> int:
    """Blocks until the last program is done."""
    return max((start + size for size, (_, start) in zip(sizes, handed_out(sizes, programs), strict=True)), default=0)


def most_blocks(total: int, programs: int) -> float:
    """What the fullest program may have: its share, and one item on top that is a quarter of it, or 8 blocks."""
    return total / programs + max(-(-total // (FINER * programs)), LEAST_BLOCKS)


def most_items(pairs: int, total: int, programs: int) -> int:
    """One for each pair that has tokens, and a cut for each quarter of a share, or for each 8 blocks."""
    return pairs + min(FINER * programs, total // LEAST_BLOCKS)


def blocks_of(case: Case) -> list[int]:
    """Blocks that hold tokens, of each sequence."""
    return [-(-length // case["block_size"]) for length in case["lengths"]]


def numbers(case: Case) -> tuple[int, int]:
    """-> (blocks of all pairs, pairs that have tokens)."""
    blocks = blocks_of(case)
    return sum(blocks) * case["kv_heads"], sum(count > 0 for count in blocks) * case["kv_heads"]


def check_cover(case: Case, output: Any) -> Mistake | None:
    """Every block of every pair once, twice the same."""
    found = _items(output.get("items") if isinstance(output, dict) else output)
    if isinstance(found, Mistake):
        return found
    if not found and sum(case["lengths"]):
        return Mistake("the list has no item", "Each pair of a sequence and a KV head that has tokens needs one.")
    pieces: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for number, (sequence, head, first, end) in enumerate(found):
        item = f"item {number} is {(sequence, head, first, end)}"
        if not (0 <= sequence < len(case["lengths"]) and 0 <= head < case["kv_heads"]):
            return Mistake(f"{item}; there are {len(case['lengths'])} sequences and {case['kv_heads']} KV heads")
        if first >= end:
            empty = "A sequence without tokens has no item, and every other item a block."
            return Mistake(f"{item}, which has no block", EXCLUSIVE if case["lengths"][sequence] else empty)
        pieces.setdefault((sequence, head), []).append((first, end))
    for sequence, blocks in enumerate(blocks_of(case)):
        for head in range(case["kv_heads"]):
            if mistake := _of_one_pair(case, sequence, head, sorted(pieces.get((sequence, head), [])), blocks):
                return mistake
    if output["again"] != "the same":
        return Mistake("a second call with the same arguments gave another list", "What else does the list depend on?")
    return None


def _items(output: Any) -> list[tuple[int, int, int, int]] | Mistake:
    import torch

    from ...grading.compare import describe

    wanted = "expected a list of (sequence, kv_head, first_block, end_block), all int"
    if not isinstance(output, torch.Tensor) or output.ndim != 2 or output.shape[1] != 4:
        return Mistake(f"{wanted}, got {describe(output)}")
    return [tuple(row) for row in output.tolist()]


def _of_one_pair(case: Case, sequence: int, head: int, pieces: list[tuple[int, int]], blocks: int) -> Mistake | None:
    length, size = case["lengths"][sequence], case["block_size"]
    whose = f"sequence {sequence} ({length} tokens in blocks of {size}), KV head {head}: "
    if blocks and not pieces:
        hint = "Each KV head has keys and values of its own." if head else ""
        return Mistake(f"{whose}no item", hint or _ending(length, size, 0))
    at = 0
    for first, end in pieces:
        if first > at:
            return Mistake(f"{whose}no item has block {at}", "An item ends before its end block: the next one begins with that.")
        if first < at:
            return Mistake(
                f"{whose}two items have block {first}", "An item ends before its end block: the next one begins with that."
            )
        at = end
    if at != blocks:
        return Mistake(f"{whose}items end at block {at}, its tokens at block {blocks}", _ending(length, size, at))
    return None


def _ending(length: int, size: int, at: int) -> str:
    if at > length // size + 1:
        return "The last piece ends where the sequence's blocks end."
    if at == length // size - 1 and length % size == 0:
        return EXCLUSIVE
    if at == length // size:
        return "The last block need not be full. How many blocks do 17 tokens take in blocks of 16?"
    return "A block that is just full needs no other one." if at == length // size + 1 else ""


def check_balance(case: Case, output: Any) -> Mistake | None:
    if mistake := check_cover(case, output):
        return mistake
    sizes = _in_order(output["items"])
    total, pairs = numbers(case)
    programs, most = case["programs"], most_blocks(total, case["programs"])
    full = fullest(sizes, programs)
    if full <= most:
        return None
    said = f"the fullest of {programs} programs gets {full:,} blocks; {total / programs:,.1f} is its share, {most:,.1f} the most"
    return Mistake(said, next(_why_full(sizes, pairs, total, programs)))


def _why_full(sizes: list[int], pairs: int, total: int, programs: int) -> Iterator[str]:
    longest = max(sizes)
    if len(sizes) == pairs and longest > total / programs:
        yield f"Nothing is cut: the longest item has {longest:,} blocks. How many programs wait for it?"
    if len(sizes) == pairs:
        yield f"Nothing is cut: {len(sizes)} items for {programs} programs. How many are left for the last wave, and who waits?"
    if longest > -(-total // programs):
        yield f"The longest item has {longest:,} blocks, more than a program's share. What must the number of pieces depend on?"
    yield f"{len(sizes)} items of up to {longest:,} blocks: programs that get one more decide. How small is small enough?"


def check_few(case: Case, output: Any) -> Mistake | None:
    if mistake := check_cover(case, output):
        return mistake
    total, pairs = numbers(case)
    count, most = len(output["items"]), most_items(pairs, total, case["programs"])
    if count <= most:
        return None
    said = f"{count:,} items for {total:,} blocks of {pairs} pairs and {case['programs']} programs; {most:,} are enough"
    return Mistake(said, _why_many(case, output["items"].tolist()))


def _why_many(case: Case, items: list[list[int]]) -> str:
    pieces: dict[int, int] = {}
    for sequence, *_ in items:
        pieces[sequence] = pieces.get(sequence, 0) + 1
    blocks = blocks_of(case)
    if len(set(blocks)) > 1 and len(set(pieces.values())) == 1 and min(pieces.values()) > case["kv_heads"]:
        return "Every sequence is cut into as many pieces, the short ones too. Cut to a length, not into a number."
    if all(end - first == 1 for _, _, first, end in items) and max(blocks) > 1:
        return "Every block is an item of its own, which costs a start, and a part that is written and read again."
    least = numbers(case)[0] // (FINER * case["programs"])
    if max(end - first for _, _, first, end in items) == least >= LEAST_BLOCKS:
        return f"Items of {least} blocks are T / 4P rounded down, and what that leaves over makes more items. Rounded up?"
    return "How many blocks should an item have at least, and how many when there is plenty of work?"


def _in_order(items: Any) -> list[int]:
    """Blocks of each item, by sequence, head and first block: the order in which a work list is handed out."""
    return [end - first for _, _, first, end in sorted(items.tolist())]


def _case(name: str, lengths: list[int], *, kv_heads: int = 8, block_size: int = 16, programs: int = 264) -> Case:
    return {"name": name, "lengths": lengths, "kv_heads": kv_heads, "block_size": block_size, "programs": programs}


def cover_cases(seed: int) -> list[Case]:
    """Just before, at and behind the end of a block; nothing; everything; and what the seed draws."""
    import random

    draw = random.Random(seed)
    mixed = [draw.choice((0, 1, draw.randint(2, 400), draw.randint(400, 5000))) for _ in range(9)]
    return [
        _case("lengths around a block's end", [1, 15, 16, 17, 31, 32, 33], kv_heads=2, programs=5),
        _case("one sequence of 1000 tokens", [1000], kv_heads=3, programs=16),
        _case("sequences without tokens among others", [0, 700, 0, 0, 129, 0], kv_heads=2, programs=8),
        _case("only sequences without tokens", [0, 0], kv_heads=2, programs=8),
        _case("no sequence", [], programs=8),
        _case("blocks of 64", [64 * 9, 64 * 9 + 1, 63, 65], kv_heads=1, block_size=64, programs=7),
        _case("what a seed drew", mixed, kv_heads=draw.randint(1, 8), block_size=draw.choice((16, 32, 64)), programs=132),
    ]


def balance_cases(seed: int) -> list[Case]:
    """From one long context to a batch that fills the GPU one and a half times."""
    import random

    draw = random.Random(seed)
    mixed = [int(2 ** draw.uniform(0, 16)) for _ in range(draw.randint(3, 40))]
    return [
        _case("1 x 131072 tokens", [131_072]),
        _case("12 x 32768 tokens", [32_768] * 12, block_size=32),
        _case("50 x 8192 tokens", [8192] * 50, block_size=64),
        _case("64 x 8192 tokens", [8192] * 64, block_size=64),
        _case("one of 131072 tokens among 63 of 512", [512] * 30 + [131_072] + [512] * 33),
        _case("3 x 4096 tokens, blocks of 64", [4096] * 3, block_size=64, kv_heads=4, programs=132),
        _case("one program", [100, 5000], kv_heads=2, programs=1),
        _case(f"{len(mixed)} sequences of {min(mixed)} to {max(mixed)} tokens", mixed),
    ]


def few_cases(seed: int) -> list[Case]:
    """Where a cut buys nothing: short sequences, few blocks for many programs, plenty of work for few."""
    import random

    draw = random.Random(seed)
    return [
        _case("one of 131072 tokens among 63 of 512", [512] * 63 + [131_072]),
        _case("1 x 100 tokens", [100]),
        _case("4 x 8192 tokens for 4 programs", [8192] * 4, kv_heads=2, programs=4),
        _case("200 sequences of 200 to 900 tokens", [draw.randint(200, 900) for _ in range(200)]),
        _case("1 x 131072 tokens", [131_072]),
        _case("1 x 131072 tokens, one KV head, 132 programs", [131_072], kv_heads=1, programs=132),  # T / 4P = 15.5
    ]
