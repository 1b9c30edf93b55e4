"""Answers to exercise 2.6. Each function stands alone: its source is also judged in a process of its own."""

from ..spoiling import spoiled

SLOTS, REFUSALS, SHARING, LEAK, WASTE = "slots", "refusals", "sharing", "no leak", "waste"
TABLES = {SLOTS, REFUSALS, SHARING, LEAK}
ALL = TABLES | {WASTE}


def counted(num_blocks, block_size):
    """Right: a list of free blocks and a count of holders for each."""

    class Memory:
        def __init__(self):
            self.unused = list(range(num_blocks))
            self.holders = [0] * num_blocks
            self.tables = {}
            self.lengths = {}

        def take(self, n):
            if n > len(self.unused):
                raise ValueError(f"{n} blocks wanted, {len(self.unused)} are free")
            blocks = [self.unused.pop() for _ in range(n)]
            for block in blocks:
                self.holders[block] = 1
            return blocks

        def give_back(self, block):
            self.holders[block] -= 1
            if self.holders[block] == 0:
                self.unused.append(block)

        def known(self, name):
            if name not in self.tables:
                raise ValueError(f"no sequence {name}")

        def add(self, name):
            if name in self.tables:
                raise ValueError(f"{name} is there")
            self.tables[name], self.lengths[name] = [], 0

        def append(self, name, tokens):
            self.known(name)
            start, table = self.lengths[name], self.tables[name]
            end = start + tokens
            needed = (end + block_size - 1) // block_size - len(table)
            fresh = self.take(needed)
            table.extend(fresh)
            self.lengths[name] = end
            return [table[p // block_size] * block_size + p % block_size for p in range(start, end)]

        def fork(self, parent, child):
            self.known(parent)
            if child in self.tables:
                raise ValueError(f"{child} is there")
            table, length = self.tables[parent], self.lengths[parent]
            part = 1 if length % block_size else 0
            own = self.take(part)
            shared = table[: length // block_size]
            for block in shared:
                self.holders[block] += 1
            self.tables[child], self.lengths[child] = shared + own, length
            return [(table[-1], own[0])] if part else []

        def free(self, name):
            self.known(name)
            for block in self.tables[name]:
                self.give_back(block)
            del self.tables[name]

        def table(self, name):
            return self.tables[name]

        def num_free(self):
            return len(self.unused)

        def waste(self, requests, max_length):
            def power(n):
                return 2 ** (n - 1).bit_length()

            sums = {"max_length": [0, 0], "power_of_two": [0, 0], "paged": [0, 0]}
            for prompt, output, done in requests:
                now, end = prompt + done, prompt + output
                slots = {
                    "max_length": max_length,
                    "power_of_two": power(min(prompt + power(output), max_length)),
                    "paged": -(-now // block_size) * block_size,
                }
                for key, size in slots.items():
                    sums[key][0] += min(size, end) - now
                    sums[key][1] += max(size - end, 0)
            return {key: tuple(pair) for key, pair in sums.items()}

    return Memory()


def without_counts(num_blocks, block_size):
    """Right: nothing but tables. A block is free when it stands in none."""
    import math
    from types import SimpleNamespace

    tables, lengths = {}, {}

    def free_blocks():
        held = set().union(*tables.values()) if tables else set()
        return [block for block in range(num_blocks) if block not in held]

    def add(name):
        if name in tables:
            raise ValueError("twice")
        tables[name] = []
        lengths[name] = 0

    def append(name, tokens):
        if name not in tables:
            raise ValueError("unknown")
        wanted = math.ceil((lengths[name] + tokens) / block_size) - len(tables[name])
        there = free_blocks()
        if wanted > len(there):
            raise ValueError("full")
        tables[name] = tables[name] + there[:wanted]
        slots = []
        for _ in range(tokens):
            which, place = divmod(lengths[name], block_size)
            slots.append(tables[name][which] * block_size + place)
            lengths[name] += 1
        return slots

    def fork(parent, child):
        if parent not in tables or child in tables:
            raise ValueError("unknown, or twice")
        full, part = divmod(lengths[parent], block_size)
        if not part:
            tables[child], lengths[child] = list(tables[parent]), lengths[parent]
            return []
        there = free_blocks()
        if not there:
            raise ValueError("full")
        tables[child], lengths[child] = [*tables[parent][:full], there[-1]], lengths[parent]
        return [[tables[parent][full], there[-1]]]

    def free(name):
        if name not in tables:
            raise ValueError("unknown")
        del tables[name], lengths[name]

    def waste(requests, max_length):
        def two(n):
            return 1 if n <= 1 else 2 * two((n + 1) // 2)

        def parts(slots):
            reserved = sum(min(slot, p + o) - p - d for slot, (p, o, d) in zip(slots, requests, strict=True))
            return reserved, sum(slots) - reserved - sum(p + d for p, o, d in requests)

        return {
            "paged": parts([math.ceil((p + d) / block_size) * block_size for p, o, d in requests]),
            "max_length": parts([max_length for _ in requests]),
            "power_of_two": parts([two(min(p + two(o), max_length)) for p, o, d in requests]),
        }

    return SimpleNamespace(add=add, append=append, fork=fork, free=free, table=lambda name: tables[name],
                           num_free=lambda: len(free_blocks()), waste=waste)  # fmt: skip


def owners_of_each_block(num_blocks, block_size):
    """Right: the other way round. Each block knows who holds it, and a heap has the free ones."""
    import heapq

    class Sequence:
        def __init__(self):
            self.blocks, self.used = [], 0

        def room(self):
            return len(self.blocks) * block_size - self.used

    class Memory:
        def __init__(self):
            self.heap = list(range(num_blocks))
            self.owners = {block: set() for block in range(num_blocks)}
            self.sequences = {}

        def _get(self, name):
            try:
                return self.sequences[name]
            except KeyError:
                raise ValueError(name) from None

        def add(self, name):
            if name in self.sequences:
                raise ValueError(name)
            self.sequences[name] = Sequence()

        def append(self, name, tokens):
            sequence = self._get(name)
            missing = max(0, tokens - sequence.room())
            opened = (missing + block_size - 1) // block_size
            if opened > len(self.heap):
                raise ValueError("no room")
            for _ in range(opened):
                block = heapq.heappop(self.heap)
                self.owners[block].add(name)
                sequence.blocks.append(block)
            everything = [block * block_size + slot for block in sequence.blocks for slot in range(block_size)]
            new = everything[sequence.used : sequence.used + tokens]
            sequence.used += tokens
            return tuple(new)

        def fork(self, parent, child):
            old = self._get(parent)
            if child in self.sequences:
                raise ValueError(child)
            if old.room() and not self.heap:
                raise ValueError("no room")
            copies = []
            new = Sequence()
            new.used = old.used
            for place, block in enumerate(old.blocks):
                if (place + 1) * block_size <= old.used:
                    new.blocks.append(block)
                else:
                    own = heapq.heappop(self.heap)
                    copies.append((block, own))
                    new.blocks.append(own)
                self.owners[new.blocks[-1]].add(child)
            self.sequences[child] = new
            return copies

        def free(self, name):
            for block in self._get(name).blocks:
                self.owners[block].discard(name)
                if not self.owners[block]:
                    heapq.heappush(self.heap, block)
            self.sequences.pop(name)

        def table(self, name):
            return tuple(self.sequences[name].blocks)

        def num_free(self):
            return sum(not owners for owners in self.owners.values())

        def waste(self, requests, max_length):
            result = {}
            for key in ("max_length", "power_of_two", "paged"):
                reserved = internal = 0
                for prompt, output, done in requests:
                    if key == "max_length":
                        slots = max_length
                    elif key == "power_of_two":
                        guess = 1
                        while guess < output:
                            guess *= 2
                        slots = 1
                        while slots < min(prompt + guess, max_length):
                            slots *= 2
                    else:
                        slots = prompt + done
                        while slots % block_size:
                            slots += 1
                    for slot in range(prompt + done, slots):
                        if slot < prompt + output:
                            reserved += 1
                        else:
                            internal += 1
                result[key] = [reserved, internal]
            return result

    return Memory()


def in_tensors(num_blocks, block_size):
    """Right: counts in a tensor, tables padded with -1, slots by indexing."""
    import torch

    class Memory:
        names = ()

        def __init__(self):
            self.count = torch.zeros(num_blocks, dtype=torch.int32)
            self.rows, self.length = {}, {}

        def _fresh(self, n):
            empty = (self.count == 0).nonzero()[:, 0]
            if len(empty) < n:
                raise ValueError("out of blocks")
            return empty[:n]

        def add(self, name):
            if name in self.rows:
                raise ValueError("exists")
            self.rows[name] = torch.full((num_blocks,), -1)
            self.length[name] = 0

        def append(self, name, tokens):
            if name not in self.rows:
                raise ValueError("unknown")
            row, old = self.rows[name], self.length[name]
            have = int((row >= 0).sum())
            want = -((old + tokens) // -block_size)
            fresh = self._fresh(want - have)
            self.count[fresh] += 1
            row[have:want] = fresh
            self.length[name] += tokens
            position = torch.arange(old, old + tokens)
            return row[position // block_size] * block_size + position % block_size

        def fork(self, parent, child):
            if parent not in self.rows or child in self.rows:
                raise ValueError("parent or child")
            row, full = self.rows[parent].clone(), self.length[parent] // block_size
            copies = []
            if self.length[parent] % block_size:
                own = self._fresh(1)
                copies = [(int(row[full]), int(own))]
                row[full] = own
            self.rows[child], self.length[child] = row, self.length[parent]
            self.count[row[row >= 0]] += 1
            return copies

        def free(self, name):
            if name not in self.rows:
                raise ValueError("unknown")
            row = self.rows.pop(name)
            self.count[row[row >= 0]] -= 1

        def table(self, name):
            row = self.rows[name]
            return row[row >= 0].tolist()

        def num_free(self):
            return int((self.count == 0).sum())

        def waste(self, requests, max_length):
            prompt, output, done = torch.tensor(requests).T
            exponent = [(int(n) - 1).bit_length() for n in output]
            guess = torch.minimum(prompt + 2 ** torch.tensor(exponent), torch.tensor(max_length))
            slots = {
                "max_length": torch.full_like(prompt, max_length),
                "power_of_two": torch.tensor([2 ** (int(n) - 1).bit_length() for n in guess]),
                "paged": torch.ceil((prompt + done) / block_size).long() * block_size,
            }
            now, end = prompt + done, prompt + output
            reserved = {key: int((torch.minimum(s, end) - now).sum()) for key, s in slots.items()}
            return {key: (reserved[key], int((s - end).clamp(min=0).sum())) for key, s in slots.items()}

    return Memory()


def bits_of_an_int(num_blocks, block_size):
    """Right: a set of blocks is an int; what is free is what no sequence's set has."""

    class Memory:
        def __init__(self):
            self.known = {}  # name -> (length, blocks)

        def free_mask(self):
            mask = (1 << num_blocks) - 1
            for _, blocks in self.known.values():
                for block in blocks:
                    mask &= ~(1 << block)
            return mask

        def highest(self, n):
            mask, found = self.free_mask(), []
            while mask and len(found) < n:
                found.append(mask.bit_length() - 1)
                mask ^= 1 << found[-1]
            if len(found) < n:
                raise ValueError("no block left")
            return found

        def add(self, name):
            self.only_if(name not in self.known)
            self.known[name] = (0, [])

        def append(self, name, tokens):
            self.only_if(name in self.known)
            length, blocks = self.known[name]
            blocks = blocks + self.highest((length + tokens - 1) // block_size + 1 - len(blocks))
            self.known[name] = (length + tokens, blocks)
            return [blocks[i // block_size] * block_size + i % block_size for i in range(length, length + tokens)]

        def fork(self, parent, child):
            self.only_if(parent in self.known)
            self.only_if(child not in self.known)
            length, blocks = self.known[parent]
            keep = blocks[: length // block_size]
            own = self.highest(len(blocks) - len(keep))
            self.known[child] = (length, keep + own)
            return list(zip(blocks[len(keep) :], own, strict=True))

        def free(self, name):
            self.only_if(name in self.known)
            self.known.pop(name)

        def only_if(self, condition):
            if not condition:
                raise ValueError("not possible")

        def table(self, name):
            return list(self.known[name][1])

        def num_free(self):
            return self.free_mask().bit_count()

        def waste(self, requests, max_length):
            def power(n):
                return 1 << (n - 1).bit_length()

            def split(slots, prompt, output, done):
                return max(0, min(slots - prompt - done, output - done)), max(0, slots - prompt - output)

            rows = {"max_length": [], "power_of_two": [], "paged": []}
            for prompt, output, done in requests:
                rows["max_length"].append(split(max_length, prompt, output, done))
                asked = min(max_length, prompt + power(output))
                rows["power_of_two"].append(split(power(asked), prompt, output, done))
                begun = (prompt + done - 1) // block_size + 1
                rows["paged"].append(split(begun * block_size, prompt, output, done))
            return {key: (sum(r for r, _ in row), sum(i for _, i in row)) for key, row in rows.items()}

    return Memory()


def change(name, *changes):
    return spoiled(counted, name, *changes)


def nothing(num_blocks, block_size):
    """Agrees to everything and does none of it."""

    class Memory:
        def add(self, name):
            return None

        def append(self, name, tokens):
            return [0] * tokens

        def fork(self, parent, child):
            return []

        def free(self, name):
            return None

        def table(self, name):
            return []

        def num_free(self):
            return num_blocks

        def waste(self, requests, max_length):
            return {"max_length": (0, 0), "power_of_two": (0, 0), "paged": (0, 0)}

    return Memory()


NEEDED = "needed = (end + block_size - 1) // block_size - len(table)"
FRESH = "fresh = self.take(needed)\n            table.extend(fresh)\n            self.lengths[name] = end"
SLOT = "[table[p // block_size] * block_size + p % block_size for p in range(start, end)]"
ZERO = "            if self.holders[block] == 0:\n                self.unused.append(block)"
ONE_MORE = "self.holders[block] += 1"
SHARED = "shared = table[: length // block_size]"
PART = "part = 1 if length % block_size else 0"
FREED = "            for block in self.tables[name]:\n                self.give_back(block)\n            del self.tables[name]"
ONE_BY_ONE = "for _ in range(needed):\n                table.extend(self.take(1))\n            self.lengths[name] = end"
OWN = "own = self.take(part)\n            "
ENTERED = "self.tables[child], self.lengths[child] = shared + own, length"
ROUNDED = "power(min(prompt + power(output), max_length))"
KNOWN = "self.known(name)\n"
UNKNOWN = "if name not in self.tables:\n                "
CHILD = '            if child in self.tables:\n                raise ValueError(f"{child} is there")\n'
ADDED = '            if name in self.tables:\n                raise ValueError(f"{name} is there")\n'
COPIES = "return [(table[-1], own[0])] if part else []"
LESS = "self.holders[block] -= 1"

WRONG = [
    (nothing, ALL),
    (change("roadmap", (NEEDED, "needed = tokens"), (SLOT, "[block * block_size for block in fresh]")), TABLES),
    (change("opens_a_block_too_early", (NEEDED, "needed = end // block_size + 1 - len(table)")), TABLES),
    (change("opens_a_block_too_late", (NEEDED, "needed = max(end // block_size, 1) - len(table)"),
            (SLOT, SLOT.replace("p // block_size", "min(p // block_size, len(table) - 1)", 1))), TABLES),
    (change("a_block_for_each_append", (NEEDED, "needed = (tokens + block_size - 1) // block_size")), TABLES),
    (change("place_in_the_block_only", (SLOT, "[p % block_size for p in range(start, end)]")), TABLES),
    (change("slots_of_all_tokens", (SLOT, SLOT.replace("range(start, end)", "range(end)"))), TABLES),
    (change("positions_from_one", (SLOT, SLOT.replace("range(start, end)", "range(start + 1, end + 1)"))), TABLES),
    (change("starts_over_with_each_append", (SLOT, SLOT.replace("range(start, end)", "range(tokens)"))), TABLES),
    (change("nothing_comes_back", (ZERO, "            pass")), {REFUSALS, SHARING, LEAK}),
    (change("frees_what_others_hold", (ZERO, "            self.unused.append(block)")), {REFUSALS, SHARING, LEAK}),
    (change("fork_forgets_to_count", (ONE_MORE, "pass")), {REFUSALS, SHARING, LEAK}),
    (change("counts_and_never_goes_down_to_zero", (LESS, "self.holders[block] = max(self.holders[block] - 1, 1)")),
     {REFUSALS, SHARING, LEAK}),
    (change("shares_the_last_block_too", (PART, "part = 0"), (SHARED, "shared = list(table)")), {REFUSALS, SHARING, LEAK}),
    (change("copies_every_block", (PART, "part = len(table)"), (SHARED, "shared = []"),
            (COPIES, "return list(zip(table, own))")), {REFUSALS, SHARING, LEAK}),
    (change("copies_a_full_block", (PART, "part = 1 if table else 0"), (SHARED, "shared = table[: -1]")),
     {REFUSALS, SHARING, LEAK}),
    (change("destination_first", (COPIES, "return [(own[0], table[-1])] if part else []")), {REFUSALS, SHARING, LEAK}),
    (change("the_same_list", (SHARED, "shared = table if not part else table[: length // block_size]"),
            ("shared + own", "shared if not part else shared + own")), {REFUSALS, SHARING, LEAK}),
    (change("takes_what_there_is", (FRESH, ONE_BY_ONE)), {REFUSALS, LEAK}),
    (change("longer_before_it_is_certain", (NEEDED, f"self.lengths[name] = end\n            {NEEDED}")), {REFUSALS, LEAK}),
    (change("returns_none_when_full",
            (NEEDED, f"{NEEDED}\n            if needed > len(self.unused):\n                return None")),
     {REFUSALS, LEAK}),
    (change("keyerror_when_full", ('raise ValueError(f"{n} blocks', 'raise KeyError(f"{n} blocks')), {REFUSALS, LEAK}),
    (change("one_block_is_kept", ("if n > len(self.unused)", "if n > max(len(self.unused) - 1, 0)")), TABLES - {SHARING}),
    (change("a_sequence_twice", (ADDED, "")), {REFUSALS}),
    (change("a_child_over_another", (CHILD, "")), {REFUSALS}),
    (change("double_free", (f"{KNOWN}{FREED}", f"{UNKNOWN}return\n{FREED}")), {REFUSALS}),
    (change("keyerror_for_the_unknown", ('raise ValueError(f"no sequence {name}")', "raise KeyError(name)")), {REFUSALS}),
    (change("makes_what_it_does_not_know", (f"{KNOWN}            start,", f"{UNKNOWN}self.add(name)\n            start,")),
     {REFUSALS}),
    (change("child_counted_before_it_is_certain", ("            own = self.take(part)\n", ""), (ENTERED, f"{OWN}{ENTERED}")),
     {REFUSALS, LEAK}),
    (change("waste_the_other_way_round", ("tuple(pair)", "tuple(pair[::-1])")), {WASTE}),
    (change("paged_for_all_that_comes", ("-(-now // block_size)", "-(-end // block_size)")), {WASTE}),
    (change("paged_a_block_ahead", ("-(-now // block_size)", "(now // block_size + 1)")), {WASTE}),
    (change("power_of_the_next_one", ("2 ** (n - 1).bit_length()", "2 ** n.bit_length()")), {WASTE}),
    (change("power_of_the_sum", (ROUNDED, "power(end)")), {WASTE}),
    (change("not_rounded_by_the_buddy", (ROUNDED, "min(prompt + power(output), max_length)")), {WASTE}),
    (change("beyond_the_longest", (ROUNDED, "power(prompt + power(output))")), {WASTE}),
    (change("knows_only_what_is_done", ("power(output)", "power(max(done, 1))")), {WASTE}),
    (change("all_is_internal", ("sums[key][0] += min(size, end) - now", "pass"), ("max(size - end, 0)", "size - now")), {WASTE}),
    (change("prompt_is_forgotten", ("now, end = prompt + done,", "now, end = done,")), {WASTE}),
]  # fmt: skip
RIGHT = [counted, without_counts, owners_of_each_block, in_tensors, bits_of_an_int]
