"""What a launch may touch, what it may not, and how that is told.

memory.py    the tensors of a launch, and which address is which element
access.py    one load, store or atomic: checked, counted, done
canary.py, races.py         memory that nobody wrote; two programs that store to one place
faults.py, tell.py, next_step.py    KernelMistake and its kinds; the sentences; what to do next
own_lines.py     the traceback of a mistake, without ours
"""
