"""What the operations of exercise 2.7 come to: right answers from course_lib.kvcache, and a memory that shows who reads what.

A cell of the memory holds what the KV of one token depends on: its salt and all tokens up to it. The engine computes what `start`
did not find, makes the copies that `append` asked for, then writes the new tokens. So a wrong hit, a write into a block
that others read, a block evicted under its reader: each shows as a sequence that reads something else than its own tokens.
Any choice of blocks is right, as long as everybody reads the right thing and as many blocks can be had.
"""

from typing import Any

from ...grading.criteria import Case
from ...grading.outcome import Mistake

OPENED = "A block is opened by the first token that lies in it, not before."
FORKS = "A fork may share the block that publish gives back. Which one does it read then? What if nobody reads the named one?"
TRACE = "Something was refused here before. Did it leave tokens, or blocks, behind?"

Cell = tuple[int, str, int, int]  # digest of salt and tokens so far, who wrote it, position, token


class Reference:
    """The library's pool, tables and prefix cache under the exercise's operations. None: refused."""

    def __init__(self, num_blocks: int, block_size: int) -> None:
        from ...kvcache import BlockPool, BlockTables, PrefixCache

        self.pool = BlockPool(num_blocks, block_size)
        self.tables, self.prefixes = BlockTables(self.pool), PrefixCache(self.pool)
        self.texts: dict[str, tuple[list[int], str]] = {}

    def start(self, seq: str, tokens: list[int], salt: str = "") -> int | None:
        found = self.prefixes.cached_blocks(tokens, salt)
        unread = sum(not self.pool.ref_count(block) for block in found)
        if -(-len(tokens) // self.pool.block_size) - len(found) > self.pool.num_available - unread:
            return None  # before anything is held: what was found is as old as it was
        match = self.prefixes.match(tokens, salt)
        self.tables.add(seq, len(tokens), match.blocks)
        self.texts[seq] = (list(tokens), salt)
        return match.tokens

    def publish(self, seq: str) -> bool:
        tokens, salt = self.texts[seq]
        own = self.tables.blocks(seq)
        for index, block in self.prefixes.insert(tokens, own, salt).equal:
            for other in self.texts:  # forks share the block that is given back
                if own[index] in self.tables.blocks(other):
                    self.tables.replace(other, index, block)
        return True

    def append(self, seq: str, tokens: list[int]) -> list[tuple[int, int]] | None:
        from ...kvcache import OutOfBlocks

        try:
            copies = self.tables.append(seq, len(tokens))
        except OutOfBlocks:
            return None
        self.texts[seq][0].extend(tokens)
        return copies

    def fork(self, parent: str, child: str) -> bool:
        self.tables.fork(parent, child)
        tokens, salt = self.texts[parent]
        self.texts[child] = (list(tokens), salt)
        return True

    def free(self, seq: str) -> bool:
        self.tables.free(seq)
        del self.texts[seq]
        return True


def replay(case: Case, output: Any) -> Mistake | None:
    """The first operation whose answer is wrong, or None. case["fewer hits"]: look-ups may find less than there is."""
    from ...grading.compare import describe

    operations = case["operations"]
    if not isinstance(output, list) or not 0 < len(output) <= len(operations):
        return Mistake(f"expected a record for each operation, got {describe(output)}")
    world = _World(case)
    for place, (operation, record) in enumerate(zip(operations, output, strict=False)):
        ended = Mistake(f"raised {record['raised']}") if "raised" in record else None
        if mistake := ended or world.step(operation, record):
            return Mistake(f"operation {place + 1} of {len(operations)}, {spelled(operation)}: {mistake.reason}", mistake.hint)
    return None if len(output) == len(operations) else Mistake(f"{len(output)} records of {len(operations)} operations came back")


def spelled(operation: list) -> str:
    """start('b', 13 tokens, 'red'), for a message."""
    name, *arguments = operation
    return f"{name}({', '.join(f'{len(a)} tokens' if isinstance(a, list) else repr(a) for a in arguments)})"


class _World:
    """The books as they should be, the learner's tables, and the memory behind them."""

    def __init__(self, case: Case) -> None:
        self.size, self.blocks, self.fewer = case["block_size"], case["num_blocks"], case["fewer hits"]
        self.reference = Reference(self.blocks, self.size)
        self.tables: dict[str, list[int]] = {}
        self.memory: dict[int, Cell] = {}
        self.refused: set[str] = set()  # sequences of which something was refused, as it had to be
        self.forked = False

    def step(self, operation: list, record: dict) -> Mistake | None:
        name, seq, *rest = operation
        before, length = dict(self.tables), len(self.reference.texts[seq][0]) if seq in self.reference.texts else 0
        room = f"{self.reference.pool.num_free} blocks free and {self.reference.pool.num_cached} cached"
        expected = getattr(self.reference, name)(seq, *rest)
        self.tables.update(record["tables"])
        if mistake := self._refusal(record["refused"], expected is None, operation, room):
            return mistake
        if name == "free":
            del self.tables[seq]
        if mistake := self._well_formed():
            return mistake
        if expected is None:
            self.refused.add(seq)
            return self._everybody_reads_right(name, seq)
        if name == "start":
            if mistake := self._hit(record["result"], expected, len(rest[0])):
                return mistake
            self._write(seq, record["result"])
        self.forked = self.forked or name == "fork"
        if name == "append":
            if mistake := self._copies(record["result"], seq, before, length):
                return mistake
            for source, destination in record["result"]:
                self._copy(source, destination)
            self._write(seq, length)
        return self._everybody_reads_right(name, seq)

    def _refusal(self, refused: bool, must: bool, operation: list, room: str) -> Mistake | None:
        name, seq, *_ = operation
        if refused == must:
            return None
        if must:
            hint = "A cached block that this very request reads is not there to be evicted." if name == "start" else ""
            return Mistake(f"got its blocks, with {room}: too few", hint or "A copy needs a block as well.")
        if name == "append":
            hint = TRACE if seq in self.refused else "When does another token need a block, and when a copy?"
            return Mistake(f"raised MemoryError, with {room}: enough", hint)
        hint = ("Blocks that nobody reads can be evicted. Does every block come back when its last reader has gone, and does "
                "publish give back what two computed twice?")  # fmt: skip
        return Mistake(f"raised MemoryError, with {room}: enough", hint)

    def _well_formed(self) -> Mistake | None:
        from ...grading.compare import describe

        if missing := self.reference.texts.keys() - self.tables.keys():
            return Mistake(f"no table came back for {sorted(missing)}")
        for seq, table in self.tables.items():
            needed = -(-len(self.reference.texts[seq][0]) // self.size)
            if not isinstance(table, list) or not all(type(block) is int for block in table):
                return Mistake(f"table({seq!r}) is {describe(table)}, not a list of block numbers")
            if len(table) != needed:
                tokens = len(self.reference.texts[seq][0])
                return Mistake(f"table({seq!r}) has {len(table)} blocks; {tokens} tokens in blocks of {self.size} need {needed}",
                               TRACE if seq in self.refused else OPENED)
            if len(set(table)) < needed or not all(0 <= block < self.blocks for block in table):
                return Mistake(f"table({seq!r}) is {table[:40]}: each block once, and from 0 to {self.blocks - 1}",
                               "Was a block handed out twice, or taken for another because of its name?")  # fmt: skip
        return None

    def _hit(self, got: Any, expected: int, tokens: int) -> Mistake | None:
        from ...grading.compare import describe

        if type(got) is not int or got < 0:
            return Mistake(f"expected the number of tokens that were found, got {describe(got)}")
        evicted = self.reference.prefixes.stats.evicted_blocks
        most = tokens - 1 if evicted else expected  # who names fewer blocks evicts others: the memory shows what lies there
        if got == expected or (self.fewer and got <= most and not got % self.size):
            return None
        said = f"found {got} tokens of {tokens}, expected {expected}"
        if got % self.size and got * self.size == expected:
            return Mistake(said, "Hits are counted in tokens, not in blocks.")
        if got >= tokens:
            return Mistake(said, "The next token's logits need a query. Who computes it, when everything is found?")
        if self.forked and not evicted:
            return Mistake(said, FORKS)
        if got > expected and self.fewer:
            return Mistake(said, "Two contents have one name here. What can be compared beside it?")
        if evicted and self.refused:
            return Mistake(said, "Which blocks had been without a reader for longest? What is refused leaves that as it was.")
        if got < expected and self.refused:
            return Mistake(said, "What is refused leaves everything as it was: is all still cached that was?")
        if got < expected and evicted:
            return Mistake(said, "Which of the blocks had been without a reader for longest? And did as few go as had to?")
        if got > expected:
            return Mistake(said, "Is it published, not evicted, and full? Does all before it agree, the salt included?")
        return Mistake(said, "Which blocks are published and not evicted? Only whole blocks, and only from the beginning on.")

    def _copies(self, got: Any, seq: str, before: dict[str, list[int]], length: int) -> Mistake | None:
        from ...grading.compare import describe

        def whole_pair(pair: Any) -> bool:
            return isinstance(pair, (list, tuple)) and len(pair) == 2 and all(type(block) is int for block in pair)

        if not isinstance(got, list) or not all(map(whole_pair, got)):
            return Mistake(f"expected a list of (source, destination), got {describe(got)}")
        last = before[seq][-1]
        shared = length % self.size and any(last in table for other, table in before.items() if other != seq)
        if not shared and not got:
            return None
        if not shared:
            return Mistake(f"asked for the copies {got[:5]}; nobody else reads what is written",
                           "The last one who reads a block writes in place, and a full block is not written.")  # fmt: skip
        right = (last, self.tables[seq][len(before[seq]) - 1])
        if [tuple(pair) for pair in got] == [right] and right[0] != right[1]:
            return None
        if right[0] == right[1]:
            return Mistake(f"writes into block {last}, which another sequence reads",
                           "Take a block of its own for it, and copy before anything is written.")  # fmt: skip
        hint = "A pair says where to copy from, and then where to." if got else "It has tokens in the old one. Who moves them?"
        return Mistake(f"its last block was {right[0]} and is {right[1]} now; copies asked for: {got[:5]}", hint)

    def _copy(self, source: int, destination: int) -> None:
        for slot in range(self.size):
            self.memory.pop(destination * self.size + slot, None)
            if (cell := self.memory.get(source * self.size + slot)) is not None:
                self.memory[destination * self.size + slot] = cell

    def _write(self, seq: str, start: int) -> None:
        table, tokens = self.tables[seq], self.reference.texts[seq][0]
        for position, digest in enumerate(self._digests(seq)):
            if position >= start:
                slot = table[position // self.size] * self.size + position % self.size
                self.memory[slot] = (digest, seq, position, tokens[position])

    def _digests(self, seq: str) -> list[int]:
        tokens, salt = self.reference.texts[seq]
        digest, digests = hash(salt), []
        for token in tokens:
            digest = hash((digest, token))
            digests.append(digest)
        return digests

    def _everybody_reads_right(self, name: str, acting: str) -> Mistake | None:
        for seq, table in self.tables.items():
            for position, digest in enumerate(self._digests(seq)):
                block, slot = table[position // self.size], position % self.size
                cell = self.memory.get(block * self.size + slot)
                if cell is None or cell[0] != digest:
                    token = self.reference.texts[seq][0][position]
                    lies, hint = _what_lies_there(cell, token, found=name == "start" and acting == seq)
                    return Mistake(f"{seq!r} reads its token {position} from block {block}, slot {slot}, {lies}", hint)
        return None


def _what_lies_there(cell: Cell | None, token: int, found: bool) -> tuple[str, str]:
    """In words, and the hint that goes with it. found: the sequence has just begun."""
    if cell is None:
        return "where nothing was ever written", "Copy before writing, and find only what was published."
    lies = f"where {cell[1]!r} wrote its token {cell[2]}"
    if cell[3] == token:
        return (f"{lies}: the same token, behind another beginning or under another salt",
                "Keys and values depend on all tokens before them, and salts keep tenants apart. What is compared?")  # fmt: skip
    if found:
        return f"{lies}: another one", "A name alone proves nothing: two contents can have one. And what was evicted is gone."
    return f"{lies}: another one", "A block was handed out, or written, while somebody else reads it or may find it."
