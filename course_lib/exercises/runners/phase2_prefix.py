"""Exercise 2.7: the learner's cache goes through a list of operations, and what it answered is written down.

After each operation the block tables of all live sequences are read, and those that changed are noted. Nothing is judged here:
what lies in the blocks is worked out outside, from the tables and the copies.
"""

import hashlib
from collections.abc import Callable
from typing import Any

__course_runner__ = True  # messages name the learner's line, not one of this file

MOST_BLOCKS = 10_000  # of one table


def play(entry: Any, case: dict) -> list[dict]:
    """One record an operation: {"result", "refused", "tables": {sequence: blocks}}.

    Whoever refuses what they need not will stumble over the sequence later: then the records end with {"raised": what}, and the
    refusal before it is what the learner hears of.
    """
    cache = _made(entry(case["num_blocks"], case["block_size"], _hash_function(case["hash"])))
    known: dict[str, Any] = {}
    steps: list[dict] = []
    for operation, seq, *rest in case["operations"]:
        result, refused = None, False
        try:
            result = getattr(cache, operation)(seq, *_own(rest))
        except MemoryError:
            refused = True
        except (LookupError, ValueError) as error:
            if not any(step["refused"] for step in steps):
                raise
            return [*steps, {"raised": f"{type(error).__name__}: {str(error)[:200]}"}]
        if operation == "free":
            known.pop(seq, None)
        elif not refused and operation == "start":
            known[seq] = None
        elif not refused and operation == "fork":
            known[rest[0]] = None
        changed = {}
        for name, before in known.items():
            table = _plain_table(cache.table(name))
            if table != before:
                changed[name] = known[name] = table
        steps.append({"result": result, "refused": refused, "tables": changed})
    return steps


def count(entry: Any, case: dict) -> dict:
    """What the last operation cost: calls of the hash function, bytes given to it, tokens hashed by Python or compared."""
    counted = {"hash_calls": 0, "hashed_bytes": 0, "tokens_looked_at": 0}
    digest = _hash_function(case["hash"])

    def counting(data: bytes) -> bytes:
        name = digest(data)
        counted["hash_calls"] += 1
        counted["hashed_bytes"] += len(data)
        return name

    class Token(int):
        """A token that says when somebody hashes or compares it: a dict of tuples does both."""

        __slots__ = ()

        def __hash__(self) -> int:
            counted["tokens_looked_at"] += 1
            return int.__hash__(self)

        def __eq__(self, other: object) -> bool:
            counted["tokens_looked_at"] += 1
            return int.__eq__(self, other)

        def __ne__(self, other: object) -> bool:
            counted["tokens_looked_at"] += 1
            return int.__ne__(self, other)

    cache = _made(entry(case["num_blocks"], case["block_size"], counting))
    for operation, seq, *rest in case["operations"]:
        counted.update(dict.fromkeys(counted, 0))
        getattr(cache, operation)(seq, *_own(rest, Token))
    return {"counts": dict(counted)}


def _made(cache: Any) -> Any:
    if cache is None:
        raise TypeError("make_cache returned None; its last line returns the object: return Cache()")
    if isinstance(cache, type):
        raise TypeError(f"make_cache returned the class {cache.__name__}, not an object of it: return {cache.__name__}()")
    return cache


def _own(arguments: list, kind: Callable[[int], int] = int) -> list:
    """Lists of tokens as the learner's own, to keep or to change."""
    return [[kind(token) for token in value] if isinstance(value, list) else value for value in arguments]


def _plain_table(table: Any) -> Any:
    """A list of its own (the learner's may change later), or what came in place of one."""
    return list(table[:MOST_BLOCKS]) if isinstance(table, (list, tuple)) else table


def _hash_function(kind: str) -> Callable[[bytes], bytes]:
    """bytes -> 32 bytes. sha256   no two texts with the same name
    one name   every text has the same
    few names  four names in all
    forgets    a name inside a text does not count: two blocks with the same tokens have one name, whatever stands before them
    """  # fmt: skip
    given: set[bytes] = set()

    def named(data: bytes) -> bytes:
        if not isinstance(data, bytes):
            raise TypeError(f"hash_function takes bytes, not {type(data).__name__}")
        if kind == "one name":
            return bytes(32)
        if kind == "forgets":
            for name in given:
                for text in (name, name.hex().encode(), repr(name).encode(), str(list(name)).encode()):
                    data = data.replace(text, b"")
        name = hashlib.sha256(data).digest()
        if kind == "few names":
            name = bytes([name[0] % 4]) * 32
        given.add(name)
        return name

    return named
