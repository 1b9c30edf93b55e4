"""Work to be measured: layers with a real model's shapes and random weights, a kernel that only spins.

Nothing here is an answer to an exercise, so runners may import it. It imports torch, Triton and the standard library only.
"""
