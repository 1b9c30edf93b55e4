"""What kernel exercises share: loads and stores of 16 bytes on every target, and what evidence from a device must confirm."""

import pytest

from course_lib.exercises.kernel_criteria import CompiledWide, confirmed
from course_lib.grading.outcome import State

WIDE = CompiledWide(
    name="n", claim="c", points=1.0, cases=lambda seed: [{"name": "one"}], run="call", check=lambda case, output: None,
    targets=("sm_80", "sm_90"), max_spills=8, narrow_hint="narrow", large_hint="large",
)  # fmt: skip
FITS = {"compiles": True, "shared_bytes": 10, "shared_limit_bytes": 100, "spills": 8, "tensor_cores": 0}


def kernel(load=(128, 128), store=(128, 128)):
    names = zip(("sm_80", "sm_90"), load, store, strict=True)
    return {"targets": [{"target": name, "widest_load_bits": a, "widest_store_bits": b} for name, a, b in names]}


def judged(*kernels, old=None, new=None, criterion=WIDE):
    """old, new: what differs in the report of each target."""
    targets = [FITS | (old or {}) | {"target": "sm_80"}, FITS | (new or {}) | {"target": "sm_90"}]
    attempt = {"output": 1, "changed": [], "aliases": [], "evidence": {"targets": targets, "kernels": kernels}}
    return criterion.judge({"name": "one"}, attempt)


def test_one_wide_kernel_is_enough():
    assert judged(kernel()).state is State.PASSED
    assert judged(kernel((32, 32), (64, 64)), kernel()).state is State.PASSED
    assert judged(kernel((128, 128), (32, 32)), kernel((16, 16), (128, 128))).state is State.PASSED


@pytest.mark.parametrize(
    ("kernels", "said"),
    [
        ([kernel(load=(64, 128))], "sm_80: the widest load of a thread is 8 bytes"),
        ([kernel(load=(128, 64))], "sm_90: the widest load of a thread is 8 bytes"),
        ([kernel(store=(32, 128))], "sm_80: the widest store of a thread is 4 bytes"),
        ([kernel(store=(128, 32))], "sm_90: the widest store of a thread is 4 bytes"),
        ([kernel((128, 16)), kernel((16, 64))], "sm_90: the widest load of a thread is 8 bytes"),
        ([], "the widest load of a thread is 0 bytes"),
    ],
)
def test_a_narrow_access_on_any_target_fails(kernels, said):
    finding = judged(*kernels)
    assert (finding.state, finding.hint, finding.share) == (State.FAILED, "narrow", 0.0)
    assert said in finding.reason


@pytest.mark.parametrize("one", ["old", "new"])
@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"spills": 9}, "large"), ({"compiles": False, "why_not": "the compiler took longer than 60 s"}, "large"),
        ({"shared_bytes": 101}, ""), ({"compiles": False, "why_not": "at line 3: spills is not defined"}, ""),
    ],
    ids=str,
)  # fmt: skip
def test_a_block_that_is_too_large_is_told_apart_from_other_faults(one, change, hint):
    finding = judged(kernel(), **{one: change})
    assert (finding.state, finding.hint) == (State.FAILED, hint)


CONFIRM = confirmed(wrong="out was wrong", fresh="x has", far="far was wrong", offset="row * stride")
RIGHT = {"torch_operations": [], "wrong_rounds": 0, "rounds": 15, "far": "right"}


@pytest.mark.parametrize(
    ("change", "said", "hint"),
    [
        ({"torch_operations": ["add", "mm"]}, "torch worked inside your function (add, mm)", ""),
        ({"wrong_rounds": 1}, "in 1 of 15 rounds out was wrong", "x has new content in each round."),
        ({"far": "wrong"}, "far was wrong", "Which type has row * stride"),
    ],
    ids=str,
)
def test_each_part_of_what_a_device_says_is_confirmed(change, said, hint):
    assert CONFIRM({}, RIGHT) is None
    assert CONFIRM({}, RIGHT | {"far": "not tried: 9 GB must be free"}) is None
    mistake = CONFIRM({}, RIGHT | change)
    assert said in mistake.reason
    assert hint in mistake.hint
