"""The language around the numbers: loops, branches, helpers, constants, arguments of every kind; all of it compiles."""

from typing import NamedTuple

import pytest
import torch
import triton
import triton.language as tl

from course_lib.interpreter import KernelMistake, switch

from .numbers_helpers import interpreted

__all__ = ["interpreted"]
THREE = tl.constexpr(3)


def ints(*shape):
    return torch.zeros(*shape, dtype=torch.int32)


# -- loops -------------------------------------------------------------------------------------------------------------


@triton.jit
def loops_kernel(out, n, step, BLOCK: tl.constexpr):
    up = 0
    for i in range(n):
        up += i
    tl.store(out, up)
    down = 0
    for i in range(n, 0, -2):
        down = down * 10 + i
    tl.store(out + 1, down)
    strided = 0
    for i in range(1, n, step):
        strided = strided * 10 + i
    tl.store(out + 2, strided)
    pipelined = 0
    for i in tl.range(0, n, 1, num_stages=3):
        pipelined += i
    tl.store(out + 3, pipelined)
    unrolled = 0
    for i in tl.static_range(BLOCK, 0, -1):
        unrolled = unrolled * 10 + i
    tl.store(out + 4, unrolled)
    turns = 0
    while (n > 1) & (turns < 100):
        n = n // 2
        turns += 1
    tl.store(out + 5, turns)
    never = 7
    for _i in range(5, 5):
        never = 8
    tl.store(out + 6, never)


def test_loops_count_as_those_of_python():
    out = ints(7)
    loops_kernel[(1,)](out, 9, 3, 4)
    assert out.tolist() == [36, 97531, 147, 36, 4321, 3, 7]


@triton.jit
def named_bounds_kernel(out, n):
    a = 0
    for i in tl.range(1, n, step=3, num_stages=2):
        a = a * 10 + i
    tl.store(out, a)
    b = 0
    for i in tl.range(n, step=4):
        b = b * 10 + i
    tl.store(out + 1, b)
    c = 0
    for i in tl.static_range(1, 9, step=3):
        c = c * 10 + i
    tl.store(out + 2, c)


def test_bounds_may_be_given_by_name():
    out = ints(3)
    named_bounds_kernel[(1,)](out, 9)
    assert out.tolist() == [147, 48, 147]


@triton.jit
def index_type_kernel(out, n32, n64):
    for i in range(n32):
        tl.static_assert(i.dtype == tl.int32)
        tl.store(out, i * 2147483647)  # wraps around
    for i in range(n64, n64 + 1):
        tl.static_assert(i.dtype == tl.int64)
        tl.store(out + 1, i)
    for i in range(0, 3, 1):
        tl.static_assert(i.dtype == tl.int32)
    for i in tl.static_range(2):
        tl.static_assert(i < 2)


def test_a_loops_index_has_the_type_of_its_bounds():
    out = torch.zeros(2, dtype=torch.int64)
    index_type_kernel[(1,)](out, 3, 2**40)
    assert out.tolist() == [-2, 2**40]


@triton.jit
def index_after_kernel(out, n):
    total = 0.0
    for i in range(n):
        total += i
    tl.store(out, total)


def test_a_loop_may_add_integers_to_a_float():
    out = torch.zeros(1)
    index_after_kernel[(1,)](out, 5)
    assert out.item() == 10.0


# -- branches and booleans ---------------------------------------------------------------------------------------------


@triton.jit
def branches_kernel(out, n, FLAG: tl.constexpr, BLOCK: tl.constexpr):
    if n > 3:
        a = 1
    elif n == 3:
        a = 2
    else:
        a = 3
    tl.store(out, a)
    if FLAG:
        b = tl.full((BLOCK,), 1, tl.int32)  # another type than in the branch that is not taken
    else:
        b = 0.5
        while True:
            break
    tl.store(out + 1, tl.sum(b, 0))
    tl.store(out + 2, n if n > 3 else 100)
    tl.store(out + 3, 5 if FLAG else [x + 1 for x in range(3)])
    at = tl.arange(0, BLOCK)
    both = (at > 1) and (at < 3)
    tl.store(out + 4, tl.sum(both.to(tl.int32), 0))
    tl.store(out + 5, tl.sum((not both).to(tl.int32), 0))
    tl.store(out + 6, ((n > 1 and n < 100) or n == 1000).to(tl.int32))
    if n > 1 and FLAG:
        tl.store(out + 7, 1)
    if (at == 0).to(tl.int32).sum(0) == 1:
        tl.store(out + 8, 1)


@pytest.mark.parametrize(("n", "expected"), [(4, [1, 4, 4, 5, 1, 3, 1, 1, 1]), (3, [2, 4, 100, 5, 1, 3, 1, 1, 1]),
                                             (1, [3, 4, 100, 5, 1, 3, 0, 0, 1])])  # fmt: skip
