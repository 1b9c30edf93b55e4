"""Compiled proof: whether a kernel compiles for real GPUs, and what its machine code uses, with none of them at hand.

compile_report(kernel, args, kwargs) is for one kernel, compile_reports for many at once. Read proof.py first.
Arrows: proof -> arguments, child, readings, cache -> report, targets; worker.py runs in the child and imports only Triton.
"""

from .proof import Launch, compile_report, compile_reports
from .report import CompileReport, TargetReport
from .targets import DEFAULT_TARGETS

__all__ = ["DEFAULT_TARGETS", "CompileReport", "Launch", "TargetReport", "compile_report", "compile_reports"]
