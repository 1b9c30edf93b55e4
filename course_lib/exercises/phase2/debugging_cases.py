"""Operations for exercise 2.11's cache: around the ends of pages, refused, given back and reused, at random.

["append", seq, token number], ["gather", seq, start, stop], ["free", seq]. Every token has a number of its own.
"""

import random
from itertools import count

from ...grading.criteria import Case

Operation = list


class _Script:
    """Operations with the lengths that follow from them."""

    def __init__(self, num_pages: int, page_size: int, first: int) -> None:
        self.num_pages, self.page_size = num_pages, page_size
        self.operations: list[Operation] = []
        self.lengths: dict[str, int] = {}
        self._numbers = count(first)

    @property
    def free_pages(self) -> int:
        return self.num_pages - sum(-(-n // self.page_size) for n in self.lengths.values())

    def append(self, seq: str, tokens: int = 1) -> None:
        for _ in range(tokens):
            length = self.lengths.get(seq, 0)
            self.operations.append(["append", seq, next(self._numbers)])
            if length % self.page_size or self.free_pages:
                self.lengths[seq] = length + 1

    def gather(self, seq: str, *ranges: tuple[int, int]) -> None:
        self.operations += [["gather", seq, start, stop] for start, stop in ranges]

    def everything(self) -> None:
        for seq, length in self.lengths.items():
            self.gather(seq, (0, length))

    def free(self, seq: str) -> None:
        self.operations.append(["free", seq])
        del self.lengths[seq]

    def case(self, name: str) -> Case:
        return {"name": name, "num_pages": self.num_pages, "page_size": self.page_size, "operations": self.operations}


def page_cases(seed: int) -> list[Case]:
    """Appends: one sequence through several pages, two in turns, a cache that is filled to its last slot and beyond."""
    draw = random.Random(seed)
    size = draw.choice((3, 4, 5))
    one = _Script(4, size, draw.randrange(100))
    one.append("a", 3 * size + 1)
    turns = _Script(8, size, draw.randrange(100))
    for _ in range(2 * size + 1):
        turns.append("a")
        turns.append("b", draw.choice((1, 1, 2)))
    full = _Script(3, size, draw.randrange(100))
    full.append("a", size)
    full.append("b", size + 1)  # all three pages are in use
    full.append("a")  # refused
    full.append("b", size - 1)
    full.append("b", 2)  # refused, twice
    full.append("c")  # refused: a name without a token
    full.everything()
    full.free("a")
    full.append("b", 2)
    full.everything()
    ones = _Script(4, 1, draw.randrange(100))
    ones.append("a", 2)
    ones.append("b", 2)
    ones.append("a", 1)  # refused
    ones.everything()
    return [
        one.case("a token at a time"), turns.case("two sequences in turns"), full.case("no page is free"),
        ones.case("pages of one token"),
    ]  # fmt: skip


def gather_cases(seed: int) -> list[Case]:
    """Every range of a sequence of two pages and a part; ranges behind the end; pages that do not lie in order."""
    draw = random.Random(seed)
    size = draw.choice((3, 4))
    length = 2 * size + 1
    ranges = [(start, stop) for start in range(length + 1) for stop in range(start, length + 1)]
    draw.shuffle(ranges)
    first = [(0, length), (0, 2 * size), (1, length), (0, size), (1, size), (size, 2 * size + 1), (2, 2), (length, length)]
    whole = _Script(8, size, draw.randrange(100))
    for _ in range(length):
        whole.append("a")
        whole.append("b")
    whole.gather("a", *first, *ranges)
    whole.gather("b", (0, length))
    beyond = _Script(4, size, draw.randrange(100))
    beyond.append("a", size + 1)
    beyond.gather("a", (0, size + 1), (0, size + 2), (0, 2 * size), (size + 1, size + 2), (0, 2 * size + 1), (0, size + 1))
    beyond.gather("a", (size + 2, size + 2), (size + 3, size + 3), (size + 1, size + 1))
    beyond.append("a", size - 1)
    beyond.gather("a", (0, 2 * size), (0, 2 * size + 1), (size, 2 * size))
    return [whole.case("every range"), beyond.case("a range behind the end")]


def reuse_cases(seed: int) -> list[Case]:
    """Pages that were given back come in another order, a name comes again, and hundreds of operations at random."""
    draw = random.Random(seed)
    size = draw.choice((3, 4))
    again = _Script(4, size, draw.randrange(100))
    again.append("a", 2 * size)
    again.append("b", size)
    again.free("a")
    again.append("c", 3 * size)  # all that is free, in whatever order
    again.append("c")  # refused
    again.everything()
    again.free("b")
    again.append("c")  # possible now, and it is the next token
    again.everything()
    again.free("c")
    again.append("a", size + 1)  # the name, and pages, once more
    again.everything()
    again.free("a")
    again.append("b", 4 * size)
    again.everything()
    other = draw.choice((2, 3))
    return [again.case("pages come back"), _random(f"random operations, pages of {other}", draw, other)]


def _random(name: str, draw: random.Random, size: int, steps: int = 80) -> Case:
    script = _Script(draw.randint(6, 8), size, draw.randrange(100))
    for _ in range(steps):
        there = sorted(script.lengths)
        kind = draw.random()
        if kind < 0.62 or not there:
            script.append(draw.choice("abcd"), draw.choice((1, 1, size)))
        elif kind < 0.9:
            seq = draw.choice(there)
            start = draw.randrange(script.lengths[seq])
            script.gather(seq, (start, draw.randint(start + 1, script.lengths[seq])))
        else:
            script.free(draw.choice(there))
    script.everything()
    return script.case(name)
