"""Honest times of GPU work: medians with an interval, cold caches, paired ratios. Knows nothing else of the course."""
