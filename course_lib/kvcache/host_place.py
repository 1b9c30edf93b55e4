"""What a host tier is made of: places in a tree of pages, with or without content, and counts of what moved."""

from dataclasses import dataclass, field
from typing import Any

from .radix_node import Page


@dataclass(eq=False, slots=True)
class Place:
    """One page behind those that lead to it; with or without content."""

    parent: "Place | None" = field(repr=False)  # None: the root, or no longer under it
    page: Page
    content: Any = field(default=None, repr=False)
    kept: bool = False
    uses: int = 0
    rank: tuple[int, int] = (0, 0)  # the smallest goes first
    children: dict[Page, "Place"] = field(default_factory=dict, repr=False)

    def prune(self) -> None:
        """Take it out of the tree when it has neither content nor continuation, and what is above it, too."""
        place = self
        while place.parent is not None and not place.kept and not place.children:
            above, place.parent = place.parent, None
            del above.children[place.page]
            place = above


@dataclass(slots=True)
class HostStatistics:
    copied_out_blocks: int = 0
    copied_in_blocks: int = 0
    spared_copies: int = 0  # evicted from the device while the host had it already
    dropped_blocks: int = 0  # left the host for good
