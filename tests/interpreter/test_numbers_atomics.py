"""Atomics: every kind and type, masks, repeated addresses, and the old values that they return."""

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given
from hypothesis import strategies as st

from course_lib.interpreter import KernelMistake

from .numbers_helpers import MANY, empty, interpreted, random_ints, rounded, seeds, tensor, values

__all__ = ["interpreted"]


@triton.jit
def atomic_kernel(memory, places, operands, old, n, NAME: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    live = at < n
    where = tl.load(places + at, mask=live, other=0)
    operand = tl.load(operands + at, mask=live, other=0)
    before = getattr(tl, NAME)(memory + where, operand, mask=live)
    tl.store(old + at, before, mask=live)


INTEGER = {
    "atomic_add": np.add, "atomic_max": np.maximum, "atomic_min": np.minimum, "atomic_and": np.bitwise_and,
    "atomic_or": np.bitwise_or, "atomic_xor": np.bitwise_xor, "atomic_xchg": lambda old, new: new,
}  # fmt: skip
FLOAT = {
    "atomic_add": np.add,
    "atomic_max": np.maximum,
    "atomic_min": np.minimum,
    "atomic_xchg": lambda old, new: new,
}


def run(op, name, memory, places, operands):
    memory, old, n = tensor(memory, name), empty(len(places), name), len(places)
    atomic_kernel[(1,)](memory, torch.tensor(places), tensor(operands, name), old, n, op, triton.next_power_of_2(n))
    return values(memory, name), values(old, name)


def one_after_the_other(update, memory, places, operands):
    memory, old = np.array(memory), []
    with np.errstate(all="ignore"):
        for place, operand in zip(places, operands, strict=True):
            old.append(memory[place])
            memory[place] = update(memory[place], operand)
    return memory, np.array(old)


@given(op=st.sampled_from(list(INTEGER)), name=st.sampled_from(["int32", "uint32", "int64", "uint64"]), seed=seeds,
       n=st.integers(1, 20))  # fmt: skip
@MANY
def test_integer_atomics_act_lane_by_lane_and_return_what_they_found(op, name, seed, n):
    rng = np.random.default_rng(seed)
    memory, operands = random_ints(rng, 6, name), random_ints(rng, n, name)
    places = rng.integers(0, 6, n).tolist()  # repeated addresses
    expected = one_after_the_other(INTEGER[op], memory, places, operands)
    got = run(op, name, memory, places, operands)
    np.testing.assert_array_equal(got[0], expected[0])
    np.testing.assert_array_equal(got[1], expected[1])


@given(op=st.sampled_from(list(FLOAT)), name=st.sampled_from(["fp32", "fp64", "bf16", "fp16"]), seed=seeds, n=st.integers(1, 20))
@MANY
def test_float_atomics_round_each_update_to_the_type_in_memory(op, name, seed, n):
    if op != "atomic_add" and name in ("bf16", "fp16"):
        return
    rng = np.random.default_rng(seed)
    memory, operands = rounded(rng.standard_normal(4) * 9, name), rounded(rng.standard_normal(n) * 9, name)
    places = rng.integers(0, 4, n).tolist()
    expected = one_after_the_other(lambda a, b: rounded(FLOAT[op](a, b), name), memory, places, operands)
    got = run(op, name, memory, places, operands)
    np.testing.assert_array_equal(got[0], expected[0])
    if op in ("atomic_add", "atomic_xchg") or len(set(places)) == n:
        np.testing.assert_array_equal(got[1], expected[1])
    # max and min of floats are two atomics on integers, those of positive lanes first: at one address the order is theirs


def test_a_bf16_counter_stops_where_bf16_cannot_count_on():
    memory, _ = run("atomic_add", "bf16", [0.0], [0] * 300, [1.0] * 300)
    assert memory.tolist() == [256.0]


@pytest.mark.parametrize("op", ["atomic_and", "atomic_or", "atomic_xor"])
def test_bitwise_atomics_act_on_the_bits_of_floats(op):
    memory, operands = np.float32([1.5, -2.0]), np.float32([-3.25, 7.0])
    expected = INTEGER[op](memory.view(np.uint32), operands.view(np.uint32)).view(np.float32)
    got, old = run(op, "fp32", memory, [0, 1], operands)
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(old, memory)


NARROW = ("fp16", "bf16", "int8", "int16")
WRONG = [(op, name) for op in ("atomic_max", "atomic_min", "atomic_xchg", "atomic_and") for name in NARROW]
WRONG += [("atomic_add", "int8"), ("atomic_add", "int16")]


@pytest.mark.parametrize(("op", "name"), WRONG)
def test_atomics_that_no_gpu_has_are_refused(op, name):
    with pytest.raises(KernelMistake, match=rf"{op} does not support {name}"):
        run(op, name, np.zeros(2), [0], np.zeros(1))


@triton.jit
def swap_kernel(memory, expected, new, old, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(old + at, tl.atomic_cas(memory + at, tl.load(expected + at), tl.load(new + at)))


@pytest.mark.parametrize("name", ["int32", "int64", "fp32", "fp16", "bf16", "int16"])
def test_compare_and_swap_stores_only_where_it_found_what_it_expected(name):
    memory, expected, new = [1, 2, 3, 4], [1, 0, 3, 0], [9, 9, 9, 9]
    data, old = tensor(memory, name), empty(4, name)
    swap_kernel[(1,)](data, tensor(expected, name), tensor(new, name), old, 4)
    assert values(data, name).tolist() == [9, 2, 9, 4]
    assert values(old, name).tolist() == memory


def test_compare_and_swap_compares_bits():
    memory, expected = torch.tensor([float("nan"), 0.0]), torch.tensor([float("nan"), -0.0])
    swap_kernel[(1,)](memory, expected, torch.tensor([5.0, 5.0]), torch.empty(2), 2)
    assert memory.tolist() == [5.0, 0.0]


@triton.jit
def ticket_kernel(counter, order):
    ticket = tl.atomic_add(counter, 1)
    tl.store(order + tl.program_id(0), ticket)


def test_programs_draw_different_tickets():
    counter, order = torch.zeros(1, dtype=torch.int32), torch.empty(5, dtype=torch.int32)
    ticket_kernel[(5,)](counter, order)
    assert sorted(order.tolist()) == list(range(5))
    assert counter.item() == 5


@triton.jit
def lock_kernel(lock, total, x):
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total, tl.load(total) + tl.load(x + tl.program_id(0)))
    tl.atomic_xchg(lock, 0)


def test_a_lock_of_compare_and_swap_is_taken_and_given_back():
    from course_lib.interpreter import Checks, switch

    switch.enable(Checks(races=False))  # the store is guarded by the lock, which the check for races does not understand
    lock, total, x = torch.zeros(1, dtype=torch.int32), torch.zeros(1), torch.arange(4.0)
    lock_kernel[(4,)](lock, total, x)
    assert (total.item(), lock.item()) == (6.0, 0)
