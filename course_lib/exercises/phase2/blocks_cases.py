"""Operations for exercise 2.6: around the ends of blocks, refused, shared, at random; and requests whose memory is wasted."""

import random

from ...grading.criteria import Case
from .blocks_books import Books, Operation

NAMES = "abcdefgh"


def _case(name: str, num_blocks: int, block_size: int, operations: list[Operation]) -> Case:
    return {"name": name, "num_blocks": num_blocks, "block_size": block_size, "operations": operations}


def slot_cases(seed: int) -> list[Case]:
    """Prompts that end just before, at and just behind the end of a block, and then go on; one of three needs no block more."""
    draw = random.Random(seed)
    size = draw.choice((3, 4, 5, 6))
    single = [["add", "a"], *(["append", "a", 1] for _ in range(2 * size + 2))]
    ends = [(draw.randint(1, 3) * size + more, name) for more, name in ((-1, "a"), (0, "b"), (1, "c"))]
    draw.shuffle(ends)
    around: list[Operation] = []
    for tokens, name in ends:
        around += [["add", name], ["append", name, tokens]]
    around += [["append", name, more] for more in (1, 1, size - 1, size, size + 1) for _, name in ends]
    rooms = [draw.randint(2, 4) for _ in range(3)]
    whole = [operation for name, blocks in zip("abc", rooms, strict=True)
             for operation in (["add", name], ["append", name, blocks * size])]  # fmt: skip
    ones = [["add", "a"], ["append", "a", 3], ["add", "b"], ["append", "b", 1], ["append", "a", 2], ["append", "b", 1]]
    return [
        _case("a token at a time", 3 + draw.randint(0, 4), size, single),
        _case("around the end of a block", 40, size, around),
        _case("every block of the memory", sum(rooms), size, whole),
        _case("blocks of one token", 8, 1, ones),
    ]


def refusal_cases(seed: int) -> list[Case]:
    """Each mistake, and after it something that is possible: what was refused must not have left a trace."""
    draw = random.Random(seed)
    size, spare = draw.choice((3, 4, 5)), draw.randint(2, 4)
    full = [
        ["add", "a"], ["append", "a", size + 1], ["add", "b"], ["append", "b", 2],
        ["append", "a", (spare + 2) * size], ["append", "a", 1],  # more than there is, with some blocks free
        ["append", "b", spare * size], ["append", "a", size], ["append", "a", size - 2], ["append", "a", 1],
        ["free", "b"], ["append", "a", 1],
    ]  # fmt: skip
    names = [
        ["append", "a", 1], ["free", "a"], ["fork", "a", "b"],
        ["add", "a"], ["append", "a", size + 1], ["add", "a"], ["append", "a", 1],
        ["fork", "a", "b"], ["fork", "a", "b"], ["append", "b", 1], ["fork", "a", "a"], ["append", "a", 1],
        ["free", "a"], ["free", "a"], ["append", "a", 1], ["fork", "a", "c"],
        ["add", "a"], ["append", "a", 2], ["append", "b", 1], ["free", "b"], ["free", "b"], ["append", "a", 1],
    ]  # fmt: skip
    copy = [
        ["add", "a"], ["append", "a", size + 1], ["add", "b"], ["append", "b", size],
        ["fork", "a", "c"], ["add", "c"], ["append", "a", 1], ["fork", "b", "d"], ["free", "a"], ["append", "d", 1],
        ["fork", "d", "e"], ["append", "e", 1],
    ]  # fmt: skip
    return [
        _case("more tokens than there is room for", spare + 3, size, full),
        _case("sequences that are not there, or are there already", 12, size, names),
        _case("no block for the copy", 3, size, copy),
    ]


