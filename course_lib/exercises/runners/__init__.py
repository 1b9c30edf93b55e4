"""The part of each exercise that runs beside the learner's code: it calls their function and gathers evidence.

A runner imports torch, triton and plain data types only. `run(entry, case)` returns what the function returned;
`observe(entry, case)` returns evidence as plain data (see grading/criteria.py). Nothing is judged here.
"""
