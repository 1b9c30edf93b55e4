"""A second home for cached blocks: what the device evicts goes to host memory, and a later hit brings it back.

Why      a running sequence reads each of its blocks once in each layer of each step: none of them is hotter than another, and
         there is no faster memory to promote one to. Prefixes differ in how often requests come back to them, and a copy over
         the link can cost far less than a prefill (swap_cost.py says when).
Kept     a block's content under the pages that lead to it, compared token by token as in radix_tree.py. It stays after it was
         brought back: content never changes, so evicting that block again costs no copy.
Budget   `budget_blocks`. When it is full, the least recently used goes (policy "lru"), or the least often used and of those the
         least recently (policy "lfu").
"""

import heapq
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .copy_batches import CopyIn, CopyOut, Leaving, copy_all_in, copy_all_out
from .errors import KVCacheError
from .host_place import HostStatistics, Place
from .prefix_names import Salt
from .radix_node import Lock, Page, pages_of
from .radix_tree import RadixTree

POLICIES = ("lru", "lfu")


class HostTier:
    """Content of up to `budget_blocks` blocks in host memory, found by the pages from the beginning of the text."""

    def __init__(self, budget_blocks: int, policy: str = "lru") -> None:
        if budget_blocks < 0 or policy not in POLICIES:
            raise KVCacheError(f"budget of {budget_blocks} blocks, policy {policy!r}; use 0 or more, and one of {POLICIES}")
        self.budget_blocks, self.policy = budget_blocks, policy
        self.statistics = HostStatistics()
        self._root = Place(None, ())
        self._trail: tuple[list[Page], list[Place]] = [], []  # the path walked last, and its places
        self._kept = self._clock = 0
        self._order: list[tuple[tuple[int, int], Place]] = []  # a heap; entries whose rank has changed since are skipped

    def __len__(self) -> int:
        return self._kept

    def keep(self, path: Sequence[Page], copy_out: Callable[[], Any]) -> None:
        """Keep the content of the last page of `path`. copy_out() -> content is called only when it is not here already."""
        if not path:
            raise KVCacheError("a path of no pages has no last one to keep; give all pages from the beginning of the text")
        if not self.budget_blocks:
            self.statistics.dropped_blocks += 1
            return
        place = self._find(path)
        if place is not None and place.kept:
            self.statistics.spared_copies += 1
        else:
            content = copy_out()
            place = place or self._make(path)
            place.content, place.kept = content, True
            self.statistics.copied_out_blocks += 1
            self._kept += 1
        self._use(place)
        while self._kept > self.budget_blocks:
            self._drop(self._next_victim(spare=place))

    def keep_all(self, evicted: Sequence[tuple[Sequence[Page], int]], copy_out: CopyOut) -> None:
        """`keep` for each (path, block). What is not here yet is copied as one batch first; when that fails, nothing changes."""
        possible = self.budget_blocks and all(path for path, _ in evicted)
        places = [self._find(path) or self._make(path) for path, _ in evicted] if possible else []

        def one(block: int) -> Any:  # alone, when the host had it until this very batch pushed it out
            return contents.pop(block) if block in contents else copy_all_out(copy_out, [block])[0]

        try:
            wanted = [block for place, (_, block) in zip(places, evicted, strict=False) if not place.kept]
            contents = dict(zip(wanted, copy_all_out(copy_out, wanted), strict=True))
            for path, block in evicted:
                self.keep(path, lambda block=block: one(block))
        finally:
            for place in places:
                place.prune()

    def run(self, pages: Sequence[Page], start: int) -> list[Place]:
        """The places of pages[start], pages[start + 1], ... as far as the host has them without a gap. Marks nothing."""
        place, found = self._root, []
        for index, page in enumerate(pages):
            child = place.children.get(page)
            if child is None or (index >= start and not child.kept):
                break
            place = child
            if index >= start:
                found.append(place)
        return found

    def take(self, place: Place) -> Any:
        """Its content, for a copy to the device; counts as a use."""
        self._use(place)
        self.statistics.copied_in_blocks += 1
        return place.content

    def check(self) -> None:
        """Budget held, counts right, no place without content or continuation, each kept one in line to go."""
        places, waiting = [], [self._root]
        while waiting:
            waiting += (below := list(waiting.pop().children.values()))
            places += below
        kept = [place for place in places if place.kept]
        assert self._kept == len(kept) <= self.budget_blocks, f"{self._kept} counted, {len(kept)} kept of {self.budget_blocks}"
        assert all(place.kept or place.children for place in places), "a place has neither content nor continuation"
        assert all(place.content is None for place in places if not place.kept), "content was left behind"
        current = {id(place) for rank, place in self._order if place.kept and place.rank == rank}
        assert current == {id(place) for place in kept}, f"{len(current)} of {len(kept)} blocks can be dropped"

    def _find(self, path: Sequence[Page]) -> Place | None:
        """The place at the end of a path. A text is evicted from its end, so a path often is the last one less a page."""
        pages, places = self._trail
        if len(path) <= len(places) and places[len(path) - 1].parent is not None and list(path) == pages[: len(path)]:
            return places[len(path) - 1]
        place: Place | None = self._root
        for page in path:
            place = place.children.get(page) if place is not None else None
        return place

    def _make(self, path: Sequence[Page]) -> Place:
        place, places = self._root, []
        for page in path:
            place = place.children.get(page) or place.children.setdefault(page, Place(place, page))
            places.append(place)
        self._trail = list(path), places
        return place

    def _use(self, place: Place) -> None:
        self._clock += 1
        place.uses += 1
        place.rank = (place.uses if self.policy == "lfu" else 0, self._clock)
        heapq.heappush(self._order, (place.rank, place))
        if len(self._order) > 2 * self._kept + 16:
            self._order = [(rank, other) for rank, other in self._order if other.kept and other.rank == rank]
            heapq.heapify(self._order)

    def _next_victim(self, spare: Place) -> Place:
        """`spare` has just come: under "lfu" it would always be the first to go again."""
        held_back = None
        while True:
            rank, place = heapq.heappop(self._order)
            if not place.kept or place.rank != rank:
                continue
            if place is spare:
                held_back = (rank, place)
                continue
            if held_back:
                heapq.heappush(self._order, held_back)
            return place

    def _drop(self, place: Place) -> None:
        place.content, place.kept, place.uses = None, False, 0
        self._kept -= 1
        self.statistics.dropped_blocks += 1
        place.prune()


