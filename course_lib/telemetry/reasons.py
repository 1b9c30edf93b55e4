"""Why clocks are what they are: the bits of NVML's clocks_event_reasons (once called throttle reasons) as words.

Not every bit is throttling. An idle GPU lowers its clocks, and somebody may have set them; only some reasons hold back a GPU that
has work.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reason:
    """One bit of the mask. throttles: it slows a GPU that has work, against everybody's wish."""

    bit: int
    name: str
    meaning: str
    throttles: bool


# NVML API reference, nvmlClocksEventReasons
REASONS = (
    Reason(0x001, "gpu_idle", "nothing runs, and the clocks rest", False),
    Reason(0x002, "applications_clocks", "somebody has set or capped the clocks", False),
    Reason(0x004, "sw_power_cap", "the driver lowers the clocks to stay below the power limit", True),
    Reason(0x008, "hw_slowdown", "the hardware halves the clocks or worse: heat, or a power brake", True),
    Reason(0x010, "sync_boost", "another GPU of a group holds this one back", False),
    Reason(0x020, "sw_thermal_slowdown", "the driver lowers the clocks because GPU or memory is too hot", True),
    Reason(0x040, "hw_thermal_slowdown", "the hardware lowers the clocks because the chip is too hot", True),
    Reason(0x080, "hw_power_brake", "the machine's power supply asked the GPU to slow down", True),
    Reason(0x100, "display_clocks", "a display's settings hold the clocks", False),
)


def reason_names(mask: int) -> tuple[str, ...]:
    """0x44 -> ("sw_power_cap", "hw_thermal_slowdown"). A bit that is not in the table shows as "bit_0x200"."""
    known = tuple(reason.name for reason in REASONS if mask & reason.bit)
    unknown = mask & ~sum(reason.bit for reason in REASONS)
    return known + tuple(f"bit_{1 << place:#x}" for place in range(unknown.bit_length()) if unknown >> place & 1)


def throttle_names(mask: int) -> tuple[str, ...]:
    """Those among them that slow a GPU which has work."""
    return tuple(reason.name for reason in REASONS if reason.throttles and mask & reason.bit)
