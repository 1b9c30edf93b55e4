"""What a memory in blocks must look like after each operation, as a dictionary: sequence -> how many tokens, which blocks.

Blocks have names of their own here, 0, 1, 2 ... in the order in which they are opened, and are never used again. Which number an
answer gives to a block is its own affair; the judge (blocks_judge.py) holds the two beside each other.
"""

from itertools import count

Operation = list  # ["add", name], ["append", name, tokens], ["fork", parent, child], ["free", name]


def blocks_for(tokens: int, block_size: int) -> int:
    """block_size 4: 4 tokens -> 1 block, 5 tokens -> 2."""
    return -(-tokens // block_size)


class Books:
    """num_blocks blocks of block_size tokens, and who holds which."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        self.num_blocks, self.block_size = num_blocks, block_size
        self.tokens: dict[str, int] = {}
        self.tables: dict[str, list[int]] = {}
        self._fresh = count()

    def held(self) -> set[int]:
        return {block for table in self.tables.values() for block in table}

    @property
    def num_free(self) -> int:
        return self.num_blocks - len(self.held())

    def new_blocks(self, operation: Operation) -> int:
        """Blocks that a possible operation opens."""
        kind, name = operation[0], operation[1]
        if kind == "append":
            return blocks_for(self.tokens[name] + operation[2], self.block_size) - len(self.tables[name])
        return int(kind == "fork" and self.tokens[name] % self.block_size > 0)

    def refusal(self, operation: Operation) -> str:
        """Why this operation is not possible, or ""."""
        kind, name = operation[0], operation[1]
        if kind == "add":
            return f"there is a sequence {name!r} already" if name in self.tokens else ""
        if name not in self.tokens:
            return f"there is no sequence {name!r}"
        if kind == "fork" and operation[2] in self.tokens:
            return f"there is a sequence {operation[2]!r} already"
        wanted = self.new_blocks(operation)
        return f"it takes {wanted} new ones of {self.num_free} free blocks" if wanted > self.num_free else ""

    def apply(self, operation: Operation) -> None:
        """Carry out a possible operation."""
        kind, name = operation[0], operation[1]
        fresh = [next(self._fresh) for _ in range(self.new_blocks(operation))]
        if kind == "add":
            self.tokens[name], self.tables[name] = 0, []
        elif kind == "append":
            self.tokens[name] += operation[2]
            self.tables[name] += fresh
        elif kind == "fork":
            self.tokens[operation[2]] = self.tokens[name]
            self.tables[operation[2]] = self.tables[name][: self.tokens[name] // self.block_size] + fresh
        else:
            del self.tokens[name], self.tables[name]
