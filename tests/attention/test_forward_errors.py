"""Bad input is refused with its numbers, and nothing is written."""

import re

import pytest
import torch

from course_lib.attention import flash_attention


def bad(error, message, change):
    return pytest.param(error, message, change, id=re.sub(r"\W+", " ", message)[:40])


ZEROS = torch.zeros(2, 5, 2, 64)
EVERY_OTHER = torch.zeros(2, 5, 1, 128)[..., ::2].expand(2, 5, 2, 64)
BAD = [
    bad(ValueError, "6 query heads do not share 4 KV heads evenly", {"q": (2, 3, 6, 64), "kv": (2, 5, 4, 64)}),
    bad(ValueError, "2 query heads do not share 0 KV heads", {"kv": (2, 5, 0, 64)}),
    bad(ValueError, "the kernels take head_dim 64, 80, 96, 128, 256, got 72", {"q": (2, 3, 2, 72), "kv": (2, 5, 2, 72)}),
    bad(ValueError, "q has head_dim 64 and k has 128", {"kv": (2, 5, 2, 128)}),
    bad(ValueError, "q holds a batch of 2 and k one of 3", {"kv": (3, 5, 2, 64)}),
    bad(ValueError, "q must be [batch, rows, heads, head_dim], got [3, 2, 64]", {"q": (3, 2, 64)}),
    bad(ValueError, "k and v must have one shape, got [2, 5, 2, 64] and [2, 4, 2, 64]", {"v": torch.zeros(2, 4, 2, 64)}),
    bad(TypeError, "one dtype, got torch.float32, torch.float32 and torch.float16", {"v": ZEROS.half()}),
    bad(TypeError, "got torch.float64; cast q, k and v", {"dtype": torch.float64}),
    bad(ValueError, "q, k and v must be on one device, got cpu, cpu and meta", {"v": torch.zeros(2, 5, 2, 64, device="meta")}),
    bad(ValueError, "v has strides (640, 128, 0, 2), and its last one must be 1", {"v": EVERY_OTHER}),
    bad(ValueError, "out must be [2, 3, 2, 64] torch.float32 on cpu, as q is; got [2, 3, 2, 3", {"out": torch.zeros(2, 3, 2, 3)}),
    bad(ValueError, "got [2, 3, 2, 64] torch.float16", {"out": torch.zeros(2, 3, 2, 64).half()}),
    bad(ValueError, "out has strides (384, 1, 192, 3)", {"out": torch.zeros(2, 2, 64, 3).permute(0, 3, 1, 2)}),
    bad(ValueError, "scale must be a finite number above 0, got 0", {"scale": 0}),
    bad(ValueError, "scale must be a finite number above 0, got nan", {"scale": float("nan")}),
    bad(ValueError, "impl must be one of auto, triton, dense, hopper, got 'cuda'", {"impl": "cuda"}),
]  # fmt: skip


@pytest.mark.parametrize(("error", "message", "change"), BAD)
def test_bad_input_is_refused_in_words(error, message, change):
    change = {"q": (2, 3, 2, 64), "kv": (2, 5, 2, 64), "dtype": torch.float32, "impl": "triton"} | change
    q, k = (torch.zeros(change.pop(name), dtype=change["dtype"]) for name in ("q", "kv"))
    change.pop("dtype")
    v = change.pop("v", None)
    before = None if "out" not in change else change["out"].clone()
    with pytest.raises(error, match=re.escape(message)):
        flash_attention(q, k, torch.zeros_like(k) if v is None else v, **change)
    assert before is None or torch.equal(change["out"], before)


def test_dense_takes_any_head_dim_and_stride():
    q, k = torch.randn(1, 3, 2, 20), torch.randn(1, 3, 2, 20)
    strided = torch.randn(1, 3, 2, 40)[..., ::2]
    torch.testing.assert_close(flash_attention(q, k, strided), flash_attention(q, k, strided.contiguous()))
