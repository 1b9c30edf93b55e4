"""Kernels with planted mistakes and their twins without, one file for each kind of mistake."""
