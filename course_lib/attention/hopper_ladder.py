"""The steps from a plain TMA kernel to the fast one on Hopper; each can be left out, for benchmarks and for exercise 2.10.

What each does stands at the head of hopper_kernel.py; what each buys, `python -m benchmarks.hopper_ladder` prints.
"""

from dataclasses import dataclass, fields

NEEDS = {"overlap": "specialised", "pinned": "overlap", "ping_pong": "specialised", "persistent": "specialised",
         "balanced": "persistent"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ladder:
    """Which steps are taken.

    specialised  a warp of its own asks for tiles, two warpgroups of 64 queries each multiply. Without: hopper_plain.py
    overlap      the softmax of a tile runs while the values of the tile before are multiplied
    pinned       the assembler may not move that softmax behind the wait for the values
    ping_pong    the two warpgroups issue their products in turns, so that one's softmax falls into the other's products
    persistent   one thread block for each SM, which goes from tile to tile: loads and stores of one hide behind the next
    balanced     its tiles are dealt out ahead, or drawn (packed), so that all blocks end together. Without: every n-th tile
    Raises ValueError for a step without the one it stands on.
    """

    specialised: bool = True
    overlap: bool = True
    pinned: bool = True
    ping_pong: bool = True
    persistent: bool = True
    balanced: bool = True

    def __post_init__(self) -> None:
        for step, needed in NEEDS.items():
            if getattr(self, step) and not getattr(self, needed):
                raise ValueError(f"the step {step!r} stands on {needed!r}, which is off; switch {step!r} off too")

    @classmethod
    def up_to(cls, last: str) -> "Ladder":
        """All steps in order up to and with this one; "plain" for none."""
        if last not in STEPS:
            raise ValueError(f"there is no step {last!r}; the steps are {', '.join(STEPS)}")
        return cls(*(STEPS.index(step) <= STEPS.index(last) for step in STEPS[1:]))


STEPS = ("plain", *(field.name for field in fields(Ladder)))  # in the order of climbing
EVERY_STEP = Ladder()