def sharing_cases(seed: int) -> list[Case]:
    """Forks with a part of a block and without, in two generations; who goes first gives back only what is its own."""
    draw = random.Random(seed)
    size, full, part = draw.choice((3, 4, 5)), draw.randint(1, 3), draw.randint(1, 2)
    parts = [["add", "a"], ["append", "a", full * size + part], ["fork", "a", "b"],
             ["append", "b", 1], ["append", "a", 1], ["append", "b", size], ["append", "a", size],
             ["free", "a"], ["append", "b", 1], ["add", "c"], ["append", "c", size + 1],
             ["free", "b"], ["append", "c", size]]  # fmt: skip
    order = list("abcd")
    draw.shuffle(order)
    whole = [["add", "e"], ["fork", "e", "f"], ["add", "a"], ["append", "a", full * size],
             ["fork", "a", "b"], ["append", "b", size], ["fork", "b", "c"], ["fork", "b", "d"],
             ["append", "c", 1], ["append", "d", 1], ["append", "a", 1], ["append", "e", 1], ["append", "f", 1],
             *(["free", name] for name in order)]  # fmt: skip
    return [
        _case("a full block and a part of one", 4 * full + 9, size, parts),
        _case("full blocks only", 3 * full + 12, size, whole),
    ]


def random_cases(seed: int) -> list[Case]:
    """Everything at random, on a memory that is often full; in the end one sequence takes all of it, and gives it back."""
    draw = random.Random(seed)
    return [_random(f"random operations, blocks of {size}", draw, size) for size in (draw.choice((2, 3)), draw.choice((4, 5)))]


def _random(name: str, draw: random.Random, size: int, steps: int = 160) -> Case:
    books = Books(draw.randint(12, 16), size)
    operations: list[Operation] = []

    def do(*operation: object) -> None:
        operations.append(list(operation))
        if not books.refusal(operations[-1]):
            books.apply(operations[-1])

    do("add", "a")  # whatever is drawn after it, each kind of trouble comes up
    do("append", "a", size + 1)
    do("fork", "a", "b")
    do("append", "b", draw.randint(1, size))
    do("append", "a", 1)
    do("free", "a")
    for _ in range(steps):
        there, not_there = sorted(books.tokens), [one for one in NAMES if one not in books.tokens]
        kind = draw.choices(("add", "append", "fork", "free"), (3, 8, 3, 2))[0]
        if not there or (kind == "add" and not_there):
            do("add", draw.choice(not_there))
        elif kind == "fork" and not_there:
            do("fork", draw.choice(there), draw.choice(not_there))
        elif kind == "free" and len(there) > 1:
            do("free", draw.choice(there))
        else:
            do("append", draw.choice(there), draw.randint(1, 2 * size))
    for one in draw.sample(sorted(books.tokens), len(books.tokens)):
        do("free", one)
    do("add", "a")
    do("append", "a", (books.num_blocks - 2) * size)
    do("append", "a", 2 * size + 1)  # there is room for a part of it
    do("append", "a", size + 1)
    do("fork", "a", "b")
    do("append", "a", size - 1)
    do("append", "a", 1)
    do("free", "a")
    return _case(name, books.num_blocks, size, operations)


def waste_cases(seed: int) -> list[Case]:
    """Requests [prompt, output, done]: on every edge, one alone, many."""
    draw = random.Random(seed)
    size, longest = draw.choice((8, 16, 32)), draw.choice((1024, 2048))
    one = [draw.randint(50, 150), draw.randint(140, 250), draw.randint(60, 120)]
    edges = [
        [2 * size, 100, 0], [2 * size - 1, 100, 0], [2 * size, 100, 1],  # what is written ends with a block, or beside its end
        [100, 256, 40], [100, 257, 40], [256, 256, 256],  # outputs that are a power of two, or just not; a sum that is one
        [longest - 600, 600, 300], [longest - 520, 515, 515],  # the power of two would pass the greatest length; all is written
        [1, 1, 0], [1, 1, 1],
    ]  # fmt: skip
    draw.shuffle(edges)
    odd_longest = draw.choice((1500, 3000))
    many = []
    for _ in range(60):
        prompt, output = draw.randint(1, odd_longest // 2), draw.randint(1, odd_longest // 2)
        many.append([prompt, output, draw.randint(0, output)])
    at_odd_end = [odd_longest - 700, 700, 10]  # cut to a length that is no power of two, and rounded up from there
    return [
        {"name": "one request", "requests": [one], "max_length": longest, "block_size": size},
        {"name": "requests on the edges", "requests": edges, "max_length": longest, "block_size": size},
        {"name": "many requests", "requests": [*many, at_odd_end], "max_length": odd_longest, "block_size": draw.choice((7, 64))},
    ]
