"""The name of a block of KV: a chain of hashes over everything that its content depends on.

    name(block i) = H("kv block", name(block i - 1), tokens of block i)          name(before block 0) = H("kv root", salt)

Two different inputs never give the same bytes to H: a word for the kind stands first, texts come with their length, tokens in
8 bytes each. What H does with them is another matter, so a name finds a candidate and never decides (prefix_cache.py compares).
"""

import hashlib
from collections.abc import Callable, Sequence
from operator import index
from typing import Any

from .errors import KVCacheError

Salt = str | tuple[str, ...]
"""What must be equal beside the tokens for KV to be equal, or for sharing to be allowed: adapter, tenant, image."""

HashFunction = Callable[[bytes], bytes]


def sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def checked_salt(salt: Any) -> Salt:
    """The salt itself. KVCacheError for what is neither: 1 and True are equal to Python, and two adapters must not be."""
    texts = salt if isinstance(salt, tuple) else (salt,)
    if not all(isinstance(text, str) for text in texts):
        raise KVCacheError(f"salt {salt!r} is a {type(salt).__name__}; use a text, or a tuple of texts: str(adapter) of a number")
    return salt


def whole_tokens(tokens: Any) -> list[int]:
    """Tokens as ints of Python, from a list, an array or a tensor [tokens]: 0-dimensional tensors are equal to no others."""
    try:
        return list(map(index, tokens.tolist() if hasattr(tokens, "tolist") else tokens))
    except TypeError as error:
        raise KVCacheError(f"tokens are whole numbers [tokens], got a {type(tokens).__name__}: {error}") from None


def root_name(salt: Salt, hash_function: HashFunction = sha256) -> bytes:
    """The name that stands before block 0. "a", ("a",), ("a", "b") and ("ab",) are four different salts."""
    checked_salt(salt)
    kind = b"kv root, one text\0" if isinstance(salt, str) else b"kv root, several texts\0"
    parts = [part.encode(errors="surrogatepass") for part in ((salt,) if isinstance(salt, str) else salt)]
    return hash_function(kind + b"".join(_with_length(part) for part in parts))


def block_name(parent: bytes, tokens: Sequence[int], hash_function: HashFunction = sha256) -> bytes:
    """The name of the block with these tokens behind the block named `parent`. Tokens: whole numbers of at most 8 bytes."""
    try:
        words = b"".join(token.to_bytes(8, "little", signed=True) for token in tokens)
    except OverflowError:
        largest = max(tokens, key=abs)
        raise KVCacheError(f"token {largest} needs more than 8 bytes; use -2**63 to 2**63 - 1") from None
    return hash_function(b"kv block\0" + _with_length(parent) + words)


def chain(tokens: Sequence[int], block_size: int, salt: Salt = "", hash_function: HashFunction = sha256) -> list[bytes]:
    """The names of all full blocks of a text: what a router needs to know where its beginning is cached."""
    names, tokens = [root_name(salt, hash_function)], whole_tokens(tokens)
    for start in range(0, len(tokens) // block_size * block_size, block_size):
        names.append(block_name(names[-1], tokens[start : start + block_size], hash_function))
    return names[1:]


def _with_length(data: bytes) -> bytes:
    return len(data).to_bytes(8, "little") + data
