"""From a kernel's source to a Python function that computes, and triton.language while it runs."""
