"""The GPUs that a kernel is compiled for, and what one thread block may use on each."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """shared_limit_bytes: most shared memory (LDS on AMD) that one thread block can have, after opting in where that is needed.

    counts_spills  False where every matrix product has a stack, so that a count of spills would blame the wrong thing
    """

    name: str
    seen_in: str
    backend: str
    arch: int | str
    warp_size: int
    shared_limit_bytes: int
    counts_spills: bool = True


# NVIDIA: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability", maximum amount of shared memory per
# thread block: 64, 163, 99, 99, 227 and 227 KB for 7.5, 8.0, 8.6, 8.9, 9.0 and 10.0 (1 KB = 1024 bytes).
# AMD: "AMD Instinct MI300" Instruction Set Architecture Reference Guide (CDNA3), Local Data Share: 64 KB for each workgroup.
_ALL = (
    Target("sm_75", "T4, RTX 20", "cuda", 75, 32, 64 * 1024, counts_spills=False),
    Target("sm_80", "A100", "cuda", 80, 32, 163 * 1024),
    Target("sm_86", "A10, RTX 30", "cuda", 86, 32, 99 * 1024),
    Target("sm_89", "L4, RTX 40", "cuda", 89, 32, 99 * 1024),
    Target("sm_90", "H100, H200", "cuda", 90, 32, 227 * 1024),
    Target("sm_100", "B200", "cuda", 100, 32, 227 * 1024),
    Target("gfx942", "MI300", "hip", "gfx942", 64, 64 * 1024),
)
TARGETS = {target.name: target for target in _ALL}
DEFAULT_TARGETS = tuple(TARGETS)
MAX_THREADS_PER_BLOCK = 1024  # of every target above, by the same two documents
TENSOR_MEMORY_COLUMNS = 512  # sm_100, PTX ISA, "Tensor Memory": 128 lanes of 512 columns


def target_named(name: str) -> Target:
    if name not in TARGETS:
        raise ValueError(f"target {name!r} is not known; known are {', '.join(TARGETS)}")
    return TARGETS[name]