def test_branches_and_the_constant_branch_that_is_not_taken(n, expected):
    out = ints(9)
    branches_kernel[(1,)](out, n, True, 4)
    assert out.tolist() == expected


@triton.jit
def one_element_kernel(out, x):
    if tl.load(x + tl.arange(0, 1)) > 0:
        tl.store(out, 1)
    if tl.load(x):  # a float
        tl.store(out + 1, 1)
    if out:  # a pointer
        tl.store(out + 2, 1)


def test_a_condition_may_be_one_element_a_float_or_a_pointer():
    out = ints(3)
    one_element_kernel[(1,)](out, torch.tensor([0.5]))
    assert out.tolist() == [1, 1, 1]


@triton.jit
def early_kernel(out, n):
    if tl.program_id(0) >= n:
        return
    tl.store(out + tl.program_id(0), 1)


def test_an_early_return_ends_one_program():
    out = ints(4)
    early_kernel[(4,)](out, 2)
    assert out.tolist() == [1, 1, 0, 0]


# -- helpers -----------------------------------------------------------------------------------------------------------


@triton.jit
def divided(a, b, ROUND_UP: tl.constexpr = False):
    if ROUND_UP:
        return (a + b - 1) // b, a % b
    return a // b, a % b


@triton.jit
def first_positive(n):
    if n > 0:
        return 1
    return n


@triton.jit
def nested(n):
    whole, rest = divided(n, THREE)
    up, _ = divided(n, 3, ROUND_UP=True)
    return whole * 100 + rest * 10 + up


@triton.jit
def helpers_kernel(out, n):
    tl.store(out, nested(n))
    tl.store(out + 1, first_positive(n).to(tl.int32))
    tl.store(out + 2, first_positive(-n).to(tl.int32))
    pair = divided(n, 4)
    tl.store(out + 3, pair[0])
    a, b = pair
    a, b = b, a
    tl.store(out + 4, a * 10 + b)
    tl.store(out + 5, divided(*pair)[0])


def test_helpers_return_tuples_take_defaults_and_call_each_other():
    out = ints(6)
    helpers_kernel[(1,)](out, 11)
    assert out.tolist() == [324, 1, -11, 2, 32, 0]


def made_by(factor, helper):
    @triton.jit
    def kernel(out, n):
        tl.store(out, helper(n)[0] * factor)

    return kernel


def test_kernels_in_closures_keep_their_own_constants():
    two, five = made_by(tl.constexpr(2), divided_by_two), made_by(tl.constexpr(5), divided_by_two)
    out = ints(1)
    for kernel, factor in ((two, 2), (five, 5), (two, 2)):
        kernel[(1,)](out, 9)
        assert out.item() == 4 * factor


@triton.jit
def divided_by_two(n):
    return divided(n, 2)


# -- constants, arguments ----------------------------------------------------------------------------------------------


@triton.jit
def constants_kernel(out, n, shift: tl.constexpr = 2, maybe=None):
    LOCAL: tl.constexpr = THREE * shift
    at = tl.arange(0, 2 ** (LOCAL - 4))
    count = 1
    count += shift
    tl.static_assert(count.dtype == tl.int32)
    tl.static_assert(LOCAL == 6, "three times two")
    sizes = [LOCAL, shift]
    a, b = sizes
    total = a * 10 + b
    doubled = [x * 2 for x in (n, n + 1)]
    tl.store(out, total)
    tl.store(out + 1, doubled[0] + doubled[1])
    tl.store(out + 2, tl.max(at, 0))
    tl.store(out + 3, min(n, 3) + max(n, 3) * 10 + max(2, 1) * 100)
    tl.store(out + 4, len((1, 2, 3)) + int(2.7))
    if maybe is None:
        tl.store(out + 5, 1)
    else:
        tl.store(out + 5, maybe)
    tl.static_print(f"shift is {shift}, twice {shift * 2:>3}")


def test_constants_tuples_and_defaults(capsys):
    out = ints(6)
    constants_kernel[(1,)](out, 4)
    assert out.tolist() == [62, 18, 3, 243, 5, 1]
    assert "shift is 2, twice   4" in capsys.readouterr().out
    constants_kernel[(1,)](out, n=4, maybe=9, num_warps=8, num_stages=2)
    assert out[5] == 9


class Shape(NamedTuple):
    rows: int
    cols: int


@triton.jit
def tuples_kernel(pair, shape, scale):
    a, b = pair
    tl.store(a, shape.rows * 100 + shape.cols)
    tl.store(b, tl.load(a) * scale)


