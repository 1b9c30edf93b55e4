"""The radix tree against a model that keeps every prefix in a dictionary, page by page: same hits, same victims, same counts."""

from random import Random

import pytest

from course_lib.kvcache.block_pool import BlockPool
from course_lib.kvcache.errors import KVCacheError, NotHeld
from course_lib.kvcache.radix_tree import RadixTree

PAGE = 3


class Prefixes:
    """Prefix -> [block, last use, locks]. Everything by brute force."""

    def __init__(self):
        self.known, self.clock = {}, 0

    def longest(self, tokens):
        whole = [tuple(tokens[:stop]) for stop in range(PAGE, len(tokens) + 1, PAGE)]
        return max((prefix for prefix in whole if prefix in self.known), key=len, default=())

    def path(self, prefix):
        return [self.known[prefix[:stop]] for stop in range(PAGE, len(prefix) + 1, PAGE)]

    def use(self, prefix):
        self.clock += 1
        for entry in self.path(prefix):
            entry[1] = self.clock
        return [entry[0] for entry in self.path(prefix)]

    def evict(self, pages):
        gone = []
        for _ in range(pages):
            inner = {prefix[:-PAGE] for prefix in self.known}
            leaves = [p for p, entry in self.known.items() if p not in inner and not entry[2]]
            if not leaves:
                break
            victim = min(leaves, key=lambda p: self.known[p][1])
            gone.append((victim, self.known.pop(victim)[0]))
        return gone


