"""Answers to exercise 2.7. Each function stands alone: its source is also judged in a process of its own."""

from ..spoiling import from_notebook, spoiled

HITS, WHOLE, TENANTS, COLLISIONS, COPIES = "prefix hits", "a token left", "tenants", "collisions", "copy-on-write"
EVICTION, ROOM, COST = "eviction", "room", "look-up cost"
ALL = {HITS, WHOLE, TENANTS, COLLISIONS, COPIES, EVICTION, ROOM, COST}


with_a_chain = from_notebook("2.7", "with_a_chain", __name__)  # right: names in a chain, one block a name


def as_a_tree(num_blocks, block_size, hash_function):
    """Right: a tree of blocks by their tokens. No hash function, so no collision; the books are in the nodes."""

    class Node:
        def __init__(self, block, above=None, tokens=None):
            self.block, self.above, self.tokens = block, above, tokens
            self.below, self.readers, self.since = {}, 0, 0

    class Cache:
        def __init__(self):
            self.roots, self.held, self.clock = {}, {}, 0
            self.pool = set(range(num_blocks))
            self.named = []

        def table(self, seq):
            return [node.block for node in self.held[seq]["nodes"]]

        def start(self, seq, tokens, salt=""):
            path, node = [], self.roots.setdefault(salt, Node(None))
            for at in range(0, len(tokens), block_size):
                if at + block_size >= len(tokens):
                    break
                node = node.below.get(tuple(tokens[at : at + block_size]))
                if node is None:
                    break
                path.append(node)
            fresh = self.obtain((len(tokens) + block_size - 1) // block_size - len(path), keep=set(path))
            for node in path + fresh:
                node.readers += 1
            self.held[seq] = {"tokens": tokens, "salt": salt, "nodes": path + fresh}
            return block_size * len(path)

        def publish(self, seq):
            one = self.held[seq]
            above = self.roots.setdefault(one["salt"], Node(None))
            for i in range(len(one["tokens"]) // block_size):
                part = tuple(one["tokens"][i * block_size : (i + 1) * block_size])
                own, there = one["nodes"][i], above.below.get(part)
                if there is None:
                    there = above.below[part] = own
                    own.above, own.tokens = above, part
                    self.named.append(own)
                elif there is not own:
                    for other in self.held.values():
                        if own in other["nodes"]:
                            there.readers += 1
                            other["nodes"][i] = there
                            self.leave(own)
                above = there

        def append(self, seq, tokens):
            one = self.held[seq]
            nodes, length = one["nodes"], len(one["tokens"])
            copy = length % block_size != 0 and nodes[-1].readers > 1
            end = (length + len(tokens) + block_size - 1) // block_size
            fresh = self.obtain(end - len(nodes) + int(copy), keep=set())
            for node in fresh:
                node.readers = 1
            pairs = []
            if copy:
                pairs = [(nodes[-1].block, fresh[0].block)]
                self.leave(nodes[-1])
                nodes.pop()
            nodes.extend(fresh)
            one["tokens"] = one["tokens"] + list(tokens)
            return pairs

        def fork(self, parent, child):
            one = self.held[parent]
            for node in one["nodes"]:
                node.readers += 1
            self.held[child] = {"tokens": one["tokens"], "salt": one["salt"], "nodes": one["nodes"][:]}

        def free(self, seq):
            for node in self.held.pop(seq)["nodes"][::-1]:
                self.leave(node)

        def leave(self, node):
            node.readers -= 1
            self.clock += 1
            node.since = self.clock
            if node.readers == 0 and node.above is None:
                self.pool.add(node.block)

        def obtain(self, count, keep):
            idle = [node for node in self.named if node.readers == 0 and node not in keep]
            if count > len(self.pool) + len(idle):
                raise MemoryError("no room")
            while len(self.pool) < count:
                leaves = [node for node in idle if not node.below]
                oldest = min(leaves, key=lambda node: node.since)
                idle.remove(oldest)
                self.named.remove(oldest)
                del oldest.above.below[oldest.tokens]
                self.pool.add(oldest.block)
            return [Node(self.pool.pop()) for _ in range(count)]

    return Cache()


def counting_from_the_tables(num_blocks, block_size, hash_function):
    """Right: no counters at all. Who reads a block is looked up in the tables; several blocks may have one name."""
    import struct
    from collections import defaultdict

    class Cache:
        def __init__(self):
            self.tables, self.texts = {}, {}
            self.entries = defaultdict(list)  # name -> [(block, block before or None, salt, tokens)]
            self.name_of, self.left, self.time = {}, {}, 0

        def table(self, seq):
            return tuple(self.tables[seq])

        def read(self):
            return {block for table in self.tables.values() for block in table}

        def lookup(self, tokens, salt, name, before):
            name = hash_function(name + struct.pack(f"<{block_size}q", *tokens))
            for block, above, whose, content in self.entries.get(name, ()):
                if above == before and whose == salt and content == tokens:
                    return name, block
            return name, None

        def root(self, salt):
            return hash_function(b"root " + salt.encode("utf-8"))

        def start(self, seq, tokens, salt=""):
            found, name, before = [], self.root(salt), None
            while (len(found) + 1) * block_size < len(tokens):
                name, before = self.lookup(tuple(tokens[len(found) * block_size :][:block_size]), salt, name, before)
                if before is None:
                    break
                found.append(before)
            new = self.pick(-(-len(tokens) // block_size) - len(found), found)
            self.tables[seq], self.texts[seq] = found + new, (tokens, salt)
            return len(found) * block_size

        def pick(self, wanted, besides=()):
            read = self.read() | set(besides)
            free = [block for block in range(num_blocks) if block not in read and block not in self.name_of]
            cached = sorted((b for b in self.name_of if b not in read), key=lambda b: self.left[b])
            if wanted > len(free) + len(cached):
                raise MemoryError
            for block in cached[: max(0, wanted - len(free))]:
                name = self.name_of.pop(block)
                self.entries[name] = [entry for entry in self.entries[name] if entry[0] != block]
                free.append(block)
            return free[:wanted]

        def publish(self, seq):
            tokens, salt = self.texts[seq]
            table, name, before = self.tables[seq], self.root(salt), None
            for i in range(len(tokens) // block_size):
                part = tuple(tokens[i * block_size : (i + 1) * block_size])
                name, known = self.lookup(part, salt, name, before)
                if known is None:
                    self.entries[name].append((table[i], before, salt, part))
                    self.name_of[table[i]] = name
                else:
                    own = table[i]
                    for other in self.tables.values():
                        other[:] = [known if block == own else block for block in other]
                before = table[i]

        def append(self, seq, tokens):
            old, salt = self.texts[seq]
            table = self.tables[seq]
            others = {block for name, blocks in self.tables.items() if name != seq for block in blocks}
            split = bool(len(old) % block_size) and table[-1] in others
            new = self.pick(-(-(len(old) + len(tokens)) // block_size) - len(table) + split)
            copies = [[table.pop(), new[0]]] if split else []
            table.extend(new)
            self.texts[seq] = (old + tokens, salt)
            return copies

        def fork(self, parent, child):
            self.tables[child] = list(self.tables[parent])
            self.texts[child] = self.texts[parent]

        def free(self, seq):
            table = self.tables.pop(seq)
            del self.texts[seq]
            for block in reversed(table):
                self.time += 1
                if block not in self.read():
                    self.left[block] = self.time

    return Cache()


def with_whole_classes(num_blocks, block_size, hash_function):
    """Right: a pool and a cache apart, hexadecimal names as text, the room counted before anything is touched."""
    from collections import OrderedDict, deque

    class Pool:
        def __init__(self):
            self.spare, self.idle, self.count = deque(range(num_blocks)), OrderedDict(), {}

        def room(self, without=()):
            return len(self.spare) + len(self.idle) - sum(block in self.idle for block in without)

    class Cache:
        def __init__(self):
            self.pool, self.seqs = Pool(), {}
            self.names, self.described = {}, {}

        def table(self, seq):
            return self.seqs[seq]["table"]

        def chain(self, tokens, salt):
            names = [hash_function(("tenant:" + salt).encode()).hex()]
            for i in range(len(tokens) // block_size):
                text = ",".join(str(int(token)) for token in tokens[i * block_size : (i + 1) * block_size])
                names.append(hash_function(f"{names[-1]}|{text}".encode()).hex())
            return names[1:]

        def same(self, block, tokens, salt, i, before):
            return self.described[block] == (salt, i, before, tokens[i * block_size : (i + 1) * block_size])

        def start(self, seq, tokens, salt=""):
            hits = []
            for i, name in enumerate(self.chain(tokens[: len(tokens) - 1], salt)):
                block = self.names.get(name, -1)
                if block < 0 or not self.same(block, tokens, salt, i, hits[-1] if hits else None):
                    break
                hits.append(block)
            need = len(range(0, len(tokens), block_size)) - len(hits)
            if need > self.pool.room(without=hits):
                raise MemoryError(f"{need} more than there are")
            for block in hits:
                self.hold(block)
            self.seqs[seq] = {"table": hits + [self.fresh() for _ in range(need)], "tokens": tokens.copy(), "salt": salt}
            return block_size * len(hits)

        def hold(self, block):
            self.pool.idle.pop(block, None)
            self.pool.count[block] = self.pool.count.get(block, 0) + 1

        def drop(self, block):
            self.pool.count[block] -= 1
            if not self.pool.count[block]:
                if block in self.described:
                    self.pool.idle[block] = True
                    self.pool.idle.move_to_end(block)
                else:
                    self.pool.spare.append(block)

        def fresh(self):
            if not self.pool.spare:
                block, _ = self.pool.idle.popitem(last=False)
                del self.described[block]
                self.names = {name: held for name, held in self.names.items() if held != block}
                self.pool.spare.append(block)
            block = self.pool.spare.popleft()
            self.hold(block)
            return block

        def publish(self, seq):
            one = self.seqs[seq]
            before = None
            for i, name in enumerate(self.chain(one["tokens"], one["salt"])):
                own = one["table"][i]
                there = self.names.setdefault(name, own)
                if there == own:
                    part = one["tokens"][i * block_size : (i + 1) * block_size]
                    self.described.setdefault(own, (one["salt"], i, before, part))
                elif self.same(there, one["tokens"], one["salt"], i, before):
                    for other in self.seqs.values():
                        if own in other["table"]:
                            self.hold(there)
                            other["table"][i] = there
                            self.drop(own)
                else:
                    return
                before = one["table"][i]

        def append(self, seq, tokens):
            one = self.seqs[seq]
            total = len(one["tokens"]) + len(tokens)
            more = len(range(0, total, block_size)) - len(one["table"])
            last = one["table"][-1]
            copies = []
            if len(one["tokens"]) % block_size and self.pool.count[last] >= 2:
                if more + 1 > self.pool.room():
                    raise MemoryError
                one["table"][-1] = self.fresh()
                self.drop(last)
                copies = [(last, one["table"][-1])]
            elif more > self.pool.room():
                raise MemoryError
            one["table"] += [self.fresh() for _ in range(more)]
            one["tokens"].extend(tokens)
            return copies

        def fork(self, parent, child):
            one = self.seqs[parent]
            for block in one["table"]:
                self.hold(block)
            self.seqs[child] = {"table": [*one["table"]], "tokens": [*one["tokens"]], "salt": one["salt"]}

        def free(self, seq):
            table = self.seqs.pop(seq)["table"]
            while table:
                self.drop(table.pop())

    return Cache()


def from_functions(num_blocks, block_size, hash_function):
    """Right: closures over plain dicts, an object made at the end; a name is a whole number."""
    from types import SimpleNamespace

    reads = dict.fromkeys(range(num_blocks), 0)
    free_list, unread, tables = list(reads), [], {}
    by_name, about = {}, {}

    def names(tokens, salt):
        link = int.from_bytes(hash_function(b"s" + salt.encode()), "big")
        for i in range(len(tokens) // block_size):
            part = list(tokens[i * block_size : (i + 1) * block_size])
            data = link.to_bytes(32, "big") + b";".join(b"%d" % token for token in part)
            link = int.from_bytes(hash_function(data), "big")
            yield i, link, part

    def release(block):
        reads[block] -= 1
        if reads[block] == 0:
            (unread if block in about else free_list).append(block)

    def retain(block):
        if reads[block] == 0:
            unread.remove(block)
        reads[block] += 1

    def allocate(n):
        if len(free_list) + len(unread) < n:
            raise MemoryError(n)
        missing = n - len(free_list)
        for _ in range(missing):
            block = unread.pop(0)
            link = about.pop(block)[0]
            del by_name[link]
            free_list.append(block)
        result = []
        for _ in range(n):
            block = free_list.pop(0)
            reads[block] = 1
            result.append(block)
        return result

    def start(seq, tokens, salt=""):
        hits, above = [], ("salt", salt)
        for _, link, part in names(tokens, salt):
            if len(hits) * block_size + block_size == len(tokens):
                break
            block = by_name.get(link)
            if block is None or about[block] != (link, above, part):
                break
            hits.append(block)
            above = ("block", block)
        order = list(unread)
        for block in hits:
            retain(block)
        try:
            rest = allocate((len(tokens) - 1) // block_size + 1 - len(hits))
        except MemoryError:
            for block in hits:
                reads[block] -= 1
            unread[:] = order
            raise
        tables[seq] = SimpleNamespace(blocks=hits + rest, tokens=list(tokens), salt=salt)
        return len(hits) * block_size

    def publish(seq):
        one = tables[seq]
        above = ("salt", one.salt)
        for i, link, part in names(one.tokens, one.salt):
            mine = one.blocks[i]
            if link not in by_name:
                by_name[link], about[mine] = mine, (link, above, part)
            theirs = by_name[link]
            if about[theirs] != (link, above, part):
                break
            if theirs != mine:
                for other in [other for other in tables.values() if mine in other.blocks]:
                    retain(theirs)
                    other.blocks[i] = theirs
                    release(mine)
            above = ("block", theirs)

    def append(seq, tokens):
        one = tables[seq]
        copies, partly = [], len(one.tokens) % block_size
        room = (block_size - partly) % block_size
        count = -(-max(len(tokens) - room, 0) // block_size)
        if partly and reads[one.blocks[-1]] > 1:
            new = allocate(count + 1)
            old = one.blocks.pop()
            release(old)
            copies = [(old, new[0])]
        else:
            new = allocate(count)
        one.blocks.extend(new)
        one.tokens.extend(tokens)
        return copies

    def fork(parent, child):
        one = tables[parent]
        for block in one.blocks:
            reads[block] += 1
        tables[child] = SimpleNamespace(blocks=list(one.blocks), tokens=list(one.tokens), salt=one.salt)

    def free(seq):
        for block in tables.pop(seq).blocks[::-1]:
            release(block)

    def table(seq):
        return list(tables[seq].blocks)

    return SimpleNamespace(start=start, publish=publish, append=append, fork=fork, free=free, table=table)


def as_keys_of_bytes(num_blocks, block_size, hash_function):
    """Right: a tree by the bytes of each block that outlives what is evicted from it, no queue: blocks are sorted when needed."""
    import array
    import itertools

    class Node:
        def __init__(self, parent, key):
            self.parent, self.key, self.kids = parent, key, {}
            self.block = None  # None: nothing published, or evicted

    class Block:
        def __init__(self, number):
            self.number, self.users, self.node, self.left_at = number, 0, None, -1

    pool = [Block(i) for i in range(num_blocks)]
    roots, seqs, clock = {}, {}, itertools.count()

    def claim(n):
        # unnamed ones first, then by the time at which the last reader left
        ready = sorted((b for b in pool if b.users == 0), key=lambda b: (b.node is not None, b.left_at))
        if n > len(ready):
            raise MemoryError(n)
        for b in ready[:n]:
            if b.node is not None:
                drop(b)
            b.users = 1
        return ready[:n]

    def drop(b):
        node, b.node = b.node, None
        node.block = None
        while node.parent is not None and node.block is None and not node.kids:
            del node.parent.kids[node.key]
            node = node.parent

    def leave(b):
        b.users -= 1
        b.left_at = next(clock)

    def keys(tokens):
        starts = range(0, len(tokens) - block_size + 1, block_size)
        return [array.array("q", tokens[i : i + block_size]).tobytes() for i in starts]

    class Tree:
        def table(self, seq):
            return [b.number for b in seqs[seq]["blocks"]]

        def start(self, seq, tokens, salt=""):
            node, hit = roots.get(salt), []
            for key in keys(tokens[:-1]):
                node = node and node.kids.get(key)
                if node is None or node.block is None:
                    break
                hit.append(node.block)
            for b in hit:
                b.users += 1
            try:
                new = claim(-(-len(tokens) // block_size) - len(hit))
            except MemoryError:
                for b in hit:
                    b.users -= 1  # left_at stays as it was
                raise
            seqs[seq] = {"tokens": list(tokens), "salt": salt, "blocks": hit + new}
            return len(hit) * block_size

        def publish(self, seq):
            s = seqs[seq]
            node = roots.setdefault(s["salt"], Node(None, None))
            for i, key in enumerate(keys(s["tokens"])):
                node = node.kids.setdefault(key, Node(node, key))
                mine = s["blocks"][i]
                if node.block is None:
                    node.block, mine.node = mine, node
                elif node.block is not mine:
                    for other in seqs.values():
                        if mine in other["blocks"]:
                            node.block.users += 1
                            other["blocks"][i] = node.block
                            leave(mine)

        def append(self, seq, tokens):
            s = seqs[seq]
            total = len(s["tokens"]) + len(tokens)
            last = s["blocks"][-1]
            shared = len(s["tokens"]) % block_size > 0 and last.users > 1
            new = claim(-(-total // block_size) - len(s["blocks"]) + shared)
            s["tokens"].extend(tokens)
            if not shared:
                s["blocks"] += new
                return []
            s["blocks"][-1:] = new
            leave(last)
            return [(last.number, new[0].number)]

        def fork(self, parent, child):
            s = seqs[parent]
            for b in s["blocks"]:
                b.users += 1
            seqs[child] = {"tokens": s["tokens"][:], "salt": s["salt"], "blocks": s["blocks"][:]}

        def free(self, seq):
            for b in seqs.pop(seq)["blocks"][::-1]:
                leave(b)

    return Tree()


def change(name, *changes):
    return spoiled(with_a_chain, name, *changes)


FOUND = "if block is None or self.content[block][1:] != (before, part):"
KNOWN = "elif self.content[known][1:] != (before, part):"
ROOT = 'name = hash_function(b"salt" + salt.encode())'
LINK = 'name = hash_function(name + b"".join(token.to_bytes(8, "little") for token in part))'
LOOK_UP = "found, before = [], salt"
PUBLISHED = "tokens, salt, blocks = self.sequences[seq]\n            before = salt"
SHARED = "shared = len(held) % block_size > 0 and self.readers[blocks[-1]] > 1"
OLDEST = "block = next(iter(self.unread))"
TO_BLOCKS = "rest = -(-len(tokens) // block_size) - len(found)"
COUNTED = 'if rest > len(self.free_blocks) + len(self.unread) - unread:\n                raise MemoryError('
COUNTED += 'f"{rest} blocks wanted beside the {len(found)} that were found")\n            '
READS = "for block in found:\n                self._read(block)\n            "
TAKES = "self.sequences[seq] = (list(tokens), salt, found + self._take(rest))"
FORKS_GO_ALONG = "for _, _, others in self.sequences.values():  # its forks share the block that it gives back"
COLLIDES = "break  # a collision: this block and those behind it stay without a name"


def leaves_again(order):
    """A start that reads what it found before it knows whether there is room."""
    lines = "try:", "    fresh = self._take(rest)", "except MemoryError:", f"    {order}", "    raise"
    return (COUNTED, ""), (TAKES, "\n            ".join([*lines, TAKES.replace("self._take(rest)", "fresh")]))


BACKWARDS = "for block in reversed(self.sequences.pop(seq)[2]):"


REFUSES = "if count > len(self.free_blocks) + len(self.unread):"


def forgets_everything(num_blocks, block_size, hash_function):
    """A pool of blocks, and nothing more: no block is ever found, and a fork shares without asking."""

    class Cache:
        def __init__(self):
            self.free_blocks, self.tables, self.lengths = list(range(num_blocks)), {}, {}

        def table(self, seq):
            return list(self.tables[seq])

        def start(self, seq, tokens, salt=""):
            self.tables[seq], self.lengths[seq] = [], 0
            self.append(seq, tokens)
            return 0

        def publish(self, seq):
            pass

        def append(self, seq, tokens):
            more = -(-(self.lengths[seq] + len(tokens)) // block_size) - len(self.tables[seq])
            if more > len(self.free_blocks):
                raise MemoryError
            self.tables[seq] += [self.free_blocks.pop() for _ in range(more)]
            self.lengths[seq] += len(tokens)
            return []

        def fork(self, parent, child):
            self.tables[child], self.lengths[child] = list(self.tables[parent]), self.lengths[parent]

        def free(self, seq):
            self.free_blocks += self.tables.pop(seq)

    return Cache()


def no_cache(num_blocks, block_size, hash_function):
    return None


WRONG = [
    (no_cache, ALL),
    (forgets_everything, ALL),
    (change("nothing_left_to_compute", ("self._find(tokens[:-1], salt)", "self._find(tokens, salt)")), {WHOLE}),
    (change("counts_blocks", ("return len(found) * block_size", "return len(found)")), ALL - {COPIES}),
    (change("trusts_the_name", (FOUND, "if block is None:"), (KNOWN, "elif False:")), {COLLISIONS}),
    (
        change(
            "compares_a_block_alone",
            (FOUND, "if block is None or self.content[block][2] != part:"),
            (KNOWN, "elif self.content[known][2] != part:"),
        ),
        {COLLISIONS},
    ),
    (
        change(
            "salt_is_not_compared",
            (LOOK_UP, "found, before = [], None"),
            (PUBLISHED, PUBLISHED.replace("before = salt", "before = None")),
        ),
        {COLLISIONS},
    ),
    (change("salt_is_not_hashed", (ROOT, 'name = b""')), {TENANTS}),
    (
        change(
            "knows_no_tenants",
            (ROOT, 'name = b""'),
            (LOOK_UP, "found, before = [], None"),
            (PUBLISHED, PUBLISHED.replace("before = salt", "before = None")),
        ),
        {TENANTS, COLLISIONS},
    ),
    (change("names_without_a_chain", (LINK, LINK.replace("name + ", ""))), {HITS, TENANTS}),
    (
        change(
            "starts_the_chain_with_the_place",
            (LINK, LINK.replace("name + ", "str(start).encode() + ")),
            (FOUND, "if block is None:"),
            (KNOWN, "elif False:"),
        ),
        {HITS, TENANTS, COLLISIONS},
    ),
    (
        change(
            "publishes_at_once",
            ("return len(found) * block_size", "self.publish(seq)\n            return len(found) * block_size"),
        ),
        {HITS, EVICTION, ROOM},
    ),
    (change("writes_into_shared_blocks", (SHARED, "shared = False")), {COPIES, ROOM}),
    (
        change("copies_backwards", ("copies.append((blocks[-1], fresh[0]))", "copies.append((fresh[0], blocks[-1]))")),
        {COPIES, ROOM},
    ),
    (change("always_copies", (SHARED, "shared = len(held) % block_size > 0")), {HITS, COPIES, EVICTION, ROOM}),
    (change("copies_full_blocks", (SHARED, "shared = self.readers[blocks[-1]] > 1")), {COPIES, ROOM}),
    (change("fork_counts_nobody", ("for block in blocks:\n                self._read(block)", "pass")), {COPIES, ROOM}),
    (
        change("fork_shares_the_list", ("(list(tokens), salt, list(blocks))", "(list(tokens), salt, blocks)")),
        {COLLISIONS, COPIES, EVICTION, ROOM},
    ),
    (change("first_named_first_out", (OLDEST, "block = next(b for b in self.content if b in self.unread)")), {EVICTION}),
    (change("last_read_first_out", (OLDEST, "block = next(reversed(self.unread))")), {EVICTION}),
    (change("beginning_before_the_end", (BACKWARDS, "for block in self.sequences.pop(seq)[2]:")), {EVICTION}),
    (
        change(
            "evicts_everything",
            ("while len(self.free_blocks) < count:", "while count > len(self.free_blocks) or (self.unread and fresh_out):"),
            (REFUSES, f"fresh_out = count > len(self.free_blocks)\n            {REFUSES}"),
        ),
        {EVICTION},
    ),
    (
        change(
            "evicts_what_is_read",
            (OLDEST, "block = next(iter(self.content))"),
            ("del self.unread[block]", "self.unread.pop(block, None)"),
        ),
        {EVICTION},
    ),
    (change("never_evicts", (REFUSES, "if count > len(self.free_blocks):")), {COLLISIONS, EVICTION, ROOM}),
    (change("forgets_to_forget", ("del self.by_name[self.content.pop(block)[0]]", "pass")), {COLLISIONS, EVICTION}),
    (
        change(
            "takes_what_there_is",
            (REFUSES, "if False:"),
            (
                OLDEST,
                "if not self.unread:\n                    raise MemoryError\n                block = next(iter(self.unread))",
            ),
        ),
        {ROOM},
    ),
    (change("refused_and_still_reading", *leaves_again("pass")), {EVICTION, ROOM}),
    (
        change("refused_makes_young", *leaves_again("for block in reversed(found):\n                    self._leave(block)")),
        {EVICTION},
    ),
    (
        change("refused_turns_around", *leaves_again("for block in found:\n                    self._leave(block)")),
        {EVICTION},
    ),
    (
        change(
            "reads_after_it_took",
            (COUNTED, ""),
            (f"{READS}{TAKES}", f"fresh = self._take(rest)\n            {READS}{TAKES.replace('self._take(rest)', 'fresh')}"),
        ),
        {EVICTION, ROOM},
    ),
    (change("swaps_its_own_alone", (FORKS_GO_ALONG, "for others in [blocks]:")), {COLLISIONS, EVICTION}),
    (
        change(
            "names_what_collides",
            (COLLIDES, "self.by_name[name], self.content[blocks[index]] = blocks[index], (name, before, part)"),
        ),
        {COLLISIONS},
    ),
    (
        change(
            "keeps_what_was_computed_twice",
            ("elif known != blocks[index]:", "elif False:"),
            ("before = blocks[index]\n            ### END", "before = self.by_name[name]\n            ### END"),
        ),
        {COLLISIONS, EVICTION, ROOM},
    ),
    (
        change(
            "loses_what_was_computed_twice",
            ("self._leave(own)\n                            others[index] = known", "others[index] = known"),
        ),
        {COLLISIONS, EVICTION, ROOM},
    ),
    (
        change("a_block_ahead", (TO_BLOCKS, TO_BLOCKS.replace("-(-len(tokens) // block_size)", "len(tokens) // block_size + 1"))),
        {HITS, WHOLE, COLLISIONS, COPIES, EVICTION, ROOM},
    ),
    (
        change(
            "hashes_the_whole_prefix", (LINK, "name = hash_function(salt.encode() + repr(tokens[: start + block_size]).encode())")
        ),
        {COST},
    ),
    (change("a_dictionary_of_prefixes", (ROOT, "pass"), (LINK, "name = (salt, *tokens[: start + block_size])")), {COST}),
    (
        change(
            "looks_at_every_block",
            (
                "block = self.by_name.get(name)",
                "block = next((b for b, what in self.content.items() if what[2] == part and what[1] == before), None)",
            ),
        ),
        {COST},
    ),
]
RIGHT = [with_a_chain, as_a_tree, counting_from_the_tables, with_whole_classes, from_functions, as_keys_of_bytes]
