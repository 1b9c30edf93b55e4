"""What the radix tree is made of: nodes with their edges, locks on paths, and the counts of what the tree was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .prefix_names import Salt, checked_salt, whole_tokens

Page = tuple  # block_size tokens; of the first page (salt, tokens)


@dataclass(eq=False, slots=True)
class Node:
    """The edge that leads here and what continues it. `locks` counts the locks that end here or below."""

    parent: Node | None = field(repr=False)  # a path of nodes can be longer than Python nests calls
    pages: list[Page]
    blocks: list[int]
    last_used: int
    locks: int = 0
    children: dict[Page, Node] = field(default_factory=dict, repr=False)  # by the first page of their edge


@dataclass(eq=False, slots=True)
class Lock:
    """A pinned path: `blocks` hold the first `tokens` tokens, and stay until `unlock`."""

    node: Node = field(repr=False)
    blocks: list[int]
    tokens: int


@dataclass(slots=True)
class Statistics:
    """Since the tree was made. Hits are counted in tokens: a long prefix saves more than a short one."""

    queried_tokens: int = 0
    hit_tokens: int = 0
    inserted_pages: int = 0
    duplicate_pages: int = 0  # brought by `insert` though they were there: computed twice
    evicted_pages: int = 0
    page_steps: int = 0  # pages looked at

    @property
    def hit_rate(self) -> float:
        return self.hit_tokens / self.queried_tokens if self.queried_tokens else 0.0


def pages_of(tokens: Sequence[int], block_size: int, salt: Salt = "") -> list[Page]:
    """The whole pages of a text, the salt in the first: 7 tokens, blocks of 3: [(salt, (t0, t1, t2)), (t3, t4, t5)]."""
    tokens, salt = whole_tokens(tokens), checked_salt(salt)
    pages: list[Page] = [tuple(tokens[at : at + block_size]) for at in range(0, len(tokens) - block_size + 1, block_size)]
    return salted(pages, salt)


def salted(pages: list[Page], salt: Salt) -> list[Page]:
    """The salt in the first page."""
    return [(salt, pages[0]), *pages[1:]] if pages else pages


def upwards(node: Node) -> Iterator[Node]:
    """From a node to the root, which is included: its edge is empty, and its locks count all that are open."""
    step: Node | None = node
    while step is not None:
        yield step
        step = step.parent


def path_pages(node: Node) -> list[Page]:
    return [page for step in reversed(list(upwards(node))) for page in step.pages]


def path_blocks(node: Node) -> list[int]:
    return [block for step in reversed(list(upwards(node))) for block in step.blocks]
