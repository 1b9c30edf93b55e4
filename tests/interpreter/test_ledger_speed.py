"""Counting costs no time: the ledger's run does less work than Triton's own interpreter, counted in function calls.

Seconds are for benchmarks/interpreter_speed.py; no test depends on them. The shortcuts taken in the frontend change nothing.
"""

import cProfile
import json
import pstats

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from benchmarks import interpreter_speed
from benchmarks._result import sources_hash
from course_lib import interpreter
from course_lib.interpreter import ledger
from course_lib.interpreter.numbers import frontend

from .kernels.flash import flash
from .kernels.matmul import matmul


def product(steps):
    a, b = torch.ones(32, 16 * steps).half(), torch.ones(16 * steps, 32).half()
    return lambda: matmul(a, b, bm=16, bn=16, bk=16)


def attention(steps):
    q, k = torch.ones(1, 32, 1, 16).half(), torch.ones(1, 16 * steps, 1, 16).half()
    return lambda: flash(q, k, k, bm=16, bn=16)


@pytest.fixture
def as_before():
    was_on = interpreter.enabled()
    yield
    if was_on:
        interpreter.enable()


def calls_of_eight_steps(run, kernel):
    """Function calls that 8 more steps of the kernel's loop make: what a launch costs once cancels out."""
    counts = []
    for steps in (4, 12):
        body = kernel(steps)
        run(body)
        profile = cProfile.Profile()
        profile.runcall(run, body)
        counts.append(pstats.Stats(profile).total_calls)
    return counts[1] - counts[0]


both_run = pytest.mark.skipif(
    triton.__version__.startswith("3.6.") and np.lib.NumpyVersion(np.__version__) >= "2.4.0",
    reason="the unpatched Triton 3.6 cannot run a loop with numpy 2.4 (see test_on_triton_3_6.py)",
)


@both_run
@pytest.mark.parametrize("kernel", [product, attention])
@pytest.mark.parametrize("checked", [False, True])
def test_the_ledger_makes_at_most_half_the_calls_of_the_unpatched_interpreter(kernel, checked, as_before):
    stock = calls_of_eight_steps(interpreter_speed.unpatched, kernel)
    ours = calls_of_eight_steps(lambda body: interpreter_speed.counted(body, checked=checked), kernel)
    assert stock > 5000
    assert ours < 0.5 * stock, f"{ours} calls and {stock}"  # 0.3 to 0.4 of them when this was written


@both_run
def test_the_benchmark_runs_both_sides_in_every_round_and_writes_what_it_found(tmp_path, monkeypatch, as_before):
    monkeypatch.setenv("COURSE_RESULTS", str(tmp_path))
    monkeypatch.setattr(interpreter_speed, "ROUNDS", 2)
    monkeypatch.setattr(interpreter_speed, "cases", lambda: {"small": product(1)})
    monkeypatch.setattr(interpreter_speed.ratios, "__defaults__", (2,))
    assert interpreter_speed.main() in (0, 1)
    (path,) = tmp_path.glob("cpu-*/interpreter_speed.json")
    result = json.loads(path.read_text())
    assert [row["case"] for row in result["rows"]] == ["small: ledger", "small: ledger and checks"]
    assert all(row["spread"][0] <= row["ratio"] <= row["spread"][1] for row in result["rows"])
    assert result["sha256"] == sources_hash(interpreter_speed.SOURCES)


def test_the_unpatched_side_is_tritons_own(as_before):
    seen = []
    interpreter_speed.unpatched(lambda: seen.append(interpreter.enabled()))
    interpreter_speed.counted(lambda: (seen.append(interpreter.enabled()), product(1)()), checked=True)
    assert seen == [False, True]


BLOCKS = [[1], [16], [64, 32], [2, 4, 8], tl.tuple([tl.constexpr(4), tl.constexpr(4)]), tl.tuple([8])]
ELEMENTS = [tl.float16, tl.int1, tl.pointer_type(tl.bfloat16), tl.pointer_type(tl.int8, const=True)]


@pytest.mark.parametrize("again", [False, True], ids=["first", "again"])
@pytest.mark.parametrize("shape", BLOCKS, ids=str)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_a_block_has_the_attributes_that_triton_gives_it(shape, element, again):
    made, theirs = object.__new__(tl.block_type), tl.block_type(element, shape)
    if not again:
        frontend._shapes.clear()
    frontend.block_type_init(made, element, shape)
    ours = {name: value for name, value in vars(made).items() if not name.endswith("_of_tensor")}
    assert ours.keys() == vars(theirs).keys()
    assert (made.element_ty, made.numel, made.name, str(made)) == (element, theirs.numel, theirs.name, str(theirs))
    assert made.shape.values == theirs.shape.values
    assert made == theirs
    tensor, other = object.__new__(tl.tensor), tl.tensor("handle", theirs)
    frontend.tensor_init(tensor, "handle", made)
    assert vars(tensor).keys() == vars(other).keys()
    assert (tensor.handle, tensor.dtype, tensor.numel.value) == ("handle", other.dtype, other.numel.value)
    assert [size.value for size in tensor.shape] == [size.value for size in other.shape]


@pytest.mark.parametrize("shape", [[3], [2**21], [], [16.0], ["x"], [tl.constexpr(16.0)], [[16]], (16,), 16], ids=str)
def test_a_shape_that_triton_refuses_is_refused_with_its_words(shape):
    frontend.block_type_init(object.__new__(tl.block_type), tl.int8, [16])
    with pytest.raises((TypeError, ValueError, AssertionError, AttributeError)) as theirs:
        tl.block_type(tl.int8, shape)
    for _ in range(2):
        with pytest.raises(type(theirs.value)) as ours:
            frontend.block_type_init(object.__new__(tl.block_type), tl.int8, shape)
        assert str(ours.value) == str(theirs.value)


def test_scalars_and_types_made_before_the_launch_stay_as_they_are():
    for kind in (tl.float32, tl.block_type(tl.int32, [8])):
        tensor = object.__new__(tl.tensor)
        frontend.tensor_init(tensor, None, kind)
        assert vars(tensor).keys() == vars(tl.tensor(None, kind)).keys()
        assert tensor.type is kind


def test_nothing_of_it_is_left_in_triton_after_a_launch():
    before = tl.block_type.__init__, tl.tensor.__init__
    with ledger():
        product(1)()
    assert (tl.block_type.__init__, tl.tensor.__init__) == before
    assert before == (frontend._new_block_type, frontend._new_tensor)
