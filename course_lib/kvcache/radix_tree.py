"""Prefix cache as a tree: an edge is a run of token pages with their blocks, so whoever shares a prefix walks the same edges.

Page     `pool.block_size` tokens, one block. Only whole pages are kept, and an edge is split only between pages, so a look-up
         of L tokens makes L / block_size steps. The first page carries the salt (tenant, adapter): other salt, other tree.
Owner    the tree holds one reference of its own on each block. `lock` pins a path for a running sequence; what nobody pins is
         free to go, least recently used first, from the leaves: a prefix outlives whatever continues it.
Compared the tokens themselves, never a hash: no collision can serve another prompt's keys and values.
Source   RadixAttention: Zheng et al., "SGLang", arXiv 2312.07104, section 3.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

from .errors import KVCacheError, NotHeld, whole
from .prefix_names import Salt
from .radix_node import Lock, Node, Page, Statistics, pages_of, path_blocks, path_pages, upwards

if TYPE_CHECKING:
    from .block_pool import BlockPool


class RadixTree:
    """Cached prefixes over `pool`. `cached_pages` is the number of blocks in the tree, `locked_pages` how many are pinned."""

    def __init__(self, pool: "BlockPool") -> None:
        self.pool = pool
        self.cached_pages = self.locked_pages = 0
        self.statistics = Statistics()
        self._root = Node(None, [], [], 0)
        self._blocks: set[int] = set()
        self._locks: set[Lock] = set()
        self._clock = 0

    @property
    def evictable_pages(self) -> int:
        return self.cached_pages - self.locked_pages

    def blocks(self) -> list[int]:
        """Every block in the tree, for `BlockPool.check(holders)`."""
        return sorted(self._blocks)

    def probe(self, tokens: Sequence[int], salt: Salt = "") -> int:
        """Tokens of the longest cached prefix. Leaves no mark: for a scheduler that looks at everyone who waits."""
        return self._walk(self._pages(tokens, salt))[2] * self.pool.block_size

    def match(self, tokens: Sequence[int], salt: Salt = "") -> list[int]:
        """Blocks of the longest cached prefix, now the most recently used. Nothing pins them: see `lock`."""
        return self._query(tokens, salt)[1]

    def lock(self, tokens: Sequence[int], salt: Salt = "", *, counted: bool = True) -> Lock:
        """`match`, and pin what was found until `unlock`. A prompt that needs its last logits asks for tokens[:-1].

        counted False: a look in between, of which the statistics shall not tell.
        """
        node, blocks = self._query(tokens, salt, counted)
        lock = Lock(node, blocks, len(blocks) * self.pool.block_size)
        for step in upwards(node):
            if not step.locks:
                self.locked_pages += len(step.pages)
            step.locks += 1
        self._locks.add(lock)
        return lock

    def unlock(self, lock: Lock) -> None:
        """NotHeld when it is not open: a second unlock would take away somebody else's pin."""
        if lock not in self._locks:
            raise NotHeld(f"this lock on {lock.tokens} tokens is not open in this tree; unlock each lock once")
        self._locks.remove(lock)
        for step in upwards(lock.node):
            step.locks -= 1
            if not step.locks:
                self.locked_pages -= len(step.pages)

    def insert(self, tokens: Sequence[int], blocks: Sequence[int], salt: Salt = "") -> int:
        """Keep the whole pages of `tokens`, whose KV lies in `blocks`; returns how many pages were there already.

        Of those the tree keeps its own block and the caller's is a duplicate. The caller's references stay the caller's.
        KVCacheError, with nothing changed, when there are fewer blocks than whole pages or a new page's block is in use here.
        """
        pages = self._pages(tokens, salt)
        if len(blocks) < len(pages):
            raise KVCacheError(
                f"{len(tokens)} tokens have {len(pages)} whole pages, but {len(blocks)} blocks came; one for each page"
            )
        known = self._walk(pages)[2]
        new = [whole(block, "block") for block in blocks[known : len(pages)]]
        twice = [block for block, times in Counter(new).items() if times > 1 or block in self._blocks]
        if twice:
            raise KVCacheError(f"blocks {twice} hold other pages of the tree already; a new page needs a block of its own")
        self.pool.retain(new)
        node = self._reach(pages)
        self.statistics.duplicate_pages += sum(mine != ours for mine, ours in zip(blocks, path_blocks(node), strict=False))
        if new:
            node.children[pages[known]] = Node(node, pages[known:], new, self._clock)
            self._blocks.update(new)
            self.cached_pages += len(new)
        self.statistics.inserted_pages += len(new)
        return known

    def evict(self, pages: int, on_evict: Callable[[list[Page], int], None] | None = None) -> list[int]:
        """Let go of up to `pages` pages and return their blocks: of the unpinned leaf used longest ago, from its end.

        `on_evict(path, block)` is called for each before the block is released: the pages from the root to it (host_tier.py).
        """
        order, leaves = count(), []
        for node in self._nodes():
            if self._may_evict(node):
                heapq.heappush(leaves, (node.last_used, next(order), node))
        gone: list[int] = []
        try:
            while leaves and len(gone) < pages:
                node = heapq.heappop(leaves)[2]
                path, first = path_pages(node) if on_evict is not None else [], node.pages[0]
                while node.pages and len(gone) < pages:
                    if on_evict is not None:
                        on_evict(path.copy(), node.blocks[-1])
                        path.pop()
                    node.pages.pop()
                    gone.append(node.blocks.pop())
                if not node.pages:
                    del node.parent.children[first]
                    if self._may_evict(node.parent):
                        heapq.heappush(leaves, (node.parent.last_used, next(order), node.parent))
        finally:  # also when on_evict raises: what is no longer in the tree must not stay held
            self._blocks.difference_update(gone)
            self.cached_pages -= len(gone)
            self.pool.release(gone)
            self.statistics.evicted_pages += len(gone)
        return gone

    def check(self, private: Collection[int] | None = None) -> None:
        """Every count against a walk of the tree. `private`: blocks held outside it; then free + cached + private is the pool."""
        nodes = list(self._nodes())
        ends = Counter(lock.node for lock in self._locks)
        for node in nodes:
            assert len(node.pages) == len(node.blocks) > 0, f"{len(node.pages)} pages, {len(node.blocks)} blocks"
            assert node.parent.children.get(node.pages[0]) is node, f"edge {node.pages[0]} hangs under another name"
            assert node.parent.last_used >= node.last_used or node.parent is self._root, "a page was used after its prefix"
        for node in (self._root, *nodes):
            below = sum(child.locks for child in node.children.values())
            assert node.locks == below + ends[node], f"{node.locks} locks counted, {below} below and {ends[node]} here"
        blocks = [block for node in nodes for block in node.blocks]
        locked = sum(len(node.blocks) for node in nodes if node.locks)
        assert sorted(blocks) == sorted(self._blocks), f"edges hold blocks {sorted(blocks)}, counted are {sorted(self._blocks)}"
        assert all(self.pool.ref_count(block) > 0 for block in blocks), "a block of the tree is free"
        counted = (self.cached_pages, self.locked_pages)
        assert counted == (len(blocks), locked), f"(cached, locked) counted as {counted}, the tree has {(len(blocks), locked)}"
        for lock in self._locks:
            path = path_blocks(lock.node)
            assert path == lock.blocks, f"a lock on blocks {lock.blocks} now leads to {path}"
        if private is not None:
            assert not self._blocks & set(private), f"blocks {self._blocks & set(private)} are counted as cached and as private"
            total = self.pool.num_available + len(blocks) + len(set(private))
            assert total == self.pool.num_blocks, f"free + cached + private is {total}, the pool has {self.pool.num_blocks}"

    def _pages(self, tokens: Sequence[int], salt: Salt) -> list[Page]:
        return pages_of(tokens, self.pool.block_size, salt)

    def _walk(self, pages: Sequence[Page]) -> tuple[Node, int, int]:
        """The last node on the way, how many pages of its edge agree, and how many agree in all."""
        node, inside, depth = self._root, 0, 0
        while depth < len(pages) and inside == len(node.pages):
            child = node.children.get(pages[depth])
            if child is None:
                break
            node, inside = child, 0
            while inside < len(node.pages) and depth < len(pages) and node.pages[inside] == pages[depth]:
                inside, depth = inside + 1, depth + 1
        self.statistics.page_steps += depth + 1
        return node, inside, depth

    def _reach(self, pages: Sequence[Page]) -> Node:
        """The node that ends where the match ends, made by a split when that is inside an edge; marks the path as used."""
        node, inside, _ = self._walk(pages)
        if inside < len(node.pages):
            node = self._split(node, inside)
        self._clock += 1
        for step in upwards(node):
            step.last_used = self._clock
        return node

    def _split(self, node: Node, at: int) -> Node:
        """Cut an edge after `at` pages. The lower part stays the same node, so locks that end there still do."""
        upper = Node(node.parent, node.pages[:at], node.blocks[:at], node.last_used, node.locks)
        upper.children[node.pages[at]] = node
        node.parent.children[upper.pages[0]] = upper
        node.parent, node.pages, node.blocks = upper, node.pages[at:], node.blocks[at:]
        return upper

    def _query(self, tokens: Sequence[int], salt: Salt, counted: bool = True) -> tuple[Node, list[int]]:
        node = self._reach(self._pages(tokens, salt))
        blocks = path_blocks(node)
        if counted:
            self.statistics.queried_tokens += len(tokens)
            self.statistics.hit_tokens += len(blocks) * self.pool.block_size
        return node, blocks

    def _may_evict(self, node: Node) -> bool:
        return not node.children and not node.locks and node is not self._root

    def _nodes(self) -> Iterator[Node]:
        waiting = list(self._root.children.values())
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.children.values()
