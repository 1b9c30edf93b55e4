"""The two axes of a roofline: FLOP per byte across, FLOP/s upwards, both logarithmic. Only so are the roofs straight lines.

With bytes per second across, a kernel's place would move with its speed, and neither roof would be a line of the stated form.
"""

import re
from typing import Any

_RATE = re.compile(r"\b[GTP]?FLOP/s")


def label_roofline_axes(ax: Any, rate: str = "TFLOP/s") -> None:
    """Name both axes with their units and make them logarithmic."""
    ax.set(xscale="log", yscale="log", xlabel="arithmetic intensity, FLOP per byte", ylabel=rate)


def check_roofline_axes(ax: Any) -> None:
    """Raises ValueError, naming the axis, what it shows and what it should, for axes that are none of a roofline's."""
    for axis, label, scale in (("x", ax.get_xlabel(), ax.get_xscale()), ("y", ax.get_ylabel(), ax.get_yscale())):
        right = label.endswith("FLOP per byte") if axis == "x" else bool(_RATE.search(label))
        if not right:
            wanted = "FLOP per byte" if axis == "x" else "FLOP/s, GFLOP/s or TFLOP/s"
            raise ValueError(f"the {axis} axis of a roofline has the unit {wanted}; this one is labelled {label!r}")
        if scale != "log":
            raise ValueError(f"the {axis} axis of a roofline is logarithmic, this one is {scale}: call set_{axis}scale('log')")
