"""What the KV memory refuses, by name, so that a scheduler can catch "no room" and let a mistake through.

Every one of them is raised before anything has changed: after an error the books are as they were.
"""


from operator import index
from typing import Any


class KVCacheError(ValueError):
    """A request that the KV memory cannot carry out."""


class OutOfBlocks(KVCacheError):
    """More blocks asked for than can be had, evicting included. No mistake: a scheduler waits, evicts or preempts."""

    def __init__(self, wanted: int, free: int, cached: int, total: int) -> None:
        self.wanted, self.free, self.cached, self.total = wanted, free, cached, total
        super().__init__(
            f"{wanted} blocks wanted, {free} free and {cached} cached of {total} ({total - free - cached} held); "
            f"ask for at most {free + cached}, or release blocks first"
        )


class UnknownBlock(KVCacheError):
    """A block number outside the pool."""


class NotHeld(KVCacheError):
    """A reference given back that nobody holds (a double free), or one taken on a block whose content is gone."""


class UnknownSequence(KVCacheError):
    """A sequence that was never added, or is freed."""


class SequenceExists(KVCacheError):
    """A name that is in use."""


def whole(value: Any, what: str) -> int:
    """A whole number as an int of Python: numpy's, and a tensor's one element, are. KVCacheError for 2.5 and for "2"."""
    try:
        return index(value)
    except TypeError:
        raise KVCacheError(f"{what}: {value!r} is a {type(value).__name__}; use a whole number") from None
