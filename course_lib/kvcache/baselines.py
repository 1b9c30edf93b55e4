"""Ways to give requests KV memory, with one interface: what each knows about a request, and what it takes for it.

MaxLength  knows nothing: room for the longest request there may be, in one piece, from the start.
PowerOfTwo knows the answer's length up to a factor of two, takes the prompt and the next power of two, in one piece.
Oracle     knows the exact length, takes no more, in one piece. No server has this knowledge.
Paged      knows nothing and need not: blocks of block_size as tokens come.
The two in the middle cut their pieces from a buddy system, which rounds up once more: what it adds is counted as internal.
OracleFirstFit does without: pieces of exactly the length. It is the most that contiguous memory could do.
Source     the contiguous ones are what arXiv 2309.06180, section 6.1, compares paging with: Orca (Max), (Pow2) and (Oracle).
"""

from dataclasses import dataclass, field

from .block_pool import BlockPool
from .block_tables import blocks_for
from .contiguous import Buddy, FirstFit, next_power_of_two
from .errors import KVCacheError, OutOfBlocks
from .trace import Request


@dataclass(eq=False, slots=True)
class Held:
    """One request in memory: `tokens` of its final number are written, `slots` are taken."""

    request: Request
    tokens: int
    slots: int
    start: int = 0  # contiguous
    blocks: list[int] = field(default_factory=list)  # paged

    @property
    def reserved(self) -> int:
        """Taken for tokens that are still to come."""
        return min(self.request.total_tokens, self.slots) - self.tokens

    @property
    def internal(self) -> int:
        """Taken, and never to be used."""
        return max(self.slots - self.request.total_tokens, 0)


class Contiguous:
    """A request gets all it will ever have when it is admitted, in one piece."""

    name: str

    def __init__(self, space: FirstFit | Buddy) -> None:
        self.space, self.total_slots = space, space.total_slots

    def reservation(self, request: Request) -> int:
        """Slots asked for."""
        raise NotImplementedError

    def admit(self, request: Request, tokens: int) -> Held | None:
        """Room for a request with `tokens` written at once, or None. KVCacheError when it would not fit into empty memory."""
        slots = self.space.size(self.reservation(request))
        if not request.total_tokens <= slots <= self.space.longest:
            raise KVCacheError(
                f"{request.total_tokens} tokens get {slots} slots in one piece, pieces have up to {self.space.longest}; "
                "cut the request, or take more memory"
            )
        start = self.space.allocate(slots)
        return None if start is None else Held(request, tokens, slots, start)

    def grow(self, held: Held) -> bool:
        """One more token; there is always room."""
        held.tokens += 1
        return True

    def free(self, held: Held) -> None:
        self.space.release(held.start)

    def free_slots(self) -> int:
        return sum(self.space.holes())

    def external(self, waiting: Request | None) -> int:
        """Free slots in holes too short for what the waiting request must get in one piece."""
        need = 0 if waiting is None else self.space.size(self.reservation(waiting))
        return sum(hole for hole in self.space.holes() if hole < need)

    def check(self) -> None:
        self.space.check()


class MaxLength(Contiguous):
    name = "max length"

    def __init__(self, total_slots: int, max_tokens: int) -> None:
        super().__init__(FirstFit(total_slots))
        self.max_tokens = max_tokens

    def reservation(self, request: Request) -> int:
        return self.max_tokens


class PowerOfTwo(Contiguous):
    name = "power of two"

    def __init__(self, total_slots: int, max_tokens: int) -> None:
        super().__init__(Buddy(total_slots, next_power_of_two(max_tokens)))
        self.max_tokens = max_tokens

    def reservation(self, request: Request) -> int:
        return min(request.prompt_tokens + next_power_of_two(request.output_tokens), self.max_tokens)


class Oracle(Contiguous):
    name = "oracle"

    def __init__(self, total_slots: int, max_tokens: int) -> None:
        super().__init__(Buddy(total_slots, next_power_of_two(max_tokens)))

    def reservation(self, request: Request) -> int:
        return request.total_tokens


class OracleFirstFit(Contiguous):
    name = "oracle, first fit"

    def __init__(self, total_slots: int) -> None:
        super().__init__(FirstFit(total_slots))

    def reservation(self, request: Request) -> int:
        return request.total_tokens


class Paged:
    """Blocks on demand. `watermark`: share of the blocks that admission leaves free, so that who runs can grow;
    `preallocate` blocks are taken for each request at once, even when it has fewer tokens."""

    name = "paged"

    def __init__(self, total_slots: int, block_size: int = 16, *, watermark: float = 0.01, preallocate: int = 1) -> None:
        self.pool = BlockPool(total_slots // block_size, block_size)
        self.total_slots = self.pool.num_blocks * block_size
        self.preallocate, self._kept_free = preallocate, int(watermark * self.pool.num_blocks)

    def admit(self, request: Request, tokens: int) -> Held | None:
        """Blocks for `tokens`, or None. KVCacheError when the whole request would not fit into empty memory."""
        size = self.pool.block_size
        if max(blocks_for(request.total_tokens, size), self.preallocate) > self.pool.num_blocks - self._kept_free:
            raise KVCacheError(
                f"{request.total_tokens} tokens never fit into {self.total_slots} slots; cut it, or take more memory"
            )
        need = max(blocks_for(tokens, size), self.preallocate)
        if need > self.pool.num_free - self._kept_free:
            return None
        return Held(request, tokens, need * size, blocks=self.pool.allocate(need))

    def grow(self, held: Held) -> bool:
        """One more token; False, with nothing changed, when it needs a block and none is free."""
        if held.tokens == held.slots:
            try:
                held.blocks += self.pool.allocate(1)
            except OutOfBlocks:
                return False
            held.slots += self.pool.block_size
        held.tokens += 1
        return True

    def free(self, held: Held) -> None:
        self.pool.release(held.blocks)

    def free_slots(self) -> int:
        return self.pool.num_free * self.pool.block_size

    def external(self, waiting: Request | None) -> int:
        """None: any free block serves any request."""
        return 0

    def check(self) -> None:
        self.pool.check()


Allocator = Contiguous | Paged


def allocators(total_slots: int, max_tokens: int, block_size: int = 16) -> list[Allocator]:
    """Those that the paper compares, over as much memory: by growing share of it that holds tokens."""
    return [
        MaxLength(total_slots, max_tokens),
        PowerOfTwo(total_slots, max_tokens),
        Oracle(total_slots, max_tokens),
        Paged(total_slots, block_size),
    ]
