"""LLM inference and GPU systems engineering: the course's reference library.

Importing this package costs no torch and no Triton; each part imports them where it uses them.
A notebook starts with `from course_lib import lab`.
"""

__version__ = "0.1.0"
