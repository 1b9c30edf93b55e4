"""Evicted blocks in host memory: what comes back is the content of that very prefix; victims as by brute force; hits go up."""

from random import Random

import pytest

from course_lib.kvcache.block_pool import BlockPool
from course_lib.kvcache.errors import KVCacheError
from course_lib.kvcache.host_tier import HostTier, TieredPrefixes
from course_lib.kvcache.radix_node import pages_of
from course_lib.kvcache.radix_tree import RadixTree

PAGE = 2


class Device:
    """A pool whose blocks hold the prefix they were computed for; a request computes what neither tier has."""

    def __init__(self, blocks, host, tiers=TieredPrefixes):
        self.pool = BlockPool(blocks, PAGE)
        self.tree, self.host = RadixTree(self.pool), host
        self.content = [None] * blocks
        self.tiers = tiers(self.tree, host, self.content.__getitem__, self._copy_in)
        self.host_tokens = self.tokens = self.hit_tokens = 0

    def _copy_in(self, content, block):
        self.content[block] = content

    def begin(self, tokens):
        """Pin what is there, compute the rest -> (tokens computed so far, lock, private blocks)."""
        lock, host_tokens = self.tiers.lock(tokens)
        self.tokens += len(tokens)
        self.hit_tokens += lock.tokens
        self.host_tokens += host_tokens
        for index, block in enumerate(lock.blocks):
            assert self.content[block] == tuple(tokens[: (index + 1) * PAGE]), "a block holds another prefix"
        need = len(tokens) // PAGE - len(lock.blocks)
        if need > self.pool.num_free:
            self.tiers.evict(need - self.pool.num_free)
        private = self.pool.allocate(min(need, self.pool.num_free))
        for index, block in enumerate(private, start=len(lock.blocks)):
            self.content[block] = tuple(tokens[: (index + 1) * PAGE])
        return tokens[: (len(lock.blocks) + len(private)) * PAGE], lock, private

    def end(self, request):
        tokens, lock, private = request
        self.tree.insert(tokens, lock.blocks + private)
        self.pool.release(private)
        self.tree.unlock(lock)

    def check(self, running=()):
        self.tree.check(private=[block for _, _, private in running for block in private])
        self.host.check()


def random_requests(seed, steps=300, host_class=HostTier, tiers=TieredPrefixes):
    random = Random(seed)
    device = Device(10, host_class(random.choice([0, 1, 7, 30]), random.choice(["lru", "lfu"])), tiers)
    prompts, running = [[]], []
    for _ in range(steps):
        if random.random() < 0.5 and len(running) < 3:
            start = random.choice(prompts[-8:])
            tokens = start[: random.randrange(len(start) + 1)] + [random.randrange(2) for _ in range(random.randrange(7))]
            prompts.append(tokens := tokens[:12])
            on_device = device.tree.probe(tokens) // PAGE
            both = on_device + len(device.host.run(pages_of(tokens, PAGE), on_device))
            request = device.begin(tokens)
            assert on_device * PAGE <= request[1].tokens <= both * PAGE
            running.append(request)
        elif running:
            device.end(running.pop(random.randrange(len(running))))
        device.check(running)
    for request in running:
        device.end(request)
    device.check()
    device.tree.evict(99)
    assert device.pool.num_free == 10
    return device


@pytest.mark.parametrize("seed", range(12))
def test_what_comes_back_is_the_content_of_that_prefix(seed):
    random_requests(seed)


def test_random_requests_do_use_the_host():
    devices = [random_requests(seed) for seed in range(12)]
    assert sum(device.host.statistics.copied_in_blocks for device in devices) > 50
    assert sum(device.host.statistics.spared_copies for device in devices) > 20
    assert sum(device.host.statistics.dropped_blocks for device in devices) > 50


class KnowsTheLastPageOnly(HostTier):
    def keep(self, path, copy_out):
        super().keep([path[-1]], copy_out)

    def run(self, pages, start):
        found = [super(KnowsTheLastPageOnly, self).run([page], 0) for page in pages[start:]]
        return [places[0] for places in found[: next((i for i, places in enumerate(found) if not places), len(found))]]


class KeepsPastItsBudget(HostTier):
    def _drop(self, place):
        self._kept -= 1


class CopiesAfterTheRelease(TieredPrefixes):
    def evict(self, pages):
        paths = []
        gone = self.tree.evict(pages, lambda path, block: paths.append((path, block)))
        if gone:
            self.copy_in("written over", gone[0])
        for path, block in paths:
            self.host.keep(path, lambda block=block: self.copy_out(block))
        return gone


class PinsNothing(TieredPrefixes):
    def lock(self, tokens, salt=None):
        lock, unlock = self.tree.lock, self.tree.unlock
        try:
            self.tree.lock = lambda *a, counted=True: lock(*a) if counted else self._loose(lock(*a), unlock)
            self.tree.unlock = lambda pin: None
            return super().lock(tokens, salt)
        finally:
            del self.tree.lock, self.tree.unlock

    def _loose(self, pin, unlock):
        unlock(pin)
        return pin


