"""Right numbers: the builder that Triton's frontend calls, and the roundings of compiled code."""
