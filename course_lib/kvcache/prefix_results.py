"""What the prefix cache keeps for a block, and what its operations answer."""

from dataclasses import dataclass, field

from .prefix_names import Salt


@dataclass(eq=False, slots=True)
class Entry:
    """One named block. The entry of a salt, before block 0, has no parent and no block (-1)."""

    name: bytes
    block: int
    tokens: tuple[int, ...]
    parent: "Entry | None" = field(repr=False)  # a chain of entries can be longer than Python nests calls
    salt: Salt
    children: dict[int, "Entry"] = field(default_factory=dict, repr=False)  # by block

    def pages(self) -> list[tuple[int, ...]]:
        """The tokens of each block from the beginning of the text to this one."""
        pages, entry = [], self
        while entry.parent is not None:
            pages.append(entry.tokens)
            entry = entry.parent
        return pages[::-1]

    def prefix(self) -> list[int]:
        """All tokens up to the end of this block."""
        return [token for page in self.pages() for token in page]


@dataclass(frozen=True, slots=True)
class Match:
    """A cached beginning, with a reference to each block for the caller: BlockTables.add takes them, pool.release gives back."""

    blocks: list[int]
    tokens: int  # so many need not be computed: len(blocks) * block_size


@dataclass(frozen=True, slots=True)
class Inserted:
    """named: so many blocks got a name now. equal: (index, block) where another block has the same content and the name."""

    named: int
    equal: list[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Compaction:
    """What `compact` did. Nothing was moved: blocks have one size, so a free one fits wherever it lies."""

    asked: int
    evicted: list[int]
    free_before: int
    free_after: int
    cached: int
    held: int

    def __str__(self) -> str:
        short = "" if len(self.evicted) == self.asked else " (no more are without a holder)"
        return (
            f"evicted {len(self.evicted)} of {self.asked} blocks asked for{short}: free {self.free_before} -> {self.free_after}, "
            f"cached {self.cached}, held {self.held}"
        )


@dataclass(slots=True)
class PrefixStats:
    """Counted since the start; lookups in tokens, as vLLM counts them."""

    queried_tokens: int = 0
    hit_tokens: int = 0
    evicted_blocks: int = 0
