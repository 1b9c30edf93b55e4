"""The name of a block of KV: a chain of hashes over everything that its content depends on.

    name(block i) = H("kv block", name(block i - 1), tokens of block i)          name(before block 0) = H("kv root", salt)

Two different inputs never give the same bytes to H: a word for the kind stands first, texts come with their length, tokens in
8 bytes each. What H does with them is another matter, so a name finds a candidate and never decides (prefix_cache.py compares).
"""

import hashlib
from collections.abc import Callable, Sequence

Salt = str | tuple[str, ...]
"""What must be equal beside the tokens for KV to be equal, or for sharing to be allowed: adapter, tenant, image."""

HashFunction = Callable[[bytes], bytes]


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def root_name(salt: Salt, hash_function: HashFunction = sha256) -> bytes:
    """The name that stands before block 0. "a", ("a",), ("a", "b") and ("ab",) are four different salts."""
    kind = b"kv root, one text\0" if isinstance(salt, str) else b"kv root, several texts\0"
    parts = [part.encode() for part in ((salt,) if isinstance(salt, str) else salt)]
    return hash_function(kind + b"".join(_with_length(part) for part in parts))


def block_name(parent: bytes, tokens: Sequence[int], hash_function: HashFunction = sha256) -> bytes:
    """The name of the block with these tokens behind the block named `parent`. Tokens: whole numbers of at most 8 bytes."""
    words = b"".join(token.to_bytes(8, "little", signed=True) for token in tokens)
    return hash_function(b"kv block\0" + _with_length(parent) + words)


def chain(tokens: Sequence[int], block_size: int, salt: Salt = "", hash_function: HashFunction = sha256) -> list[bytes]:
    """The names of all full blocks of a text: what a router needs to know where its beginning is cached."""
    names = [root_name(salt, hash_function)]
    for start in range(0, len(tokens) // block_size * block_size, block_size):
        names.append(block_name(names[-1], tokens[start : start + block_size], hash_function))
    return names[1:]


def _with_length(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data
