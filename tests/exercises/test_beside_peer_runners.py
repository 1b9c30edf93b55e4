"""What the runners of timed kernels measure, on a CPU that stands in for the device: small sizes, clocks that do not matter."""

import pytest
import torch
import torch.nn.functional as F

from course_lib.exercises import exercise
from course_lib.exercises.runners import phase1_copy, phase2_attend_rows, phase2_flash, phase2_paged
from course_lib.grading.outcome import State


@pytest.fixture
def device(monkeypatch):
    """torch.cuda as far as these runners use it; what is made on "cuda" lies in host memory."""

    class Event:
        def __init__(self, enable_timing):
            pass

        def record(self):
            pass

        def synchronize(self):
            pass

        def elapsed_time(self, end):
            return 1e6  # no share of any roof is beyond belief

    for name, stand_in in {
        "is_available": lambda: True, "get_device_name": lambda: "NVIDIA H200", "Event": Event, "_sleep": lambda cycles: None,
        "mem_get_info": lambda: (0, 2**37),
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, stand_in)
    for name in ("empty", "full", "randn", "randperm"):
        made = getattr(torch, name)
        monkeypatch.setattr(torch, name, lambda *size, made=made, device=None, **more: made(*size, **more))
    monkeypatch.setattr(phase1_copy, "COPY_BYTES", 2**12)
    monkeypatch.setattr(phase2_attend_rows, "ROWS", 3)
    monkeypatch.setattr(phase2_attend_rows, "KEYS", 50)
    for name, value in {"BATCH": 1, "TOKENS": 20, "HEADS": 2, "HEAD_DIM": 8}.items():
        monkeypatch.setattr(phase2_flash, name, value)
    monkeypatch.setattr(phase2_flash, "_cudnn", attention)
    for name, value in {"ROWS": 2, "TOKENS": 32, "HEADS": 2, "HEAD_DIM": 64}.items():
        monkeypatch.setattr(phase2_paged, name, value)


def attention(q, k, v, causal=True):
    turned = (x.transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(*turned, is_causal=causal).transpose(1, 2)


def rows(scores, values):
    return scores.softmax(1) @ values, scores.logsumexp(1)


def through_tables(q, k, v, k_blocks, v_blocks, slots, tables, lengths):
    keys, values = (x[tables.long()].flatten(1, 2).transpose(1, 2) for x in (k_blocks, v_blocks))
    return F.scaled_dot_product_attention(q[:, :, None], keys, values)[:, :, 0]


RIGHT = {"1.4": lambda x, out: out.copy_(x), "2.2": rows, "2.4": attention, "2.8": through_tables}
RUN = {
    "1.4": phase1_copy.copy_on_this_device, "2.2": phase2_attend_rows.attend_rows_on_this_device,
    "2.4": phase2_flash.flash_on_this_device, "2.8": phase2_paged.paged_on_this_device,
}  # fmt: skip


def remembers(right):
    """The first result again, whatever the inputs hold by now."""
    held = []

    def answer(*inputs):
        if not held:
            result = right(*inputs)
            held.append([part.clone() for part in result] if isinstance(result, tuple) else result.clone())
        if len(inputs) == 2 and inputs[0].shape == inputs[1].shape:  # the copy's out
            return inputs[1].copy_(held[0])
        return held[0]

    return answer


def weighed(number, answer):
    (timed,) = exercise(number).in_cell("timed")
    (case,) = timed.cases(3)
    evidence = RUN[number](answer, case)
    if "blocked" in evidence:
        return timed._weigh(case, evidence), evidence
    return timed._weigh(case, evidence | {"torch_operations": []}), evidence  # these stand-ins are torch's


@pytest.mark.parametrize("number", RUN)
def test_a_right_answer_is_right_in_every_round(device, number):
    finding, evidence = weighed(number, RIGHT[number])
    assert (finding.state, evidence["wrong_rounds"], evidence["rounds"]) == (State.PASSED, 0, 15), finding
    assert evidence["torch_operations"]
    assert evidence["far"].startswith("not tried")


@pytest.mark.parametrize("number", RUN)
def test_a_result_that_does_not_follow_the_inputs_fails(device, number):
    finding, evidence = weighed(number, remembers(RIGHT[number]))
    assert (finding.state, evidence["wrong_rounds"]) == (State.FAILED, 15), finding
    assert "rounds" in finding.reason


@pytest.mark.parametrize("number", RUN)
def test_torch_in_disguise_is_told(device, number):
    (timed,) = exercise(number).in_cell("timed")
    (case,) = timed.cases(3)
    finding = timed._weigh(case, RUN[number](RIGHT[number], case))
    assert finding.state is State.FAILED
    assert "torch worked inside your function" in finding.reason


def test_without_cudnn_the_points_wait(device, monkeypatch):
    def refuses(*_):
        raise RuntimeError("No available kernel.\nAborting execution.")

    monkeypatch.setattr(phase2_flash, "_cudnn", refuses)
    finding, _ = weighed("2.4", attention)
    assert (finding.state, "No available kernel." in finding.reason) == (State.BLOCKED, True)