def test_tuples_and_named_tuples_of_tensors_and_numbers():
    a, b = ints(1), torch.zeros(1)
    tuples_kernel[(1,)]((a, b), Shape(3, 7), 0.5)
    assert (a.item(), b.item()) == (307, 153.5)


@triton.jit
def argument_types_kernel(one, large, huge, real, flag, out):
    tl.static_assert(one.dtype == tl.int32)
    tl.static_assert(large.dtype == tl.int64)
    tl.static_assert(huge.dtype == tl.uint64)
    tl.static_assert(real.dtype == tl.float32)
    tl.static_assert(flag.dtype == tl.int1)
    tl.store(out, real)
    tl.store(out + 1, one.to(tl.float64) / 3)


def test_numbers_arrive_with_the_types_of_compiled_code():
    out = torch.zeros(2, dtype=torch.float64)
    argument_types_kernel[(1,)](7, 2**40, 2**63, 0.1, True, out)
    assert out.tolist() == [float(torch.tensor(0.1)), 7 / 3]  # 0.1 as a float32


@triton.jit
def grid_kernel(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    tl.store(out + (x * tl.num_programs(1) + y) * tl.num_programs(2) + z, x * 100 + y * 10 + z)


def test_a_grid_of_three_axes_or_a_function():
    out = ints(2, 3, 4)
    grid_kernel[lambda meta: (2, 3, 4)](out)
    assert out[1, 2, 3] == 123
    assert out.reshape(-1).tolist() == [x * 100 + y * 10 + z for x in range(2) for y in range(3) for z in range(4)]


# -- asserts, prints ---------------------------------------------------------------------------------------------------


@triton.jit
def assert_kernel(x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n, other=0.0)
    tl.device_assert((value > 0) | (at >= n), "values are positive")
    assert n > 0, "n counts"


def test_a_device_assert_names_the_lane_and_the_line():
    x = torch.ones(5)
    assert_kernel[(1,)](x, 5, 8)
    x[3] = -1
    with pytest.raises(KernelMistake, match=r"line \d+ `tl\.device_assert.*lane \[3\].*values are positive"):
        assert_kernel[(1,)](x, 5, 8)
    with pytest.raises(KernelMistake, match="n counts"):
        assert_kernel[(1,)](x, 0, 8)


@triton.jit
def print_kernel(x):
    tl.device_print("x is", tl.load(x))
    print("and", tl.load(x) + 1)
    tl.device_print("in hex", tl.load(x), hex=True)


def test_prints_name_the_program(capsys):
    print_kernel[(1,)](torch.tensor([254], dtype=torch.int32))
    out = capsys.readouterr().out
    assert "(0, 0, 0) x is" in out
    assert "254" in out
    assert "255" in out
    assert "0xfe" in out


@triton.jit
def collatz(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@triton.jit
def mapped_kernel(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.map_elementwise(collatz, tl.load(x + at)))


def test_map_elementwise_gives_each_element_its_own_branches():
    x, out = torch.tensor([1, 2, 3, 6, 7, 9, 27, 8], dtype=torch.int32), ints(8)
    mapped_kernel[(1,)](x, out, 8)
    assert out.tolist() == [0, 1, 7, 8, 16, 19, 111, 3]


# -- tuning ------------------------------------------------------------------------------------------------------------


def _too_large(configs, named, **_):
    return [config for config in configs if config.kwargs["BLOCK"] <= named["n"]]


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 8}, num_warps=2), triton.Config({"BLOCK": 4})], key=["n"],
                 prune_configs_by={"early_config_prune": _too_large})  # fmt: skip
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(out, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out, BLOCK * 10 + EVEN)
    tl.store(out + 1 + at, at, mask=at < n)


def test_autotune_takes_the_first_valid_configuration_or_the_one_asked_for():
    out = ints(100)
    tuned_kernel[(1,)](out, 12)
    assert out[0] == 80  # 64 is pruned; 12 is no multiple of 8
    with switch.ledger(config={"BLOCK": 4}) as book:
        tuned_kernel[(1,)](out, 12)
    assert out[0] == 41
    assert "BLOCK: 4" in book.launches[0].config
    with pytest.raises(ValueError, match="BLOCK"), switch.ledger(config={"BLOCK": 5}):
        tuned_kernel[(1,)](out, 12)


@triton.jit
def reinterpreted_kernel(x, out):
    at = tl.arange(0, 4)
    tl.store(out + at, tl.load(x + at).to(tl.float32))


def test_a_reinterpreted_tensor_is_read_as_the_other_type():
    codes, out = torch.tensor([0x38, 0x40, 0xB8, 0x7E], dtype=torch.uint8), torch.empty(4)
    reinterpreted_kernel[(1,)](triton.reinterpret(codes, tl.float8e4nv), out)
    assert out.tolist() == [1.0, 2.0, -1.0, 448.0]
