"""What phase 1 claims and a CPU can examine. course_lib/claims/tested.toml names each test here; its name is what it shows.

Not here  C049, on the axes of a roofline: test_axis_units.py.
"""

import subprocess
import sys

import pytest

from course_lib.hardware import spec


def test_c001_40_ms_is_within_reach_of_8b_on_one_gpu_and_of_70b_only_with_fp8_or_two_gpus():
    from course_lib.roofline.models import LLAMA_3_8B, LLAMA_3_70B

    gpu = spec("h100-sxm")

    def meets(model, bytes_per_weight, ranks):
        """Whether a decode step at batch 1 can take less than 40 ms: it reads every weight once, without the input embedding."""
        fits = model.params * bytes_per_weight / ranks <= gpu.hbm_gb * 1e9
        read = (model.params - model.head_params) * bytes_per_weight / ranks
        return fits and read / (gpu.hbm_gb_per_s * 1e9) * 1e3 < 40

    assert meets(LLAMA_3_8B, bytes_per_weight=2, ranks=1)
    assert not meets(LLAMA_3_70B, bytes_per_weight=2, ranks=1)
    assert meets(LLAMA_3_70B, bytes_per_weight=1, ranks=1)
    assert meets(LLAMA_3_70B, bytes_per_weight=2, ranks=2)


def test_c043_v_multiplies_after_the_softmax():
    import torch

    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 3, 5, 5, dtype=torch.float64, generator=generator) for _ in range(3))  # square, so that + V fits
    scores = q @ k.transpose(-1, -2) / 5**0.5
    attention = torch.nn.functional.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(scores.softmax(-1) @ v, attention, rtol=1e-12, atol=1e-12)
    as_claimed = (scores + v).softmax(-1)
    assert (as_claimed - attention).abs().max() > 0.1
    long_k, long_v = (torch.randn(2, 3, 7, 5, dtype=torch.float64, generator=generator) for _ in range(2))  # 7 keys, head_dim 5
    with pytest.raises(RuntimeError, match="must match"):
        _ = q @ long_k.transpose(-1, -2) / 5**0.5 + long_v


GET_GPU_METRICS = """
import pynvml
{first}
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
used = pynvml.nvmlDeviceGetUtilizationRates(handle)
print(used.gpu, used.memory)
"""


def test_c061_nvml_refuses_a_query_before_it_is_initialised():
    """In a process of its own, as the listing would be: one that has initialised NVML stays initialised."""
    bare = _python(GET_GPU_METRICS.format(first=""))
    assert bare.returncode == 1
    assert "NVMLError_Uninitialized" in bare.stderr
    initialised = _python(GET_GPU_METRICS.format(first="pynvml.nvmlInit()"))  # without a driver it fails too, and says why
    assert "NVMLError_Uninitialized" not in initialised.stderr


def test_c062_the_listing_returns_batch_1_whatever_the_machine():
    def listing(flops_per_token, bytes_per_token, least_intensity=0.2, largest=32):
        """The roadmap's rule: the smallest batch whose intensity passes the threshold, both sides growing with the batch."""
        for batch in range(1, largest + 1):
            if (flops_per_token * batch) / (bytes_per_token * batch) >= least_intensity:
                return batch
        return largest

    def with_weights_read_once(flops_per_token, weight_bytes, kv_bytes, least_intensity, largest=32):
        for batch in range(1, largest + 1):
            if flops_per_token * batch / (weight_bytes + kv_bytes * batch) >= least_intensity:
                return batch
        return largest

    assert listing(0.17e12, 33e9) == 1
    machines = [(flops, nbytes) for flops in (1e9, 1.5e10, 0.17e12, 3e13) for nbytes in (1e6, 1.5e10, 33e9)]
    assert {listing(flops, nbytes) for flops, nbytes in machines if flops / nbytes >= 0.2} == {1}
    assert {listing(flops, nbytes) for flops, nbytes in machines if flops / nbytes < 0.2} == {32}  # never what a batch can change
    assert [with_weights_read_once(1.5e10, 1.5e10, 1.3e8, least) for least in (1, 8, 16)] == [2, 9, 19]


def _python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
