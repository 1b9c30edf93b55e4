"""From a kernel's source to a Python function that computes, and triton.language while it runs.

rewrite.py       the function, made once: assignments and Python's own words
rewrite_flow.py  loops, branches, and names from outside
refusals.py, names.py       what the compiler has no translation for; which globals a kernel sees
runtime.py, loops.py, flow.py   what the rewritten function calls: `and`, `if`, range(), types that a loop must keep
language.py      the builtins of triton.language, which answer through our builder during a launch
"""
