"""Triton's frontend says what it does not take; here stands what to write in its place.

Its sentences are found by a part that Triton 3.6 and 3.7 have in common (tests/interpreter/test_next_step.py provokes each).
"""

_STEPS = (
    ("range must be a power of 2", "take the next power of two (triton.next_power_of_2 on the host) and mask the rest"),
    ("must be of type tl.constexpr", "the size of a block is known while compiling: make it a tl.constexpr, and mask"),
    ("Input shapes should have M >=", "use larger blocks; other=0.0 in the loads fills what lies beyond the matrix"),
    ("cannot cast int", "go by way of float32: x.to(tl.float32); a load's other=0 is an integer, other=0.0 is not"),
    ("Both operands must be same dtype", "convert one of them, as in b.to(a.dtype)"),
    ("must have equal reduction dimensions", "the first block is [M, K] and the second [K, N]; tl.trans turns one around"),
    ("incompatible dimensions at index", "x[:, None] makes a column of a block, x[None, :] a row"),
    ("Unsupported ptr type", "an address is a pointer plus offsets: was a number passed where the kernel wants a tensor?"),
    ("'NoneType' object has no attribute", "None was passed or loaded where a tensor is wanted"),
    ("Unsupported lhs dtype", "tl.dot multiplies int8, fp8, fp16, bf16, fp32 and fp64: convert with .to()"),
    ("cannot access local variable", "compiled code forgets what one branch of an `if` alone has set: set it before the `if`"),
    ("invalid operands of type pointer", "the only arithmetic on pointers is pointer + offset"),
    ("'tuple' object has no attribute 'append'", "lists do not grow in a kernel: keep a sum in a variable"),
    ("must be Tensor, not tensor", "torch works on the host; a kernel uses tl functions"),
)  # fmt: skip


def next_step(error: Exception) -> str:
    """What to do about an error that a kernel met, "" where its own words have to do."""
    words = str(error)
    return next((step for part, step in _STEPS if part in words), "")
