"""Block tables in two buffers: the host writes the next step's table while the device reads this step's, and nobody waits.

Epoch    number of the table that a step reads. `begin_step` takes the newest published one; what it holds does not change until
         `end_step`. `publish` makes the edited table the newest.
Buffers  there are two, as on a device. While a step still reads the one that would be written, `publish` says False and the edits
         stay pending: the caller goes on and asks again.
Freed    a block taken out of a row may still be read by every step that began with a table that names it. It waits, and goes back
         to the pool when a table without it is published and the last of those steps has ended. `reclaim` never waits: it gives
         back what is safe.
         Block retired in epoch 4, steps of epochs 4 and 5 run: it must wait for the first, not for the second.
The rule is that of epoch-based reclamation (Fraser, "Practical lock-freedom", 2004, section 5.2.3). On a GPU `end_step` is what
follows the step's event; a step, not a head or a layer, is fine enough.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .errors import KVCacheError, NotHeld, UnknownSequence

if TYPE_CHECKING:
    from .block_pool import BlockPool

EMPTY = -1


@dataclass(eq=False, slots=True)
class StepInFlight:
    """`table` is the buffer itself, [rows][max_blocks] padded with -1: what a kernel would read, not a copy."""

    epoch: int
    table: list[list[int]]


class DoubleBufferedTables:
    """Rows of block numbers; a row holds a reference on each of its blocks until the last step that may read it has ended."""

    def __init__(self, pool: "BlockPool", rows: int, max_blocks: int) -> None:
        if rows < 1 or max_blocks < 1:
            raise KVCacheError(f"tables of {rows} rows for {max_blocks} blocks; use at least 1 of both")
        self.pool, self.max_blocks = pool, max_blocks
        self.epoch = 0
        self._buffers = [[[EMPTY] * max_blocks for _ in range(rows)] for _ in range(2)]
        self._wanted: list[list[int]] = [[] for _ in range(rows)]  # what the next published table says
        self._stale: list[set[int]] = [set(), set()]  # per buffer: rows that differ from `_wanted`
        self._steps: set[StepInFlight] = set()
        self._retired: list[tuple[int, list[int]]] = []  # (last epoch whose table may name them, blocks)

    def set_row(self, row: int, blocks: list[int]) -> None:
        """The row of the next table. New blocks get a reference now, those that leave it keep theirs until `reclaim`.

        UnknownSequence outside the table, KVCacheError for too many blocks, NotHeld for a free one: nothing changed.
        """
        if not 0 <= row < len(self._wanted):
            raise UnknownSequence(f"row {row} of a table of {len(self._wanted)}; use 0 to {len(self._wanted) - 1}")
        if len(blocks) > self.max_blocks or len(set(blocks)) < len(blocks):
            raise KVCacheError(f"{len(blocks)} blocks for row {row}; use different ones, at most {self.max_blocks}")
        before, after = set(self._wanted[row]), set(blocks)
        self.pool.retain([block for block in blocks if block not in before])
        if gone := [block for block in self._wanted[row] if block not in after]:
            self._retired.append((self.epoch, gone))
        self._wanted[row] = list(blocks)
        for stale in self._stale:
            stale.add(row)

    def publish(self) -> bool:
        """Make the edited table the newest; False, with nothing changed, while a step still reads the other buffer."""
        back = (self.epoch + 1) % 2
        if any(step.epoch % 2 == back for step in self._steps):
            return False
        for row in self._stale[back]:
            blocks = self._wanted[row]
            self._buffers[back][row][:] = blocks + [EMPTY] * (self.max_blocks - len(blocks))
        self._stale[back].clear()
        self.epoch += 1
        return True

    def begin_step(self) -> StepInFlight:
        step = StepInFlight(self.epoch, self._buffers[self.epoch % 2])
        self._steps.add(step)
        return step

    def end_step(self, step: StepInFlight) -> None:
        """Its kernels have finished. Raises NotHeld for a step that is not in flight."""
        if step not in self._steps:
            raise NotHeld(f"this step of epoch {step.epoch} is not in flight; end each step once")
        self._steps.remove(step)

    def reclaim(self) -> int:
        """Give back the retired blocks that no step can read, and return how many references that were. Never waits."""
        oldest = self._oldest_readable()
        safe = [blocks for epoch, blocks in self._retired if epoch < oldest]
        self._retired = [(epoch, blocks) for epoch, blocks in self._retired if epoch >= oldest]
        for blocks in safe:
            self.pool.release(blocks)
        return sum(len(blocks) for blocks in safe)

    @property
    def num_waiting(self) -> int:
        """References of retired blocks that are not given back yet."""
        return sum(len(blocks) for _, blocks in self._retired)

    def holders(self) -> list[list[int]]:
        """Everything this table holds references on, for `BlockPool.check(holders)`."""
        return [*self._wanted, *(blocks for _, blocks in self._retired)]

    def check(self) -> None:
        """No block that a table in use names is free; buffers say what was published."""
        for table in [self._buffers[self.epoch % 2], *(step.table for step in self._steps)]:
            free = {block for row in table for block in row if block != EMPTY and not self.pool.ref_count(block)}
            assert not free, f"blocks {sorted(free)} are free, and a step may read them"
        assert all(self.epoch - step.epoch in (0, 1) for step in self._steps), "a step's buffer was written over"
        for buffer, stale in zip(self._buffers, self._stale, strict=True):
            for row, blocks in enumerate(self._wanted):
                same = buffer[row] == blocks + [EMPTY] * (self.max_blocks - len(blocks))
                assert same or row in stale, f"row {row} differs from what was set, and is not marked"

    def _oldest_readable(self) -> int:
        """The oldest epoch whose table a step reads or may begin with."""
        return min([self.epoch, *(step.epoch for step in self._steps)])
