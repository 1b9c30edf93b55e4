"""Triton without a GPU: right numbers, exact counts, caught mistakes, compiled proof.

entry.py, after_import.py   before Triton is imported: interpret or compile; right after it: numbers and checks on
switch.py, launch.py        on and off, `with ledger()`; one launch, program after program
source/                     a kernel's source as a Python function, and triton.language while it runs
numbers/                    arithmetic with the roundings of compiled code
mistakes/                   what a launch may touch, what nobody wrote, races, and how a mistake is told
counts/                     bytes, sectors and FLOPs for each argument and source line
compiled/                   `compile_report`: what the compiler makes of a kernel for real GPUs, in a process of its own
text/, recorded/            a kernel as a module's text; launches written down, replayed and counted in a clean process

Importing this package imports neither Triton nor torch; its names below are loaded at their first use.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "Checks": "watch",
    "KernelMistake": "mistakes.faults",
    "NotEmulated": "mistakes.faults",
    "Ledger": "counts.books",
    "LaunchLedger": "counts.books",
    "Traffic": "counts.books",
    "disable": "switch",
    "enable": "switch",
    "enabled": "switch",
    "ledger": "switch",
    "ledger_of": "recorded.replay",
    "compile_report": "compiled",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"course_lib.interpreter has no {name!r}; it offers {', '.join(__all__)}")
