"""The part of the grader that runs beside a learner's code, in the notebook kernel or in a child process.

It imports the standard library, and torch where tensors are handled, but nothing else of course_lib: these files are copied
into a fresh tree on their own (where the course is installed, worker.py has its interpreter run the kernels). Whatever is
decided here can be influenced by the code under test, so nothing is judged here.
"""
