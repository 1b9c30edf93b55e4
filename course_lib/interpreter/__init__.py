"""Triton without a GPU: right numbers, exact counts, caught mistakes, compiled proof.

Entry      entry.py decides, before Triton is imported, whether kernels are interpreted or compiled
Numbers    a launch runs on numpy with the roundings of compiled code (launch.py, builder*.py, formats.py)
Mistakes   accesses out of bounds, values that nobody wrote, races, wrapped addresses: faults.py, access.py, values.py
Counts     `with ledger() as book`: bytes, sectors and FLOPs for each argument and source line (books.py, accounting.py)
Compiled   `compile_report(kernel, args, targets=...)`: what the compiler makes of a kernel for real GPUs (compiled/)
Recorded   launches written down beside the learner's code, replayed in a clean process (recording.py, replay.py)

Importing this package imports neither Triton nor torch; its names below are loaded at their first use.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Checks": "watch",
    "KernelMistake": "faults",
    "NotEmulated": "faults",
    "Ledger": "books",
    "LaunchLedger": "books",
    "Traffic": "books",
    "disable": "switch",
    "enable": "switch",
    "enabled": "switch",
    "ledger": "switch",
    "ledger_of": "replay",
    "compile_report": "compiled",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"course_lib.interpreter has no {name!r}; it offers {', '.join(__all__)}")
