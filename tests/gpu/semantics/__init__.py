"""Probes of what compiled Triton does: kernels, inputs as bit patterns, and how closely another way of running has to agree."""
