"""Right numbers: the builder that Triton's frontend calls, and the roundings of compiled code.

builder.py       one object with a method for each operation; its mixins are the files builder_*.py
rounding.py      single operations that numpy rounds otherwise than a GPU; library.py: functions of libdevice
numpy_types.py   a Triton type as a numpy type; formats.py, format_codes.py: bf16 and fp8, which numpy has not
reductions.py, mapped.py    tl.reduce, tl.associative_scan and tl.map_elementwise, whose functions are the kernel's own
frontend.py      Triton's frontend, spared repeated work
What an H200 gave for each operation is kept in tests/interpreter/device_semantics.npz.
"""
