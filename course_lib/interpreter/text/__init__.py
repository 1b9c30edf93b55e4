"""A kernel and all that it uses as the text of one module, for another process.

kernel_source.py    `self_contained`: the text, and where each of its lines came from
kernel_parts.py, kernel_names.py, kernel_constants.py   its parts; names and their places; constants as expressions
jit_functions.py    what lies below a kernel's decorators
kernel_text.py      what such a text may say before a clean process runs it
"""
