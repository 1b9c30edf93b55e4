"""How operations for exercise 2.7 are drawn: random tokens, names that tell nothing, runs that ask a reference at every step."""

import random
from collections.abc import Iterator
from itertools import count

from ...grading.criteria import Case
from .prefix_replay import Reference

VOCABULARY = 128_000


class Draw:
    """Random tokens and lengths, and names that tell nothing."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self._names = count(self.random.randint(10, 90))

    def name(self) -> str:
        return f"r{next(self._names)}"

    def tokens(self, n: int) -> list[int]:
        return [self.random.randrange(VOCABULARY) for _ in range(n)]


class Run:
    """Operations as they are chosen, each of which a right answer carries out."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.numbers, self.operations = (num_blocks, block_size), []
        self.reference = Reference(num_blocks, block_size)

    def do(self, operation: list) -> bool:
        """False where it would be refused: then it is left out, and the reference is as if it had not been tried."""
        if self._done(operation):
            self.operations.append(operation)
            return True
        self.reference = Reference(*self.numbers)
        for earlier in self.operations:
            self._done(earlier)
        return False

    def _done(self, operation: list) -> bool:
        name, *arguments = operation
        return getattr(self.reference, name)(*arguments) is not None


def case(name: str, operations: list[list], num_blocks: int, block_size: int, **others: object) -> Case:
    """others: "hash", which function names blocks; "fewer hits", whether a look-up may find less than there is."""
    return {"name": name, "num_blocks": num_blocks, "block_size": block_size, "hash": "sha256", "fewer hits": False,
            "operations": operations} | others  # fmt: skip


def served(draw: Draw, prompts: list[list[int]], salts: list[str] | None = None) -> Iterator[list]:
    """Each prompt starts, is published and ends, one after the other."""
    for place, prompt in enumerate(prompts):
        name = draw.name()
        yield ["start", name, prompt, salts[place] if salts else ""]
        yield ["publish", name]
        yield ["free", name]


def served_unpublished(draw: Draw, prompts: list[list[int]]) -> Iterator[list]:
    """Each prompt starts and ends; nobody can find it."""
    for prompt in prompts:
        name = draw.name()
        yield ["start", name, prompt, ""]
        yield ["free", name]


def fork_beside_a_twin(draw: Draw, text: list[int], size: int) -> tuple[list[list], str]:
    """-> (operations, who is left). text, two blocks, has a reader and its fork; its first block, computed twice, has a name.

    Either of the two publishes and ends, and so does the twin.
    """
    two = [draw.name(), draw.name()]
    twin = draw.name()
    operations = [["start", two[0], text, ""], ["fork", *two], ["start", twin, text[:size], ""], ["publish", twin]]
    draw.random.shuffle(two)
    return [*operations, ["publish", two[0]], ["free", twin], ["free", two[0]]], two[1]
