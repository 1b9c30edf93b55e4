"""Honest times of GPU work. Knows nothing else of the course.

What makes a time honest
------------------------
*Ask the device, not the host.* A launch returns before the kernel starts, so a host clock around it measures the launch. Events
are marks in the device's own queue; the time between two of them is what the device spent (`time_calls`).

*Do not count the wait.* On an idle device a start mark is passed at once, and the time until the kernel arrives, some
microseconds, would be counted. So the device is held back while the host fills the queue. A call of many tiny kernels still
runs at the host's pace; in a CUDA graph all of it is queued beforehand (`time_in_graph`).

*Leave out the first calls.* They compile, allocate, tune and raise clocks.

*Say what the caches hold.* A tensor that the last call left in L2 is read several times faster than one in memory. In a decode
step gigabytes pass between two uses of a weight, so data come from memory there, and a timer must empty L2 first (`l2_flusher`).

*Use the numbers that the work will see.* Zeros switch fewer transistors than random bits: less power, higher clocks, less
time.

*Show the spread.* Clocks, power limits and neighbours move the result. A median with an interval says how much
(`bootstrap_interval`); a minimum says what happened once.

*Compare inside one run.* Two kernels timed a minute apart differ by what the machine did in between. Taken in turns, in
alternating order, both see the same machine, and the ratio is worth more than either time (`paired_ratio`).

*Disbelieve a record.* A time that beats the roof by more than the sheet's rounding measured something else: a kernel that was
skipped, data from L2, a queue that was not waited for.
"""

from .events import Timing, time_calls
from .flush import l2_flusher
from .graph import time_in_graph
from .interval import bootstrap_interval
from .pairs import Ratio, paired_ratio

__all__ = ["Ratio", "Timing", "bootstrap_interval", "l2_flusher", "paired_ratio", "time_calls", "time_in_graph"]
