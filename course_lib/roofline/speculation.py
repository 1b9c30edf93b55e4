"""Speculative decoding on paper: tokens for each pass of the target model, and the speed-up that is left of them.

Source   Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding", arXiv 2211.17192,
         equation 1 and theorem 3.8.
"""


def expected_tokens(acceptance: float, drafted: int) -> float:
    """Mean tokens of one target pass: 1 + a + a^2 + ... + a^drafted. Acceptance 0.7, 4 drafted: 2.7731."""
    if not 0 <= acceptance <= 1:
        raise ValueError(f"acceptance is {acceptance}; it is a probability, from 0 to 1")
    return sum(acceptance**i for i in range(drafted + 1))


def speculative_speedup(acceptance: float, drafted: int, draft_cost: float, verify_cost: float = 1.0) -> float:
    """Tokens of a pass over its time in decode steps. 0.7, 4 drafted, a draft step of 0.05: 2.7731 / (4 * 0.05 + 1) = 2.31.

    draft_cost, verify_cost   time of a draft step, and of verifying drafted + 1 tokens, over a decode step; memory-bound: 1
    """
    return expected_tokens(acceptance, drafted) / (drafted * draft_cost + verify_cost)
