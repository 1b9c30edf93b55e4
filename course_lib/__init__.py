"""LLM inference and GPU systems engineering: the course's reference library.

Importing this package costs no torch and no Triton; each part imports them where it uses them. Where there is no GPU driver it
sets TRITON_INTERPRET=1, which Triton reads once, when it is first imported (interpreter/entry.py says how that is decided).
A notebook starts with `from course_lib import lab`.
"""

from .interpreter import entry as _entry

__version__ = "0.1.0"

_entry.for_package()
