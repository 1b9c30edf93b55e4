"""A paged cache for tests: blocks in random order, and NaN in every slot that holds no token of a row."""

from typing import NamedTuple

import torch


class Cache(NamedTuple):
    k: torch.Tensor
    v: torch.Tensor
    tables: torch.Tensor
    lengths: list[int]

    @property
    def live_bytes(self) -> int:
        """Of K (or V): what one read of every token takes."""
        return sum(self.lengths) * self.k.shape[2] * self.k.shape[3] * self.k.element_size()


def cache(lengths, kv_heads, head_dim, block_size, dtype=torch.float32, *, spare=3, entries=None, device="cpu", seed=0) -> Cache:
    """K and V of random tokens. Spare blocks, the tail of last blocks and unused table entries are poisoned."""
    random = torch.Generator(device=device).manual_seed(seed)
    used = [-(-n // block_size) for n in lengths]
    total = sum(used) + spare
    order = torch.randperm(total, generator=random, device=device).tolist()
    k = torch.full((total, block_size, kv_heads, head_dim), float("nan"), dtype=dtype, device=device)
    v = k.clone()
    tables = torch.full((len(lengths), entries or max([*used, 1]) + 1), -1, dtype=torch.int32)
    for row, (length, count) in enumerate(zip(lengths, used, strict=True)):
        blocks = [order.pop() for _ in range(count)]
        tables[row, :count] = torch.tensor(blocks, dtype=torch.int32)
        for pool in (k, v):
            tokens = torch.randn(length, kv_heads, head_dim, generator=random, device=device).to(dtype)
            for number, block in enumerate(blocks):
                part = tokens[number * block_size : (number + 1) * block_size]
                pool[block, : len(part)] = part
    return Cache(k, v, tables.to(device), list(lengths))


def queries(count, heads, head_dim, dtype=torch.float32, *, device="cpu", seed=1):
    random = torch.Generator(device=device).manual_seed(seed)
    return torch.randn(count, heads, head_dim, generator=random, device=device).to(dtype)


# Against a float64 oracle: rounding of the output (half an ulp of values below 4) and of p before it meets V
TOLERANCE = {torch.float32: 2e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def assert_close(found, wanted, dtype):
    torch.testing.assert_close(found.double(), wanted, rtol=0, atol=TOLERANCE[dtype], equal_nan=False)


def assert_lse(found, wanted):
    """-inf where no token was seen, else within 1e-5 (a sum of fp32 exponentials); inf equals inf."""
    torch.testing.assert_close(found.double(), wanted, rtol=1e-5, atol=1e-5)
