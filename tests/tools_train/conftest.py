import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    """Products this small are slower on two threads, and bit-for-bit comparisons want one order of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
