"""Kernels that the interpreter's tests run, count and compile. They are plain and whole: no option exists for a test's sake."""
