"""What the driver says about a GPU: clocks, power, energy, memory, and what "utilisation" really is.

Knows nothing else of the course. `Recorder` records a block of work; what a device does not give is None, and a sentence
says why. Order of reading: nvml, reading, gpm, recorder, summary.
"""

from .gpm import Gpm, GpmMetrics, GpmUnavailableError
from .honest import honest_figures
from .metrics import METRICS, Metric, metric
from .nvml import NvmlUnavailableError, handle_of, sentence, session
from .reading import Reading, read
from .reasons import REASONS, reason_names, throttle_names
from .recorder import Recorder
from .summary import Summary
from .tools import QUESTIONS, TOOLS, Tool, who_sees

__all__ = [
    "METRICS",
    "QUESTIONS",
    "REASONS",
    "TOOLS",
    "Gpm",
    "GpmMetrics",
    "GpmUnavailableError",
    "Metric",
    "NvmlUnavailableError",
    "Reading",
    "Recorder",
    "Summary",
    "Tool",
    "handle_of",
    "honest_figures",
    "metric",
    "read",
    "reason_names",
    "sentence",
    "session",
    "throttle_names",
    "who_sees",
]
