"""Each kind of number test fails on an interpreter that is wrong in just the way it is there to notice."""

import numpy as np
import pytest
import torch
import triton.language as tl

from course_lib.interpreter.numbers import builder_arithmetic, builder_atomics, builder_casts, reductions, rounding
from course_lib.interpreter.numbers.builder import CourseBuilder
from course_lib.interpreter.source import loops
from course_lib.interpreter.values import Value

from . import (
    test_numbers_arithmetic,
    test_numbers_atomics,
    test_numbers_casts,
    test_numbers_dot,
    test_numbers_language,
    test_numbers_library,
    test_numbers_memory,
    test_numbers_reductions,
    test_numbers_shapes,
)
from .numbers_helpers import interpreted

__all__ = ["interpreted"]


def of(op):
    """A builder method that is this numpy function and nothing more."""
    return lambda self, lhs, rhs: Value(op(lhs.data, rhs.data), lhs.dtype.scalar)


def identity(data, dtype):
    return data


def through_float32(values, dtype, toward_zero=False):
    with np.errstate(all="ignore"):
        return rounding.round_to(values.astype(np.float32), dtype.name) if dtype.is_bf16() else values.astype(np.float32)


def unfused(x, y, z, dtype):
    return rounding.to_float((x * y).astype(x.dtype) + z, dtype)


def plain_turns(places):
    return [np.arange(places.size)]  # repeated addresses all at once


divided = test_numbers_arithmetic.test_division_goes_towards_zero_and_the_remainder_has_the_dividends_sign
arithmetic, casts, sums = test_numbers_arithmetic, test_numbers_casts, test_numbers_reductions
MUTANTS = {
    "sums are differences": (
        CourseBuilder, "create_fadd", of(np.subtract),
        lambda: run(arithmetic.test_float_operations_are_rounded_once, op="add", name="fp32", seed=1, n=50)),
    "bf16 results are not rounded": (
        builder_arithmetic, "narrow", identity,
        lambda: casts.test_a_python_number_takes_the_blocks_type_and_a_launch_argument_is_float32("bf16")),
    "maximum keeps a NaN": (
        CourseBuilder, "create_maxnumf", of(np.maximum),
        lambda: run(arithmetic.test_float_operations_are_rounded_once, op="maximum", name="fp32", seed=1, n=50)),
    "division rounds down": (
        CourseBuilder, "create_sdiv", of(lambda a, b: a // np.where(b == 0, 1, b)),
        lambda: run(divided, name="int32", seed=1, n=50)),
    "shifts bring in zeros": (
        CourseBuilder, "create_ashr", of(lambda a, b: (a.view(np.uint32) >> b.view(np.uint32)).view(a.dtype)),
        lambda: run(arithmetic.test_shifts_fill_with_the_sign_only_where_there_is_one, name="int32", seed=1, n=50)),
    "fma rounds its product": (builder_arithmetic, "fused", unfused, arithmetic.test_fma_keeps_what_a_rounded_product_loses),
    "float64 reaches bf16 through float32": (
        builder_casts, "to_float", through_float32,
        lambda: casts.test_an_int64_is_rounded_once_on_its_way_to_a_narrow_float()),
    "floats are rounded to integers": (
        builder_casts, "float_to_int", lambda values, target: np.rint(values).astype(target),
        lambda: run(casts.test_float_to_int_cuts_towards_zero, name="fp32", to="int32", seed=1, n=50)),
    "a bf16 sum is kept in float32": (
        reductions, "_summed_in_steps", lambda data, dtype, axis: data.sum(axis),
        sums.test_a_bf16_sum_is_rounded_at_each_step_as_compiled_code_does),
    "ties go to the right": (
        CourseBuilder, "create_icmpSLT", of(np.greater),
        lambda: run(sums.test_the_first_of_equal_extremes_is_found, name="int32", axis=1, seed=1)),
    "tf32 keeps every bit": (
        CourseBuilder, "create_dot", lambda self, a, b, d, *_: Value(np.matmul(a.data, b.data) + d.data, d.dtype.scalar),
        test_numbers_dot.test_tf32_keeps_ten_bits_of_each_factor),
    "repeated addresses are updated once": (
        builder_atomics, "_turns", plain_turns,
        lambda: run(test_numbers_atomics.test_integer_atomics_act_lane_by_lane_and_return_what_they_found,
                    op="atomic_add", name="int32", seed=1, n=20)),
    "a range stops one early": (
        loops, "range", lambda a, b, c: range(a, b - 1, c), test_numbers_language.test_loops_count_as_those_of_python),
    "philox multiplies in 16 bits": (
        CourseBuilder, "create_umulhi", of(lambda a, b: (a >> 16) * (b >> 16)),
        lambda: test_numbers_library.test_random_numbers_are_those_of_philox(42)),
    "permutations are turned around": (
        CourseBuilder, "create_trans", lambda self, arg, perm: arg.moved(lambda x: np.transpose(x, np.argsort(perm))),
        lambda: test_numbers_shapes.test_elements_go_where_torch_puts_them(test_numbers_shapes.permuted, torch.int64)),
    "padding is one": (
        CourseBuilder, "_padding", lambda self, desc, pointers: Value(np.ones(pointers.data.shape, np.float32), tl.float32),
        lambda: test_numbers_memory.test_a_descriptor_pads_what_lies_outside_its_shape(torch.float32, 6, 20, False)),
}  # fmt: skip


def run(test, **values):
    """One example of a hypothesis test."""
    test.hypothesis.inner_test(**values)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_interpreter_is_noticed(mutant, monkeypatch):
    import triton

    triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8))
    owner, name, wrong, test = MUTANTS[mutant]
    test()  # right as it is
    monkeypatch.setattr(owner, name, wrong, raising=owner is not loops)
    with pytest.raises((AssertionError, ArithmeticError)), np.errstate(all="ignore"):
        test()
