"""The four phases: number, notebook, title and goal. Known without importing any exercise."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Phase:
    number: int
    name: str  # of the folder and the notebook
    title: str
    goal: str
    weeks: str
    needs_triton: bool  # some of its exercises are kernels
    built_on_triton: bool = False  # most are, so that without Triton there is little but to read


PHASES = (
    Phase(1, "phase1_roofline", "The roofline", "say how fast a step can be, before running it", "1-2", True),
    Phase(2, "phase2_attention", "FlashAttention and paged KV", "build attention and the KV memory under it", "3-5", True, True),
    Phase(3, "phase3_quant", "Quantisation", "trade bits for speed, and know what it costs", "6-8", True, True),
    Phase(4, "phase4_serving", "Serving", "assemble the engine and serve within a latency target", "9-12", True, True),
)


def phase(number: int) -> Phase:
    """Raises KeyError, naming the known ones, for a phase that does not exist."""
    for candidate in PHASES:
        if candidate.number == number:
            return candidate
    raise KeyError(f"there is no phase {number}; the course has {[p.number for p in PHASES]}")