class Found(NamedTuple):
    """`lock` pins everything found, and the tree counts it as hits; the last `host_tokens` of it came back from the host."""

    lock: Lock
    host_tokens: int


class TieredPrefixes:
    """A radix tree on the device over a host tier. copy_out and copy_in move the KV itself (copy_batches.py, host_copies.py)."""

    def __init__(self, tree: RadixTree, host: HostTier, copy_out: CopyOut, copy_in: CopyIn) -> None:
        self.tree, self.host, self.copy_out, self.copy_in = tree, host, copy_out, copy_in

    def evict(self, pages: int) -> list[int]:
        """As RadixTree.evict; the content goes to the host before this returns."""
        leaving = Leaving(self.host)
        try:
            return self.tree.evict(pages, lambda path, block: leaving.add(path, block, self.copy_out))
        finally:
            leaving.flush(self.copy_out)

    def lock(self, tokens: Sequence[int], salt: Salt = "") -> Found:
        """Pin the longest prefix that device and host have between them; pages of the host are brought back as far as room is.

        Blocks for them are free ones, then those of unpinned prefixes, which go to the host in turn.
        """
        tree, pages = self.tree, pages_of(tokens, self.tree.pool.block_size, salt)
        pin = tree.lock(tokens, salt, counted=False)
        try:
            here = len(pin.blocks)
            missing = len(self.host.run(pages, here)) - tree.pool.num_available
            if missing > 0:
                self.evict(missing)
            places = self.host.run(pages, here)[: tree.pool.num_available]  # what was evicted may have pushed some of them out
            blocks = tree.pool.allocate(len(places))
            try:
                copy_all_in(self.copy_in, [self.host.take(place) for place in places], blocks)
                tree.insert(tokens[: (here + len(blocks)) * tree.pool.block_size], pin.blocks + blocks, salt)
            finally:
                tree.pool.release(blocks)  # the tree holds its own reference, or the copy failed
            return Found(tree.lock(tokens, salt), len(blocks) * tree.pool.block_size)
        finally:
            tree.unlock(pin)
