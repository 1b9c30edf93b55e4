""" "auto" takes the Hopper kernel where it was measured to be faster, and can run; asked of a device that is not here."""

from types import SimpleNamespace

import pytest
import torch

from course_lib.attention import forward
from course_lib.attention.hopper_forward import check_describable, describable, hopper_attention, is_faster
from course_lib.attention.hopper_ladder import EVERY_STEP
from course_lib.attention.hopper_launch import TILES, Work, launch_arguments

HERE = [
    (128, 65, 100, False, True), (128, 64, 100, False, False), (256, 128, 9000, True, True), (64, 128, 9000, True, True),
    (64, 128, 4096, False, True), (64, 128, 4097, False, False), (96, 128, 100, True, False), (80, 128, 100, True, False),
]  # fmt: skip


@pytest.mark.parametrize(("head_dim", "q_len", "kv_len", "causal", "yes"), HERE)
def test_where_it_is_faster(head_dim, q_len, kv_len, causal, yes):
    q, k = torch.empty(1, q_len, 2, head_dim).half(), torch.empty(1, kv_len, 1, head_dim).half()
    assert is_faster(q, k, k, None, q_len, kv_len, causal) is yes
    assert is_faster(q[0], k[0], k[0], None, q_len, kv_len, causal) is yes  # packed


def test_vectors_that_tma_cannot_read_go_another_way():
    q = torch.empty(1, 200, 2, 129, dtype=torch.float16)[..., :128]
    assert not is_faster(q, q, q, None, 200, 200, True)
    aligned = torch.empty(1, 200, 2, 136, dtype=torch.float16)[..., :128]
    assert is_faster(aligned, aligned, aligned, None, 200, 200, True)
    assert not is_faster(aligned, aligned, aligned, q, 200, 200, True)


def test_the_copy_engine_takes_bases_and_strides_of_whole_16_bytes():
    memory = torch.zeros(4096, dtype=torch.float16)
    for start, strides, yes in (
        (0, (512, 64, 512, 1), True), (8, (512, 72, 512, 1), True), (4, (512, 64, 512, 1), False), (0, (512, 68, 512, 1), False),
        (0, (512, 0, 512, 1), False), (0, (3, 64, 0, 1), True), (0, (512, 64, 512, 2), False),
    ):  # fmt: skip
        view = torch.as_strided(memory, (1, 4, 1, 32), strides, start)  # strides of the axes of one element are never used
        assert describable(view) is yes, (start, strides)
        if not yes:
            with pytest.raises(ValueError, match="v has strides"):
                check_describable(q=memory[None], v=view)
    assert all(describable(x) for x in (memory, memory[None]))


def test_a_descriptor_gets_strides_that_it_takes_where_none_is_used():
    q = torch.as_strided(torch.zeros(4096, dtype=torch.float16), (1, 4, 1, 64), (3, 64, 0, 1))
    args, _ = launch_arguments(Work(q, q, q, q, None, True, 0.1, 4, 4), None, 1, EVERY_STEP, TILES[64])
    assert [desc.strides for desc in args[:4]] == [[8, 8, 64, 1]] * 4


@pytest.mark.parametrize(("capability", "asked"), [((9, 0), True), ((8, 0), False), ((10, 0), False)])
def test_only_hopper_is_asked(capability, asked, monkeypatch):
    q = SimpleNamespace(is_cuda=True, shape=(1, 200, 2, 128), stride=lambda *i: 1 if i else (1,), data_ptr=lambda: 0)
    monkeypatch.setattr(forward, "capability_of", lambda q: capability)
    monkeypatch.setattr("course_lib.attention.hopper_forward.is_faster", lambda *of: True)
    assert forward._hopper_is_faster(q, q, q, None, 200, 200, True) is asked


def test_forced_on_a_cpu_it_says_why_not():
    q = torch.zeros(1, 5, 2, 128, dtype=torch.bfloat16)
    with pytest.raises(RuntimeError, match="runs compiled, on a GPU; q is on cpu"):
        hopper_attention(q, q, q)
    with pytest.raises(RuntimeError, match="no backward pass"):
        hopper_attention(q.clone().requires_grad_(), q, q)
    with pytest.raises(TypeError, match="takes bfloat16 and float16, got float32"):
        forward.flash_attention(q.float(), q.float(), q.float(), impl="hopper")
