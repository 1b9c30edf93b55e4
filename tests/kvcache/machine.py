"""Random operations on pool, tables and prefix cache, beside a model that is a dictionary: sequence -> its tokens.

The memory is played by a list with one token in each slot, so that a wrong slot, a forgotten copy, a block handed to two owners
and a collision that is served all show as a wrong token, whatever the counters say.
"""

import random
from collections import Counter

from course_lib.kvcache import BlockPool, BlockTables, KVCacheError, OutOfBlocks, PrefixCache, blocks_for

DEAD = -9  # in a slot that nobody wrote since its block was handed out
NUM_BLOCKS, BLOCK_SIZE, SALTS = 20, 3, ("", "adapter")
OPERATIONS = (
    "add", "add", "add", "append", "append", "append all", "fork", "free", "free", "free", "truncate", "publish", "publish",
    "publish", "look", "evict", "mistake",
)  # fmt: skip


class Machine:
    def __init__(
        self, seed, *, pool=BlockPool, tables=BlockTables, cache=PrefixCache, num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE,
        **options,
    ):  # fmt: skip
        self.random = random.Random(seed)
        self.pool = pool(num_blocks, block_size)
        self.tables = tables(self.pool)
        self.cache = cache(self.pool, **options)
        self.memory = [DEAD] * (num_blocks * block_size)
        self.model = {}  # sequence -> (tokens, salt)
        self.names = 0
        self.seen = Counter()

    def run(self, steps, *, check_every=1):
        for step in range(steps):
            name = self.random.choice(OPERATIONS)
            getattr(self, name.replace(" ", "_"))()
            self.seen[name] += 1
            self.quick_check()
            if step % check_every == 0:
                self.check()
        self.check()

    # --- operations ------------------------------------------------------------------------------------------------------

    def add(self):
        """A new text; its cached beginning is taken over, the rest is written."""
        tokens = self._text(self.random.choice((1, 2, 3, 4, 6, 7, 9, 12)))
        salt, seq = self.random.choice(SALTS), self._name()
        match = self.cache.match(tokens, salt)
        self.seen["hit tokens"] += match.tokens
        assert match.tokens < len(tokens), "nothing is left to compute"
        assert match.tokens == len(match.blocks) * self.pool.block_size
        needed = blocks_for(len(tokens), self.pool.block_size) - len(match.blocks)
        held = self._held() | set(match.blocks)
        if self._refused(needed, held, lambda: self.tables.add(seq, len(tokens), match.blocks)):
            self.pool.release(match.blocks)
            return
        self.model[seq] = (tokens, salt)
        self._write(seq, match.tokens)

    def append(self):
        if self.model:
            self._append({self._any(): self.random.choice((0, 1, 1, 1, 2, 3, 5))})

    def append_all(self):
        """A decode step: one more token for several sequences at once."""
        if self.model:
            seqs = self.random.sample(sorted(self.model), self.random.randint(1, min(len(self.model), 4)))
            self._append(dict.fromkeys(seqs, 1))

    def fork(self):
        if self.model:
            parent, child = self._any(), self._name()
            self.tables.fork(parent, child)
            self.model[child] = self.model[parent]

    def free(self):
        if self.model:
            seq = self._any()
            self.tables.free(seq)
            del self.model[seq]

    def truncate(self):
        if self.model:
            seq = self._any()
            tokens, salt = self.model[seq]
            length = self.random.randint(1, len(tokens))
            self.tables.truncate(seq, length)
            self.model[seq] = (tokens[:length], salt)

    def publish(self):
        """Name the full blocks, and read from an equal block where there is one."""
        if self.model:
            seq = self._any()
            tokens, salt = self.model[seq]
            inserted = self.cache.insert(tokens, self.tables.blocks(seq), salt)
            if self.random.random() < 0.5:
                for index, block in inserted.equal:
                    self.tables.replace(seq, index, block)
            self.seen["named"] += inserted.named
            self.seen["equal"] += len(inserted.equal)

    def look(self):
        """A match that is not used: its references are given back."""
        tokens, salt = self._text(7), self.random.choice(SALTS)
        promised, counts = self.cache.cached_tokens(tokens, salt), (self.pool.num_free, self.pool.num_cached)
        match = self.cache.match(tokens, salt)
        assert match.tokens == promised
        self.tables.check(also=[match.blocks])
        self.pool.release(match.blocks)
        assert counts == (self.pool.num_free, self.pool.num_cached)

    def evict(self):
        n = self.random.choice((0, 1, 1, 2, 3))
        cached, free = self.pool.num_cached, self.pool.num_free
        done = self.cache.compact(n)
        assert len(done.evicted) == min(n, cached), f"{n} of {cached} cached blocks to evict, {done}"
        assert not self._held() & set(done.evicted), f"held blocks evicted: {done}"
        assert self.pool.num_free == free + len(done.evicted)

    def mistake(self):
        """Each is refused, and nothing has changed."""
        before, free = self.state(), sorted(set(range(self.pool.num_blocks)) - self._held())
        tries = [
            lambda: self.tables.append("nobody"), lambda: self.tables.free("nobody"), lambda: self.tables.fork("nobody", "child"),
            lambda: self.pool.release([self.pool.num_blocks]), lambda: self.pool.retain([*self._held(), -1]),
            lambda: self.pool.allocate(self.pool.num_blocks + 1), lambda: self.cache.insert([1] * self.pool.block_size, []),
        ]  # fmt: skip
        if free:
            tries += [lambda: self.pool.release([self.random.choice(free), *self._held()])]
        if self.model:
            seq = self._any()
            tries += [lambda: self.tables.add(seq, 1), lambda: self.tables.fork(seq, seq)]
            tries += [lambda: self.tables.truncate(seq, 10**6), lambda: self.tables.append(seq, -1)]
        call = self.random.choice(tries)
        try:
            call()
        except KVCacheError:
            assert self.state() == before, "a refused operation changed something"
        else:
            raise AssertionError("a mistake was accepted")

    # --- what must hold --------------------------------------------------------------------------------------------------

    def quick_check(self):
        pool = self.pool
        assert pool.num_free + pool.num_cached + pool.num_held == pool.num_blocks, "free + cached + held is not the pool"
        assert len(self.tables) == len(self.model)

    def check(self):
        """The integrity checks of the product, and every token of every sequence."""
        self.tables.check()
        self.cache.check()
        size = self.pool.block_size
        for seq, (tokens, _) in self.model.items():
            assert self.tables.length(seq) == len(tokens)
            blocks = self.tables.blocks(seq)
            assert 0 <= len(blocks) * size - len(tokens) <= size - 1, f"{seq}: {len(tokens)} tokens in {len(blocks)} blocks"
            read = [self.memory[slot] for slot in self.tables.slots(seq)]
            assert read == tokens, f"{seq} reads {read}, its tokens are {tokens}"

    def state(self):
        pool, cache = self.pool, self.cache
        return (
            list(pool._refs), bytes(pool._named), list(pool._free), list(pool._cached),
            {seq: (self.tables.length(seq), self.tables.blocks(seq)) for seq in self.tables.sequences()},
            sorted(cache._of_block), sorted(map(repr, cache._roots)),
        )  # fmt: skip

    # --- inside ----------------------------------------------------------------------------------------------------------

    def _append(self, wanted):
        size, held = self.pool.block_size, self._held()
        needed, dropped = 0, Counter()
        holders = Counter(block for seq in self.model for block in self.tables.blocks(seq))
        for seq, n in wanted.items():
            blocks, length = self.tables.blocks(seq), len(self.model[seq][0])
            needed += blocks_for(length + n, size) - len(blocks)
            if n and length % size:
                last = blocks[-1]
                if holders[last] - dropped[last] > 1 or self.pool.is_named(last):
                    needed, dropped[last] = needed + 1, dropped[last] + 1
        assert self.tables.blocks_needed(wanted) == needed
        copies = []
        if self._refused(needed, held, lambda: copies.extend(self.tables.append_all(wanted))):
            return
        for source, target in copies:
            self.memory[target * size : (target + 1) * size] = self.memory[source * size : (source + 1) * size]
        self.seen["copies"] += len(copies)
        for seq, n in wanted.items():
            tokens, salt = self.model[seq]
            self.model[seq] = (tokens + self._text(n), salt)
            self._write(seq, len(tokens))

    def _refused(self, needed, held, call):
        """Runs it; OutOfBlocks has to come exactly when the blocks that nobody holds are too few, and must change nothing."""
        room, before, refused = self.pool.num_blocks - len(held), self.state(), False
        try:
            call()
        except OutOfBlocks:
            refused = True
            assert self.state() == before, "a refused operation changed something"
            self.seen["refused"] += 1
        assert refused == (needed > room), f"{needed} blocks wanted, nobody holds {room}: {'refused' if refused else 'given'}"
        return refused

    def _write(self, seq, start):
        tokens = self.model[seq][0]
        for slot, token in zip(self.tables.slots(seq, start), tokens[start:], strict=True):
            self.memory[slot] = token

    def _held(self):
        return {block for seq in self.tables.sequences() for block in self.tables.blocks(seq)}

    def _any(self):
        return self.random.choice(sorted(self.model))

    def _name(self):
        self.names += 1
        return f"s{self.names:06d}"

    def _text(self, n):
        return [self.random.randint(0, 1) for _ in range(n)]
