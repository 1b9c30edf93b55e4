"""Random numbers of a test are the same in every run, and tiny models do not wait for a second thread."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded_on_one_thread():
    threads = torch.get_num_threads()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
