"""Triton without a GPU: right numbers, exact counts, caught mistakes, compiled proof.

How a launch runs, from a kernel's source to numbers
  1. `import course_lib` sets TRITON_INTERPRET where there is no GPU (entry.py), so @triton.jit makes an interpreted function.
     Right after Triton is imported, `enable` puts ours in the place of its `run` (after_import.py, switch.py, hooks.py).
  2. kernel[grid](...) arrives there (an autotuned one through tuning.py), opens a LaunchLedger if somebody counts, and goes
     on to launch.py.
  3. source/ makes the kernel's source, once, into a Python function in which every assignment, branch and loop behaves as in
     compiled code. What Triton's compiler refuses is refused here, with the line.
  4. launch.py makes each argument a Value (values.py), a numpy array with Triton's type; a tensor becomes the address of its
     first element. Programs run one after the other; `Launch` (watch.py) knows which one, at which line.
  5. Each tl operation goes through Triton's own frontend to the builder in numbers/, which does it at once with numpy and
     rounds as compiled code does. Doubt (masked off, unwritten, wrapped around) travels along with each element.
  6. A load, store or atomic ends in mistakes/access.py: every active address is checked, the ledger in counts/ is told, the
     data move. A doubtful value that reaches memory, an address or a branch is a KernelMistake.

What lies where, in the order of reading
  entry.py, gpu_driver.py, after_import.py, versions.py   before Triton is imported, and right after it
  switch.py, settings.py, hooks.py, tuning.py             on and off, the ledger, what stands in Triton's place
  launch.py, launch_arguments.py, watch.py, values.py     one launch, and what it is made of
  source/, numbers/, mistakes/, counts/                   steps 3, 5 and 6; targets.py: what a named GPU's compiler refuses
  compiled_only.py    kernels that need a GPU, refused in a sentence
  text/, compiled/    a kernel as a module's text; what the compiler makes of it for real GPUs, in a process of its own
  recorded/           launches written down, replayed and counted in a clean process
  trace.py            one run with everything on, for lab.trace
Arrows: source -> numbers -> mistakes, counts; compiled -> text; recorded -> text, compiled, and the launch.

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
    "RooflinePoint": "counts.roofline_point",
    "roofline_point": "counts.roofline_point",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"course_lib.interpreter has no {name!r}; it offers {', '.join(__all__)}")