def random_operations(tree_class, seed, steps):
    """Requests that share prefixes arrive, run under a lock, grow, are kept, and go; memory is short. check() after each."""
    random = Random(seed)
    pool = BlockPool(24, PAGE)
    tree, model = tree_class(pool), Prefixes()
    running = []  # (tokens, lock, private blocks)
    prompts, duplicates = [[]], 0

    def check():
        tree.check(private=[block for _, _, private in running for block in private])
        pool.check([tree.blocks(), *(private for _, _, private in running)])
        assert tree.cached_pages == len(model.known)
        assert tree.locked_pages == sum(1 for entry in model.known.values() if entry[2])

    def evict(pages):
        seen = []
        gone = tree.evict(pages, lambda path, block: seen.append((_flat(path), block)))
        assert seen == model.evict(pages)
        assert gone == [block for _, block in seen]

    for _ in range(steps):
        kind = random.random()
        start = random.choice(prompts[-6:])
        tokens = start[: random.randrange(len(start) + 1)] + [random.randrange(2) for _ in range(random.randrange(3 * PAGE))]
        prompts.append(tokens[: 5 * PAGE])
        if kind < 0.45:
            prefix = model.longest(tokens)
            assert tree.probe(tokens) == len(prefix)
            lock = tree.lock(tokens)
            assert lock.blocks == model.use(prefix)
            assert lock.tokens == len(prefix)
            for entry in model.path(prefix):
                entry[2] += 1
            need = len(tokens) // PAGE - len(lock.blocks)
            evict(need - pool.num_free)
            private = pool.allocate(need) if need <= pool.num_free else []
            running.append((tokens if len(private) == need else tokens[: len(prefix)], lock, private))
        elif kind < 0.85 and running:
            tokens, lock, private = running.pop(random.randrange(len(running)))
            before = len(model.longest(tokens)) // PAGE
            known = [entry[0] for entry in model.path(model.longest(tokens))]
            duplicates += sum(mine != theirs for mine, theirs in zip(lock.blocks + private, known, strict=False))
            assert tree.insert(tokens, lock.blocks + private) == before
            for stop in range(PAGE, len(tokens) + 1, PAGE):
                prefix = tuple(tokens[:stop])
                model.known.setdefault(prefix, [(lock.blocks + private)[stop // PAGE - 1], 0, 0])
            model.use(model.longest(tokens))
            pool.release(private)
            tree.unlock(lock)
            for entry in model.path(tuple(tokens[: lock.tokens])):
                entry[2] -= 1
        elif kind < 0.95:
            evict(random.randrange(4))
        else:
            assert tree.match(tokens) == model.use(model.longest(tokens))
        check()
    while running:
        _, lock, private = running.pop()
        pool.release(private)
        tree.unlock(lock)
    assert tree.statistics.duplicate_pages == duplicates > 0
    assert tree.statistics.inserted_pages - tree.statistics.evicted_pages == tree.cached_pages
    tree.check(private=[])  # idle: every block is free or cached, none counted twice (sglang 35270)
    tree.evict(pool.num_blocks)
    assert pool.num_free == pool.num_blocks
    return tree


def _flat(path):
    (_, first), *rest = path
    return (*first, *(token for page in rest for token in page))


@pytest.mark.parametrize("seed", range(6))
def test_tree_has_the_hits_and_the_victims_of_a_dictionary_of_all_prefixes(seed):
    tree = random_operations(RadixTree, seed, 700)
    assert tree.statistics.evicted_pages > 50


class SplitsOnePageLate(RadixTree):
    def _split(self, node, at):
        return super()._split(node, min(at + 1, len(node.pages) - 1))


class EvictsLockedLeaves(RadixTree):
    def _may_evict(self, node):
        return not node.children and node is not self._root


class EvictsTheNewest(RadixTree):
    def evict(self, pages, on_evict=None):
        for node in self._nodes():
            node.last_used = -node.last_used
        return super().evict(pages, on_evict)


class SplitForgetsLocks(RadixTree):
    def _split(self, node, at):
        upper = super()._split(node, at)
        upper.locks = 0
        return upper


class CountsEvictableTwice(RadixTree):
    def unlock(self, lock):
        super().unlock(lock)
        self.locked_pages -= len(lock.node.pages) if not lock.node.locks and not lock.node.children else 0


@pytest.mark.parametrize(
    "broken", [SplitsOnePageLate, EvictsLockedLeaves, EvictsTheNewest, SplitForgetsLocks, CountsEvictableTwice]
)
def test_model_finds_planted_mistakes(broken):
    def some_seed_breaks_it():
        for seed in range(6):
            random_operations(broken, seed, 700)

    with pytest.raises((AssertionError, KVCacheError)):
        some_seed_breaks_it()


def filled(*prompts, blocks=32, size=4):
    pool = BlockPool(blocks, size)
    tree = RadixTree(pool)
    for prompt in prompts:
        private = pool.allocate(len(prompt) // size)
        tree.insert(prompt, private)
        pool.release(private)
    return pool, tree


def test_edges_split_between_pages_only():
    _, tree = filled([1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 4, 5, 6, 0, 0])
    assert tree.probe([1, 2, 3, 4, 5, 6, 0, 9]) == 4  # the second page differs in one token: nothing of it is shared
    assert tree.cached_pages == 3
    tree.check(private=[])


def test_a_page_that_is_not_full_is_not_kept():
    _, tree = filled(list(range(7)))
    assert (tree.cached_pages, tree.probe(list(range(7)))) == (1, 4)


def test_another_salt_shares_nothing():
    pool, tree = filled(list(range(8)))
    assert tree.match(list(range(8)), salt="adapter") == []
    private = pool.allocate(2)
    assert tree.insert(list(range(8)), private, salt="adapter") == 0
    pool.release(private)
    assert tree.match(list(range(8)), salt="adapter") == private
    assert tree.match(list(range(8))) != private


def test_a_lock_keeps_its_path_while_edges_split_and_pages_go():
    pool, tree = filled(list(range(16)))
    lock = tree.lock(list(range(12)))
    assert (tree.locked_pages, tree.evictable_pages) == (3, 1)
    assert len(tree.evict(99)) == 1
    other = tree.lock([0, 1, 2, 3, 9, 9, 9, 9])  # splits inside the locked edge
    assert (tree.locked_pages, other.tokens) == (3, 4)
    tree.unlock(lock)
    assert (tree.locked_pages, len(tree.evict(99))) == (1, 2)
    tree.check(private=[])
    with pytest.raises(NotHeld, match="not open"):
        tree.unlock(lock)
    tree.unlock(other)
    assert (len(tree.evict(99)), pool.num_free) == (1, pool.num_blocks)


def test_eviction_of_a_partly_shared_branch_keeps_the_shared_part():
    _, tree = filled([1] * 4 + [2] * 4, [1] * 4 + [3] * 4)
    tree.match([1] * 4 + [2] * 4)
    assert len(tree.evict(1)) == 1
    assert (tree.probe([1] * 4 + [2] * 4), tree.probe([1] * 4 + [3] * 4)) == (8, 4)
    tree.check(private=[])


def test_a_block_evicted_while_somebody_else_holds_it_is_not_free():
    pool, tree = filled(list(range(4)))
    block = tree.match(list(range(4)))
    pool.retain(block)
    tree.evict(1)
    assert (pool.ref_count(block[0]), pool.num_free) == (1, pool.num_blocks - 1)


def test_refused_inserts_change_nothing():
    pool, tree = filled(list(range(8)))
    kept = tree.match(list(range(8)))
    mine = pool.allocate(1)
    for tokens, blocks in [
        ([9] * 8, mine),  # two pages, one block
        ([9] * 4, kept[:1]),  # the block of another page
        ([9] * 8, mine * 2),  # one block for two pages
        ([9] * 4, [30]),  # a free block
    ]:
        with pytest.raises(KVCacheError):
            tree.insert(tokens, blocks)
        assert (tree.cached_pages, tree.probe([9] * 8), pool.ref_count(kept[0]), pool.ref_count(mine[0])) == (2, 0, 1, 1)
        tree.check()


def test_a_hook_that_raises_leaves_balanced_books():
    pool, tree = filled(list(range(16)))

    def full(path, block):
        if len(path) < 3:
            raise RuntimeError("host memory is full")

    with pytest.raises(RuntimeError, match="full"):
        tree.evict(4, full)
    assert (tree.cached_pages, pool.num_free, tree.statistics.evicted_pages) == (2, pool.num_blocks - 2, 2)
    tree.check(private=[])
    pool.check([tree.blocks()])


@pytest.mark.parametrize("pages", [1, 10, 100])
def test_a_look_up_takes_one_step_a_page(pages):
    prompts = [list(range(4 * pages)), [0, 1, 2, 3] + [5] * 4 * pages, [7] * 4 * pages]
    _, tree = filled(*prompts, blocks=3 * pages + 3)
    before = tree.statistics.page_steps
    tree.probe(prompts[0])
    assert tree.statistics.page_steps - before <= pages + 1


def test_statistics_count_tokens():
    _, tree = filled(list(range(8)))
    tree.match([*range(8), 0, 0])
    tree.lock([5] * 10)
    tree.probe(list(range(8)))  # a scheduler's look is no query
    assert (tree.statistics.queried_tokens, tree.statistics.hit_tokens, tree.statistics.hit_rate) == (20, 8, 0.4)


def hit_rate_of(order_by_prefix):
    """40 requests of 8 conversations wait in mixed order; the cache has room for two of them."""
    random = Random(1)
    pool = BlockPool(12, 4)
    tree = RadixTree(pool)
    waiting = [[conversation] * 16 + [random.randrange(99) for _ in range(4)] for conversation in range(8) for _ in range(5)]
    random.shuffle(waiting)
    while waiting:
        if order_by_prefix:
            waiting.sort(key=lambda prompt: -tree.probe(prompt))
        prompt = waiting.pop(0)
        lock = tree.lock(prompt)
        need = 5 - len(lock.blocks)
        tree.evict(need - pool.num_free)
        private = pool.allocate(need)
        tree.insert(prompt, lock.blocks + private)
        pool.release(private)
        tree.unlock(lock)
    tree.check(private=[])
    return tree.statistics.hit_rate


def test_longest_prefix_first_hits_all_that_a_cache_without_limit_would():
    assert hit_rate_of(order_by_prefix=True) == pytest.approx(8 * 4 * 16 / (40 * 20))  # all but the first of each conversation
    assert hit_rate_of(order_by_prefix=False) < 0.4
