"""Time to move a sequence's keys and values to another GPU, between a prefill pool and a decode pool."""


def kv_transfer_seconds(
    tokens: int, kv_bytes_per_token: float, bytes_per_second: float, *, start_seconds: float = 0.0, efficiency: float = 1.0
) -> float:
    """start + tokens * kv / (efficiency * bandwidth); bandwidth in one direction.

    2048 tokens of Llama-3-70B (327,680 B each) over NVLink 4 (450e9 B/s): 1.49 ms; over one 400 Gb/s port (50e9 B/s): 13.4 ms.
    """
    if not 0 < efficiency <= 1:
        raise ValueError(f"efficiency is {efficiency}; it is a share of the bandwidth, above 0 and at most 1")
    return start_seconds + tokens * kv_bytes_per_token / (efficiency * bytes_per_second)
