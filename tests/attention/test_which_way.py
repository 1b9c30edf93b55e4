""" "auto" takes a kernel only where there are tensor cores that Triton uses; asked of devices that are not here."""

from types import SimpleNamespace

import pytest
import torch

from course_lib.attention.checks import check_impl
from course_lib.attention.paged_checks import choose_impl
from course_lib.model.paged_step import kernels_refuse

T4, A100, H200 = (7, 5), (8, 0), (9, 0)
CUDA = torch.device("cuda", 0)


def on_gpu(head_dim=128, dtype=torch.float16, requires_grad=False):
    """What the choice looks at of a tensor."""
    return SimpleNamespace(is_cuda=True, device=CUDA, dtype=dtype, shape=(1, 4, head_dim), requires_grad=requires_grad)


def chosen(monkeypatch, capability, **of_q):
    """(dense or packed, paged)"""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    q = on_gpu(**of_q)
    return check_impl("auto", q, q, q), choose_impl("auto", q, 16, q, q)


@pytest.mark.parametrize(("capability", "way"), [(T4, "dense"), (A100, "triton"), (H200, "triton")])
def test_a_gpu_before_the_a100_takes_the_dense_way(capability, way, monkeypatch):
    assert chosen(monkeypatch, capability) == (way, way)


@pytest.mark.parametrize("of_q", [{"head_dim": 48}, {"dtype": torch.float32}, {"requires_grad": True}])
def test_what_no_kernel_takes_goes_the_dense_way(of_q, monkeypatch):
    assert chosen(monkeypatch, H200, **of_q) == ("dense", "dense")


def test_head_dim_256_has_a_paged_kernel_on_an_a100_and_no_dense_one(monkeypatch):
    assert chosen(monkeypatch, A100, head_dim=256) == ("dense", "triton")
    assert chosen(monkeypatch, H200, head_dim=256) == ("triton", "triton")


@pytest.mark.parametrize(("capability", "why"), [(T4, "need an A100 or newer, and cuda:0 is older"), (A100, None)])
def test_a_model_learns_the_same_of_its_paged_cache(capability, why, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    store = SimpleNamespace(
        config=SimpleNamespace(mla=None, sliding_window=None, head_dim=64),
        storage=SimpleNamespace(block_size=16, dtype=torch.float16, device=CUDA),
    )
    found = kernels_refuse(store)
    assert found is None if why is None else why in found