@pytest.mark.parametrize(
    "broken",
    [
        {"host_class": KnowsTheLastPageOnly},
        {"host_class": KeepsPastItsBudget},
        {"tiers": CopiesAfterTheRelease},
    ],
)
def test_random_requests_find_planted_mistakes(broken):
    def some_seed_breaks_it():
        for seed in range(12):
            random_requests(seed, **broken)

    with pytest.raises((AssertionError, KVCacheError)):
        some_seed_breaks_it()


def squeezed(tiers):
    """Two pages wait in the host, no block is free, and the only unpinned one is the page that leads to them."""
    device = Device(3, HostTier(8), tiers)
    device.end(device.begin([1, 2, 3, 4, 5, 6]))
    device.tiers.evict(2)
    running = device.pool.allocate(2)
    lock, host_tokens = device.tiers.lock([1, 2, 3, 4, 5, 6])
    assert (lock.tokens, host_tokens) == (2, 0)
    assert device.content[lock.blocks[0]] == (1, 2)
    device.tree.check(private=running)


def test_room_for_the_rest_is_not_made_from_the_beginning():
    squeezed(TieredPrefixes)


def test_squeezed_finds_a_missing_pin():
    with pytest.raises((AssertionError, KVCacheError)):
        squeezed(PinsNothing)


@pytest.mark.parametrize("policy", ["lru", "lfu"])
@pytest.mark.parametrize("seed", range(4))
def test_victims_are_those_of_a_search_through_everything(policy, seed):
    random = Random(seed)
    host, model, again = HostTier(5, policy), {}, 0  # path -> [uses, last use]
    for clock in range(400):
        path = tuple((random.randrange(3),) for _ in range(random.randrange(1, 4)))
        if path in model and random.random() < 0.5:
            (place,) = host.run(path, len(path) - 1)
            assert host.take(place) == path
            model[path] = [model[path][0] + 1, clock]
        else:
            again += path in model
            host.keep(path, lambda path=path: path)
            model[path] = [model.get(path, [0])[0] + 1, clock]
            if len(model) > 5:
                others = [other for other in model if other != path]
                del model[min(others, key=lambda p: (model[p][0] if policy == "lfu" else 0, model[p][1]))]
        host.check()
        assert len(host) == len(model) == host.statistics.copied_out_blocks - host.statistics.dropped_blocks
        assert host.statistics.spared_copies == again
        assert len(host._order) <= 2 * len(host) + 18  # the line to go does not grow with the uses
        assert all(host.run(kept, len(kept) - 1)[0].content == kept for kept in model)


def reuse_trace(seed, requests=400):
    """Conversations return to a few system prompts by Zipf; between them pass prompts that nobody asks for again."""
    random = Random(seed)
    weights = [1 / (rank + 1) for rank in range(12)]
    for number in range(requests):
        if random.random() < 0.5:
            yield [1000 + number] * 16
        else:
            yield [random.choices(range(12), weights)[0]] * 12 + [number] * 4


def hit_tokens(budget, policy="lru", seed=0):
    device = Device(24, HostTier(budget, policy))
    for tokens in reuse_trace(seed):
        device.end(device.begin(tokens))
    device.check()
    return device.hit_tokens


def test_a_host_tier_raises_hits_up_to_those_of_a_cache_without_limit():
    hits = [hit_tokens(budget) for budget in (0, 24, 96, 10_000)]
    assert hits == sorted(hits)
    seen, unlimited = set(), 0
    for tokens in reuse_trace(0):
        whole = [tuple(tokens[:stop]) for stop in range(PAGE, 17, PAGE)]
        unlimited += PAGE * sum(prefix in seen for prefix in whole)
        seen.update(whole)
    assert hits[-1] == unlimited
    assert hits[0] < 0.8 * unlimited


def test_frequency_keeps_what_returns_when_much_passes_once():
    assert all(hit_tokens(40, "lfu", seed) > hit_tokens(40, "lru", seed) for seed in range(4))


def test_a_failed_copy_leaves_balanced_books():
    device = Device(4, HostTier(8))
    device.end(device.begin([1] * 8))
    device.tiers.evict(4)

    def fails(content, block):
        raise RuntimeError("link down")

    device.tiers.copy_in = fails
    with pytest.raises(RuntimeError, match="link down"):
        device.tiers.lock([1] * 8)
    device.check()
    assert (device.pool.num_free, len(device.host)) == (4, 4)
    device.tiers.copy_in, device.tiers.copy_out = device._copy_in, lambda block: fails(None, block)
    device.end(device.begin([2] * 8))
    with pytest.raises(RuntimeError, match="link down"):
        device.tiers.evict(2)
    device.check()


def test_a_host_without_room_copies_nothing_and_says_so():
    host = HostTier(0)
    host.keep([(1,)], lambda: 1 / 0)
    assert (len(host), host.statistics.dropped_blocks, host.statistics.copied_out_blocks) == (0, 1, 0)


def test_refusals():
    with pytest.raises(KVCacheError, match="budget of -1"):
        HostTier(-1)
    with pytest.raises(KVCacheError, match="'fifo'"):
        HostTier(1, "fifo")
