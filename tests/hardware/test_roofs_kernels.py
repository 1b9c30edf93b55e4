"""The kernels that roofs are measured with do the whole work: every word arrives, and each byte is asked for once."""

import pytest
import torch
import triton

from course_lib.hardware.roofs_kernels import copy_words_kernel
from course_lib.interpreter import ledger
from course_lib.workloads.read_curve_kernel import read_kernel


def words(n):
    return torch.randint(-(2**31), 2**31 - 1, (n,), dtype=torch.int32, generator=torch.Generator().manual_seed(n))


@pytest.mark.parametrize(("n", "block"), [(1, 64), (64, 64), (65, 64), (1000, 256)])
def test_a_copy_brings_every_word_and_moves_two_times_n_times_four_bytes(n, block):
    x, out = words(n), torch.full((n + 8,), 7, dtype=torch.int32)
    with ledger() as book:
        copy_words_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    assert torch.equal(out[:n], x)
    assert (out[n:] == 7).all()
    total = book.launches[0].total
    assert (total.loaded_bytes, total.stored_bytes) == (4 * n, 4 * n)
    assert total.rereads == 1


@pytest.mark.parametrize(("n", "block"), [(1024, 1024), (5000, 1024), (4096, 2048)])
def test_a_read_adds_up_every_word_and_stores_one_for_each_block(n, block):
    x = words(n)
    programs = triton.cdiv(n, block)
    sums = torch.zeros(programs, dtype=torch.int32)
    with ledger() as book:
        read_kernel[(programs,)](x, sums, n, BLOCK=block)
    wrapped = [int(part.long().sum()) for part in x.split(block)]
    assert torch.equal(sums, torch.tensor(wrapped).to(torch.int32))
    total = book.launches[0].total
    assert (total.loaded_bytes, total.stored_bytes) == (4 * n, 4 * programs)
