"""Answers to exercise 2.11. Each function stands alone: its source is also judged in a process of its own."""

import inspect

from ..spoiling import spoiled

APPEND, GATHER, OVER_TIME = "test: append", "test: gather", "test: over time"
TESTS = {APPEND, GATHER, OVER_TIME}
PAGES, RANGES, REUSE = "pages", "gather", "reuse"
CACHE = {PAGES, RANGES, REUSE}
NUMBERS, CAUSES = "numbers", "causes"


def beside_a_dictionary():
    """Right: random operations, with a list of tokens for each sequence; slots by indexing."""
    import random

    import torch

    def check_cache(make):
        draw = random.Random(0)
        for page_size in (2, 3):
            cache, truth, buffer = make(7, page_size), {}, torch.empty(2, 2, 4)
            for _ in range(30):
                seq = draw.choice("abc")
                if seq in truth and draw.random() < 0.1:
                    cache.free(seq)
                    del truth[seq]
                else:
                    buffer.copy_(torch.randn(2, 2, 4))
                    held = sum(-(-len(text) // page_size) for text in truth.values())
                    fits = len(truth.get(seq, [])) % page_size > 0 or held < 7
                    try:
                        cache.append(seq, buffer[0], buffer[1])
                        assert fits, "there was no page for this token"
                        truth.setdefault(seq, []).append(buffer.clone())
                    except MemoryError:
                        assert not fits, "there was a page for this token"
                    buffer.fill_(0.0)
                owners = [page for name in truth for page in cache.pages(name)]
                assert len(set(owners)) == len(owners), "a page has two owners"
                for name, text in truth.items():
                    assert len(cache.pages(name)) == -(-len(text) // page_size), "too many pages, or too few"
                    some = sorted(draw.randint(0, len(text)) for _ in range(2))
                    for start, stop in ((0, len(text)), some):
                        k, v = cache.gather(name, start, stop)
                        want = torch.stack(text[start:stop]) if start < stop else torch.empty(0, 2, 2, 4)
                        assert torch.equal(k, want[:, 0]), "keys"
                        assert torch.equal(v, want[:, 1]), "values"
                        k.fill_(5.0)
                        v.fill_(5.0)
                    for start in (0, len(text) + 1):
                        refused = False
                        try:
                            cache.gather(name, start, len(text) + 1)
                        except IndexError:
                            refused = True
                        assert refused, "tokens that nobody wrote"

    class RepairedKV:
        def __init__(self, num_pages, page_size):
            self.page_size = page_size
            self.k_pages = torch.full((num_pages, page_size, 2, 4), torch.nan)
            self.v_pages = torch.full((num_pages, page_size, 2, 4), torch.nan)
            self.unused = list(range(num_pages))[::-1]
            self.tables, self.lengths = {}, {}

        def pages(self, seq):
            return list(self.tables[seq])

        def append(self, seq, k, v):
            table, length = self.tables.get(seq, []), self.lengths.get(seq, 0)
            if length == len(table) * self.page_size:
                if not self.unused:
                    raise MemoryError("no page is free")
                table = self.tables[seq] = [*table, self.unused.pop()]
            page, slot = table[length // self.page_size], length % self.page_size
            self.k_pages[page, slot] = k
            self.v_pages[page, slot] = v
            self.lengths[seq] = length + 1

        def gather(self, seq, start, stop):
            if stop > self.lengths[seq]:
                raise IndexError(f"{stop} of {self.lengths[seq]} tokens")
            token = torch.arange(start, stop)
            page, slot = torch.tensor(self.tables[seq])[token // self.page_size], token % self.page_size
            return self.k_pages[page, slot], self.v_pages[page, slot]

        def free(self, seq):
            self.unused += self.tables.pop(seq)
            del self.lengths[seq]

    def diagnose(before, after, block_size, bound_hits):
        queries = after["prefix_cache_queries"] - before["prefix_cache_queries"]
        hits = after["prefix_cache_hits"] - before["prefix_cache_hits"]
        evicted = after["prefix_cache_evictions"]
        if bound_hits is None and (queries == 0 or evicted == 0):
            bound_hits = hits
        empty = after["kv_waste_internal_tokens"] + after["kv_waste_reserved_tokens"]
        held = after["kv_blocks_held"]
        return {
            "hit_rate": hits / queries if queries else None,
            "waste": empty / (held * block_size) if held else 0.0,
            "room": after["kv_blocks_free"] + after["kv_blocks_cached"],
            "lost_tokens": None if bound_hits is None else bound_hits - hits,
            "alert": None if bound_hits is None else 10 * hits < 9 * bound_hits,
            "leak": held > 0 if after["kv_sequences"] == 0 else None,
        }

    return check_cache, RepairedKV, diagnose


def scene_by_scene():
    """Right: no random number; a scene for each rule. The cache keeps the slot of each token."""
    import torch

    def check_cache(make):
        def token(n):
            return torch.full((2, 4), float(n)) / 3, torch.full((2, 4), -float(n)) / 7

        def same(cache, seq, numbers, start=0):
            k, v = cache.gather(seq, start, start + len(numbers))
            n = torch.tensor(numbers, dtype=torch.float32)[:, None, None].expand(-1, 2, 4)
            assert torch.equal(k, n / 3)
            assert torch.equal(v, -n / 7)

        cache = make(3, 4)
        for n in range(1, 6):
            cache.append("a", *token(n))
            assert len(cache.pages("a")) == (1 if n <= 4 else 2)
        same(cache, "a", [1, 2, 3, 4, 5])
        for start in range(6):
            for stop in range(start, 6):
                same(cache, "a", list(range(start + 1, stop + 1)), start)
        for start, stop in ((0, 6), (0, 8), (0, 9), (6, 6), (9, 9)):
            try:
                cache.gather("a", start, stop)
                raise AssertionError("beyond the end")
            except IndexError:
                pass
        cache.append("b", *token(6))
        cache.append("a", *token(7))
        cache.append("b", *token(8))
        same(cache, "a", [1, 2, 3, 4, 5, 7])
        same(cache, "b", [6, 8])
        cache.append("b", *token(9))
        cache.append("b", *token(10))
        assert not set(cache.pages("a")) & set(cache.pages("b"))
        try:
            cache.append("b", *token(11))
            raise AssertionError("full")
        except MemoryError:
            pass
        assert len(cache.pages("b")) == 1
        try:
            cache.gather("b", 0, 5)
            raise AssertionError("the refused one counts")
        except IndexError:
            pass
        cache.free("a")
        for n in range(20, 28):
            cache.append("b", *token(n))
        same(cache, "b", [6, 8, 9, 10, *range(20, 28)])
        cache.free("b")
        for n in range(30, 42):
            cache.append("a", *token(n))
        assert sorted(set(cache.pages("a"))) == sorted(cache.pages("a"))
        same(cache, "a", list(range(30, 42)))

        cache = make(5, 3)
        for n in range(6):
            cache.append("x", *token(n))
            cache.append("y", *token(100 + n))
        same(cache, "x", [0, 1, 2, 3, 4, 5])
        cache.free("x")
        cache.free("y")
        for n in range(15):
            cache.append("z", *token(n))
        same(cache, "z", list(range(15)))
        mine = torch.ones(2, 4)
        cache.free("z")
        cache.append("z", mine, mine)
        mine += 1
        k, v = cache.gather("z", 0, 1)
        assert (k == 1).all()
        k[:] = 9
        assert (cache.gather("z", 0, 1)[0] == 1).all()
        assert (v == 1).all()

    class RepairedKV:
        def __init__(self, num_pages, page_size):
            self.size = page_size
            self.k_pages = torch.zeros(num_pages, page_size, 2, 4)
            self.v_pages = torch.zeros(num_pages, page_size, 2, 4)
            self.free_pages = set(range(num_pages))
            self.slots = {}

        def pages(self, seq):
            return [slot // self.size for slot in self.slots[seq][:: self.size]]

        def append(self, seq, k, v):
            slots = self.slots.get(seq, [])
            if len(slots) % self.size:
                slot = slots[-1] + 1
            elif self.free_pages:
                slot = self.free_pages.pop() * self.size
            else:
                raise MemoryError
            self.slots[seq] = [*slots, slot]
            self.k_pages.view(-1, 2, 4)[slot] = k
            self.v_pages.view(-1, 2, 4)[slot] = v

        def gather(self, seq, start, stop):
            if stop > len(self.slots[seq]):
                raise IndexError
            slots = torch.tensor(self.slots[seq][start:stop], dtype=torch.long)
            return self.k_pages.view(-1, 2, 4)[slots], self.v_pages.view(-1, 2, 4)[slots]

        def free(self, seq):
            self.free_pages |= set(self.pages(seq))
            del self.slots[seq]

    def diagnose(before, after, block_size, bound_hits):
        found = dict.fromkeys(("hit_rate", "lost_tokens", "alert", "leak"))
        asked, hits, evictions = (
            after["prefix_cache_" + name] - before["prefix_cache_" + name] for name in ("queries", "hits", "evictions")
        )
        if asked > 0:
            found["hit_rate"] = hits / asked
        if bound_hits is not None:
            found["lost_tokens"] = bound_hits - hits
            found["alert"] = hits < 0.9 * bound_hits
        elif asked == 0 or before["prefix_cache_evictions"] + evictions == 0:
            found["lost_tokens"] = 0
            found["alert"] = False
        if not after["kv_sequences"]:
            found["leak"] = after["kv_blocks_held"] != 0
        slots = block_size * after["kv_blocks_held"]
        found["waste"] = 0.0
        if slots:
            found["waste"] = (after["kv_waste_reserved_tokens"] + after["kv_waste_internal_tokens"]) / slots
        found["room"] = after["kv_blocks"] - after["kv_blocks_held"]
        return found

    return check_cache, RepairedKV, diagnose


def rules_in_a_list():
    """Right: each rule is a function, all of them run over a log of what went in. The cache loops over tokens."""
    import itertools
    import math

    import torch

    def check_cache(make):
        numbers = itertools.count(1)
        log, given = {}, torch.zeros(2, 2, 4)
        size = 3
        cache = make(4, size)

        def put(seq):
            given.copy_(torch.arange(16.0).view(2, 2, 4) * math.pi + next(numbers))
            copy = given.clone()
            cache.append(seq, given[0], given[1])
            given.zero_()
            log.setdefault(seq, []).append(copy)
            if sum(map(len, log.values())) % 3 == 0:
                look()

        def look():
            for seq, text in log.items():
                pages = cache.pages(seq)
                if len(pages) != math.ceil(len(text) / size):
                    raise AssertionError(f"{seq}: {len(text)} tokens in {pages}")
                for start, stop in itertools.combinations_with_replacement(range(len(text) + 1), 2):
                    k, v = cache.gather(seq, start, stop)
                    if len(k) != stop - start or len(v) != stop - start:
                        raise AssertionError("rows")
                    for row, (key, value) in enumerate(text[start:stop]):
                        if (k[row] != key).any() or (v[row] != value).any():
                            raise AssertionError("content")
                    k *= 0
                    v *= 0
                for stop in range(len(text) + 1, len(pages) * size + 2):
                    expect(IndexError, lambda seq=seq, stop=stop: cache.gather(seq, 0, stop))
                    expect(IndexError, lambda seq=seq, stop=stop: cache.gather(seq, stop, stop))
            everything = [page for seq in log for page in cache.pages(seq)]
            if len(everything) > len(set(everything)):
                raise AssertionError("shared")

        def expect(kind, call):
            try:
                call()
            except kind:
                return
            raise AssertionError(kind)

        for seq in "aababbabbaab":
            put(seq)
        expect(MemoryError, lambda: put("a") or put("a"))
        expect(MemoryError, lambda: put("c"))
        look()
        for seq, more in (("a", "bbbccc"), ("b", "aacccaaa"), ("a", "dd"), ("c", "aaadd")):
            cache.free(seq)
            del log[seq]
            for one in more:
                try:
                    put(one)
                except MemoryError:
                    if sum(math.ceil(len(text) / size) for text in log.values()) < 4 or len(log.get(one, [])) % size:
                        raise AssertionError("there is room") from None
        for seq in list(log):
            cache.free(seq)
            del log[seq]
        for _ in range(12):
            put("e")
        look()

    class RepairedKV:
        def __init__(self, num_pages, page_size):
            shape = (num_pages, page_size, 2, 4)
            self.k_pages, self.v_pages = torch.empty(shape), torch.empty(shape)
            self.owner = [None] * num_pages
            self.order = {}
            self.count = {}

        def pages(self, seq):
            return self.order[seq]

        def append(self, seq, k, v):
            page_size = self.k_pages.shape[1]
            have = self.count.get(seq, 0)
            if have % page_size == 0:
                if None not in self.owner:
                    raise MemoryError("none is free")
                page = self.owner.index(None)
                self.owner[page] = seq
                self.order[seq] = [*self.order.get(seq, []), page]
            self.count[seq] = have + 1
            self.k_pages[self.order[seq][-1]][have % page_size].copy_(k)
            self.v_pages[self.order[seq][-1]][have % page_size].copy_(v)

        def gather(self, seq, start, stop):
            if not start <= stop <= self.count[seq]:
                raise IndexError(stop)
            k, v = torch.empty(stop - start, 2, 4), torch.empty(stop - start, 2, 4)
            for row in range(stop - start):
                which, slot = divmod(start + row, self.k_pages.shape[1])
                k[row] = self.k_pages[self.order[seq][which], slot]
                v[row] = self.v_pages[self.order[seq][which], slot]
            return [k, v]

        def free(self, seq):
            for page in self.order.pop(seq):
                self.owner[page] = None
            self.count.pop(seq)

    def diagnose(before, after, block_size, bound_hits):
        def more(name):
            return after[name] - before[name]

        def lost():
            if bound_hits is not None:
                return bound_hits - more("prefix_cache_hits")
            return 0 if not more("prefix_cache_queries") or not after["prefix_cache_evictions"] else None

        missing = lost()
        could = None if missing is None else more("prefix_cache_hits") + missing
        slots = after["kv_blocks_held"] * block_size
        return {
            "hit_rate": more("prefix_cache_hits") / more("prefix_cache_queries") if more("prefix_cache_queries") else None,
            "lost_tokens": missing,
            "alert": None if could is None else 10 * missing > could,
            "waste": (after["kv_waste_internal_tokens"] + after["kv_waste_reserved_tokens"]) / max(slots, 1),
            "room": sum(after[f"kv_blocks_{state}"] for state in ("free", "cached")),
            "leak": {True: None, False: bool(after["kv_blocks_held"])}[after["kv_sequences"] > 0],
        }

    return check_cache, RepairedKV, diagnose


def pages_cut_and_joined():
    """Right: the test holds another cache, a list, beside; gather cuts pages and joins them, as the given one means to."""
    from collections import defaultdict, deque

    import torch

    class Truth:
        def __init__(self, num_pages, page_size):
            self.free, self.size, self.rows = num_pages, page_size, defaultdict(list)

        def append(self, seq, k, v):
            if len(self.rows[seq]) % self.size == 0:
                if self.free == 0:
                    raise MemoryError
                self.free -= 1
            self.rows[seq].append(torch.stack([k, v]))

        def give_up(self, seq):
            self.free += (len(self.rows[seq]) + self.size - 1) // self.size
            del self.rows[seq]

    def check_cache(make):
        torch.manual_seed(1)
        for num_pages, page_size, script in (
            (2, 5, "aaaaabbbbbb-abbbb-baaaa"),
            (3, 2, "abababa-bbaaa-a-bccdcd-c-dcccccc"),
            (1, 1, "aa-ab"),
        ):
            cache, truth = make(num_pages, page_size), Truth(num_pages, page_size)
            letters, seen = iter(script), set()
            for letter in letters:
                if letter == "-":
                    seq = next(letters)
                    if seq in seen:
                        kept = [(x, x.clone()) for x in cache.gather(seq, 0, min(page_size, len(truth.rows[seq])))]
                        cache.free(seq)
                        truth.give_up(seq)
                        seen.discard(seq)
                        assert all(torch.equal(x, copy) for x, copy in kept)
                    continue
                k, v = torch.rand(2, 4), torch.rand(2, 4)
                try:
                    truth.append(letter, k, v)
                    wanted = None
                except MemoryError:
                    wanted = MemoryError
                try:
                    cache.append(letter, k, v)
                    got = None
                except MemoryError:
                    got = MemoryError
                assert got is wanted
                seen |= {letter} if got is None else set()
                k.neg_()
                v.neg_()
                taken = []
                for seq in seen:
                    rows = truth.rows[seq]
                    pages = cache.pages(seq)
                    taken += pages
                    assert (len(pages) - 1) * page_size < len(rows) <= len(pages) * page_size
                    for start in range(len(rows) + 1):
                        for stop in range(start, len(rows) + 1):
                            pair = cache.gather(seq, start, stop)
                            assert [len(x) for x in pair] == [stop - start] * 2
                            for which in (0, 1):
                                for row in range(start, stop):
                                    assert torch.equal(pair[which][row - start], rows[row][which])
                                pair[which].zero_()
                    for start in (len(rows), len(rows) + 1):
                        try:
                            cache.gather(seq, start, len(rows) + 1)
                        except IndexError:
                            continue
                        raise AssertionError("nobody wrote this")
                assert len(taken) == len(set(taken))

    class RepairedKV:
        def __init__(self, num_pages, page_size):
            self.page_size = page_size
            self.k_pages, self.v_pages = torch.full((2, num_pages, page_size, 2, 4), torch.nan).unbind()
            self.unused, self.tables, self.lengths = deque(range(num_pages)), {}, {}

        def pages(self, seq):
            return list(self.tables[seq])

        def append(self, seq, k, v):
            length = self.lengths.get(seq, 0)
            slot = length % self.page_size
            if slot == 0:
                try:
                    page = self.unused.popleft()
                except IndexError:
                    raise MemoryError from None
                self.tables.setdefault(seq, []).append(page)
            page = self.tables[seq][-1]
            self.k_pages[page, slot], self.v_pages[page, slot] = k, v
            self.lengths[seq] = length + 1

        def gather(self, seq, start, stop):
            if stop > self.lengths[seq]:
                raise IndexError("too far")
            first, last = start // self.page_size, -(-stop // self.page_size)
            pages = self.tables[seq][first:last]
            skip = start - first * self.page_size
            whole = [torch.cat([torch.empty(0, 2, 4), *(part[page] for page in pages)]) for part in (self.k_pages, self.v_pages)]
            k, v = (part[skip : skip + stop - start] for part in whole)
            return k, v

        def free(self, seq):
            self.unused.extend(self.tables.pop(seq))
            self.lengths.pop(seq)

    def diagnose(before, after, block_size, bound_hits):
        delta = {name: after[name] - before[name] for name in after}
        hits, queries = delta["prefix_cache_hits"], delta["prefix_cache_hits"] + delta["prefix_cache_misses"]
        nothing_lost = queries == 0 or after["prefix_cache_evictions"] == 0
        best = bound_hits if bound_hits is not None else hits if nothing_lost else None
        result = {"hit_rate": None, "lost_tokens": None, "alert": None, "leak": None, "waste": 0.0}
        if queries:
            result["hit_rate"] = hits / queries
        if best is not None:
            result.update(lost_tokens=best - hits, alert=best > 0 and hits / best < 0.9)
        if after["kv_blocks_held"]:
            slots = after["kv_blocks_held"] * block_size
            used = slots - after["kv_waste_internal_tokens"] - after["kv_waste_reserved_tokens"]
            result["waste"] = 1 - used / slots
        if after["kv_sequences"] == 0:
            result["leak"] = bool(after["kv_blocks_held"])
        return result | {"room": after["kv_blocks_free"] + after["kv_blocks_cached"]}

    return check_cache, RepairedKV, diagnose


def nothing_tested():
    """Wrong: a test without a claim, the cache as it was given, and a diagnosis of zeros."""
    import torch

    def check_cache(make):
        cache = make(4, 4)
        cache.append("a", torch.ones(2, 4), torch.ones(2, 4))
        return cache.gather("a", 0, 1) is None

    class RepairedKV:
        def __init__(self, num_pages, page_size):
            self.page_size = page_size
            self.k_pages = torch.full((num_pages, page_size, 2, 4), torch.nan)
            self.v_pages = torch.full((num_pages, page_size, 2, 4), torch.nan)
            self.unused = list(range(num_pages))[::-1]
            self.tables, self.lengths = {}, {}

        def pages(self, seq):
            return list(self.tables[seq])

        def append(self, seq, k, v):
            table, length = self.tables.setdefault(seq, []), self.lengths.get(seq, 0)
            self.lengths[seq] = length + 1
            if length + 1 >= len(table) * self.page_size:
                if not self.unused:
                    raise MemoryError("no page is free")
                table.append(self.unused.pop())
            page, slot = table[length // self.page_size], length % self.page_size
            self.k_pages[page, slot], self.v_pages[page, slot] = k, v

        def gather(self, seq, start, stop):
            pages = sorted(self.tables[seq][start // self.page_size : stop // self.page_size])
            if len(pages) == 1:
                return self.k_pages[pages[0]][: stop - start], self.v_pages[pages[0]][: stop - start]
            k = torch.cat([self.k_pages[page] for page in pages])
            v = torch.cat([self.v_pages[page] for page in pages])
            return k[: stop - start], v[: stop - start]

        def free(self, seq):
            self.unused += self.tables.pop(seq)

    def diagnose(before, after, block_size, bound_hits):
        return dict.fromkeys(("hit_rate", "waste", "room", "lost_tokens", "alert", "leak"), 0)

    return check_cache, RepairedKV, diagnose


def one_sequence_small_numbers():
    """Wrong: what one tries first. Three tokens with whole numbers, gathered once, all of them."""
    import torch

    def check_cache(make):
        cache = make(8, 2)
        for n in range(3):
            cache.append("a", torch.full((2, 4), float(n)), torch.full((2, 4), float(n) + 10))
        k, v = cache.gather("a", 0, 3)
        for n in range(3):
            assert (k[n] == n).all()
            assert (v[n] == n + 10).all()
        assert len(k) == 3
        assert len(cache.pages("a")) == 2

    right = beside_a_dictionary()
    return check_cache, right[1], right[2]


def change(name, *changes):
    return spoiled(beside_a_dictionary, name, *changes)


def test_of(answer):
    """The text of its check_cache."""
    text = inspect.getsource(answer)
    return text[text.index("    def check_cache") : text.index("    class RepairedKV")]


def quick(name, *changes):
    """The same with the test of scene_by_scene, which takes a third of the time."""
    return spoiled(beside_a_dictionary, name, (test_of(beside_a_dictionary), test_of(scene_by_scene)), *changes)


def peeks(name, *lines):
    """A test that looks for what the judge knows instead of at what the cache does."""
    text = "".join(f"        {line}\n" for line in lines)
    test = f"    def check_cache(make):\n        cache = make(2, 2)\n{text}\n"
    return spoiled(beside_a_dictionary, name, (test_of(beside_a_dictionary), test))


FRAME = (
    "try:", "    raise ValueError", "except ValueError as error:",
    "    case = error.__traceback__.tb_frame.f_back.f_locals['case']",
)  # fmt: skip
DRAW = "draw = random.Random(0)"
MORE_EVICTED = '(evicted - before["prefix_cache_evictions"]) * block_size'
FULL = "if length == len(table) * self.page_size:"
FRESH = "table = self.tables[seq] = [*table, self.unused.pop()]"
SLOT = "length // self.page_size], length % self.page_size"
BEYOND = "            if stop > self.lengths[seq]:\n"
INDEXED = "page, slot = torch.tensor(self.tables[seq])[token // self.page_size], token % self.page_size"
GIVEN = "return self.k_pages[page, slot], self.v_pages[page, slot]"
TOKEN = "token = torch.arange(start, stop)"
FORGET = "            del self.lengths[seq]\n"
GIVE_BACK = "self.unused += self.tables.pop(seq)"
WRITTEN = "            length = self.lengths.get(seq, 0)\n"
VIEW = """if start < stop and start // self.page_size == (stop - 1) // self.page_size:
                page, slot = self.tables[seq][start // self.page_size], start % self.page_size
                part = slice(slot, slot + stop - start)
                return self.k_pages[page, part], self.v_pages[page, part]
            token = torch.arange(start, stop)"""
WHOLE = """first = start // self.page_size * self.page_size
            token = torch.arange(first, -(-stop // self.page_size) * self.page_size)"""
REFUSED = 'if stop > self.lengths[seq]:\n                raise IndexError(f"{stop} of {self.lengths[seq]} tokens")\n'
NOTHING = "if start == stop:\n                return torch.empty(0, 2, 4), torch.empty(0, 2, 4)\n            "
HITS = 'hits = after["prefix_cache_hits"] - before["prefix_cache_hits"]'
QUERIES = 'queries = after["prefix_cache_queries"] - before["prefix_cache_queries"]'
DERIVED = "if bound_hits is None and (queries == 0 or evicted == 0):"
EVICTED = 'evicted = after["prefix_cache_evictions"]'
LOST = '"lost_tokens": None if bound_hits is None else bound_hits - hits'
ALERT = '"alert": None if bound_hits is None else 10 * hits < 9 * bound_hits'
HELD = 'held = after["kv_blocks_held"]'
LEAK = '"leak": held > 0 if after["kv_sequences"] == 0 else None'
ROOM = 'after["kv_blocks_free"] + after["kv_blocks_cached"]'
EMPTY = 'empty = after["kv_waste_internal_tokens"] + after["kv_waste_reserved_tokens"]'
LIMITED = "cache.gather(name, start, len(text) + 1)"

WRONG = [
    (nothing_tested, TESTS | CACHE | {NUMBERS, CAUSES}),
    # tests
    (one_sequence_small_numbers, TESTS),
    (change("refuses_everything", ("buffer = make(7, page_size)", "buffer = make(None, None)")), TESTS),
    (change("accepts_everything", (DRAW, f"return True\n        {DRAW}")), TESTS),
    (change("says_false_and_raises_nothing",
            ('assert len(cache.pages(name)) == -(-len(text) // page_size), "too many pages, or too few"',
             "if len(cache.pages(name)) != -(-len(text) // page_size):\n                        return False")), {APPEND}),
    (change("wants_page_0_first", ('assert len(set(owners)) == len(owners), "a page has two owners"',
            "assert 0 in owners or not owners")), TESTS),
    (change("never_counts_pages_and_is_never_full", ("make(7, page_size)", "make(7000, page_size)"), ("held < 7", "held < 7000"),
            ('assert len(cache.pages(name)) == -(-len(text) // page_size), "too many pages, or too few"', "pass")),
     {APPEND, OVER_TIME}),
    (change("looks_at_keys_only", ('assert torch.equal(v, want[:, 1]), "values"', "pass")), {GATHER}),
    (change("gathers_everything_only", ("for start, stop in ((0, len(text)), some):", "for start, stop in ((0, len(text)),):")),
     {GATHER}),
    (change("never_an_empty_range", ("sorted(draw.randint(0, len(text)) for _ in range(2))", "(0, draw.randint(1, len(text)))"),
            ), {GATHER}),
    (change("never_beyond_the_end", (LIMITED, "raise IndexError")), {GATHER, OVER_TIME}),
    (change("whole_numbers", ("buffer.copy_(torch.randn(2, 2, 4))", "buffer.copy_(torch.randint(-99, 99, (2, 2, 4)))")),
     {GATHER}),
    (change("keeps_its_buffer", ("                    buffer.fill_(0.0)\n", "                    buffer = buffer.clone()\n")),
     {OVER_TIME}),
    (change("writes_into_nothing", ("                        k.fill_(5.0)\n                        v.fill_(5.0)\n", "")),
     {OVER_TIME}),
    (change("never_frees", ("draw.random() < 0.1", "draw.random() < 0.0"), ('draw.choice("abc")', 'draw.choice("ab")')),
     {GATHER, OVER_TIME}),
    (change("never_full", ("make(7, page_size)", "make(7000, page_size)"), ("held < 7", "held < 7000")), {APPEND, OVER_TIME}),
    (change("any_error_is_a_refusal", ("except MemoryError:", "except Exception:"), ("except IndexError:", "except Exception:")),
     {APPEND, GATHER}),
    (change("never_an_empty_range_behind_the_end", ("for start in (0, len(text) + 1):", "for start in (0,):")), {GATHER}),
    (peeks("goes_on_and_on", "cache.append('a', torch.ones(2, 4), torch.ones(2, 4))", "for _ in range(10_000):",
           "    cache.pages('a')"), TESTS),
    # tests that look for a label: on the cache, around it, in the case
    (peeks("reads_the_kind", "assert cache._kind in ('lowest page first', 'highest page first', 'any page')"), TESTS),
    (peeks("reads_words_on_the_cache", "words = [x for x in vars(cache).values() if isinstance(x, str)]",
           "assert any('page first' in x or x == 'any page' for x in words)"), TESTS),
    (peeks("reads_the_closure", "words = [str(cell.cell_contents) for cell in make.__closure__]",
           "assert any('page first' in x or x == 'any page' for x in words)"), TESTS),
    (peeks("reads_the_globals", "assert any(x in make.__globals__['RIGHT'] for x in vars(cache).values())"), TESTS),
    (peeks("reads_the_class", "assert 'Right' in type(cache).__name__"), TESTS),
    (peeks("reads_the_case", *FRAME, "assert case['right']"), TESTS),
    (peeks("reads_the_case_kind", *FRAME, "assert 'page first' in case['kind'] or 'any' in case['kind']"), TESTS),
    (peeks("reads_the_case_name", *FRAME, "assert 'right' in case['name']"), TESTS),
    (peeks("counts_the_cases", *FRAME, "assert int(case['name'].split()[1]) <= 3"), TESTS),
    (peeks("asks_which_mistake_it_has", "names = [x for x in type(cache).append.__code__.co_consts if isinstance(x, str)]",
           "assert not any(cache._is(x) for x in names)"), TESTS),
    # each of the nine mistakes alone
    (quick("counts_before_there_is_a_page", (FULL, "self.lengths[seq] = length + 1\n            " + FULL)), {PAGES, REUSE}),
    (quick("opens_too_early", (FULL, "if length + 1 >= len(table) * self.page_size:")), CACHE),
    (quick("drops_the_last_page", (TOKEN, "token = torch.arange(start, max(start, stop // self.page_size * self.page_size))")),
     CACHE),
    (quick("sorts_the_pages", ("torch.tensor(self.tables[seq])", "torch.tensor(sorted(self.tables[seq]))")), {PAGES, REUSE}),
    (quick("begins_at_the_page", (TOKEN, "token = torch.arange(start, stop) - start % self.page_size")), {RANGES, REUSE}),
    (quick("gives_its_own_memory", (TOKEN, VIEW)), {RANGES, REUSE}),
    (quick("no_empty_range", (TOKEN, f"torch.cat([self.k_pages[0]] * (stop - start))\n            {TOKEN}")),
     {RANGES}),
    (quick("gives_what_nobody_wrote", (REFUSED, "pass\n")), {RANGES}),
    (quick("a_freed_name_goes_on", (FORGET, "")), {REUSE}),
    # and others
    (quick("a_page_for_each_token", (FULL, "if True:"), (SLOT, "-1], 0")), CACHE),
    (quick("whole_pages", (TOKEN, WHOLE)), CACHE),
    (quick("keeps_the_first_page", (GIVE_BACK, "self.unused += self.tables.pop(seq)[1:]")), {PAGES, REUSE}),
    (quick("values_are_keys", (GIVEN, "return self.k_pages[page, slot], self.k_pages[page, slot]")), CACHE),
    (quick("valueerror_when_full", ('raise MemoryError("no page is free")', 'raise ValueError("no page is free")')),
     {PAGES, REUSE}),
    (quick("an_empty_range_anywhere", (REFUSED, NOTHING + REFUSED)), {RANGES}),
    (quick("stop_is_asked_for", ("if stop > self.lengths[seq]:", "if stop >= self.lengths[seq]:")), CACHE),
    (quick("keys_and_values_exchanged", ("self.k_pages[page, slot] = k\n", "self.v_pages[page, slot] = k\n"),
            ("self.v_pages[page, slot] = v\n", "self.k_pages[page, slot] = v\n"),
            (GIVEN, "return self.v_pages[page, slot], self.k_pages[page, slot]")), CACHE),
    # diagnoses
    (quick("gauges_as_differences", (EMPTY, EMPTY + "".join(
                f' - before["kv_waste_{one}_tokens"]' for one in ("internal", "reserved"))),
            (HELD, HELD + ' - before["kv_blocks_held"]'),
            (LEAK, LEAK.replace('after["kv_sequences"]', 'after["kv_sequences"] - before["kv_sequences"]'))), {NUMBERS, CAUSES}),
    (quick("evictions_before_the_first_scrape", (EVICTED, EVICTED.replace("after", "before"))), {CAUSES}),
    (quick("leaked_if_grown", (LEAK, LEAK.replace("held > 0", 'held > before["kv_blocks_held"]'))), {CAUSES}),
    (quick("no_sequence_at_either_scrape",
            (LEAK, LEAK.replace('after["kv_sequences"] ==', 'after["kv_sequences"] == before["kv_sequences"] =='))), {CAUSES}),
    (quick("rates_since_the_start", (HITS, 'hits = after["prefix_cache_hits"]'),
            (QUERIES, 'queries = after["prefix_cache_queries"]')), {NUMBERS, CAUSES}),
    (quick("no_rate_is_zero", ("hits / queries if queries else None", "hits / queries if queries else 0.0")), {NUMBERS}),
    (quick("cached_is_taken", (ROOM, 'after["kv_blocks_free"]')), {NUMBERS}),
    (quick("room_in_tokens", (ROOM, f"({ROOM}) * block_size")), {NUMBERS}),
    (quick("internal_only", (EMPTY, 'empty = after["kv_waste_internal_tokens"]')), {NUMBERS}),
    (quick("waste_of_the_pool", ("empty / (held * block_size)", 'empty / (after["kv_blocks"] * block_size)')), {NUMBERS}),
    (quick("waste_of_the_scrape_before", (EMPTY, EMPTY.replace("after", "before"))), {NUMBERS}),
    (quick("every_miss_is_lost", (LOST, '"lost_tokens": queries - hits')), {CAUSES}),
    (quick("evicted_is_lost", (LOST, LOST.replace("None if", f"{MORE_EVICTED} if"))), {CAUSES}),
    (quick("unknown_is_nothing", (LOST, LOST.replace("None if", "0 if"))), {CAUSES}),
    (quick("always_needs_the_bound", (DERIVED, "if False:")), {CAUSES}),
    (quick("evictions_of_the_window", (EVICTED, EVICTED + ' - before["prefix_cache_evictions"]')), {CAUSES}),
    (quick("without_a_question_unknown", (DERIVED, "if bound_hits is None and evicted == 0:")), {CAUSES}),
    (quick("the_roadmaps_alert", (ALERT, '"alert": hits < 0.65 * queries')), {CAUSES}),
    (quick("alert_at_the_edge", (ALERT, ALERT.replace("<", "<="))), {CAUSES}),
    (quick("alert_without_a_bound", (ALERT, ALERT.replace("None if", "False if"))), {CAUSES}),
    (quick("held_is_leaked", (LEAK, '"leak": held > 0')), {CAUSES}),
    (quick("running_is_no_leak", (LEAK, '"leak": held > 0 and after["kv_sequences"] == 0')), {CAUSES}),
    (quick("cached_is_leaked", (LEAK, LEAK.replace("held > 0", 'after["kv_blocks_free"] < after["kv_blocks"]'))), {CAUSES}),
]  # fmt: skip
RIGHT = [beside_a_dictionary, scene_by_scene, rules_in_a_list, pages_cut_and_joined]
