"""What no compiler takes is refused with its line and a way out; what compilers take is not refused (test_numbers_language.py).

Each verdict here is the one of Triton 3.6 and 3.7 for sm_90.
"""

import math

import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from course_lib.interpreter import KernelMistake, NotEmulated

from .numbers_helpers import interpreted

__all__ = ["interpreted"]
NUMBER = 7
CONSTANT = tl.constexpr(7)


def plain_helper(x):
    return x + 1


@triton.jit
def break_kernel(x, n):
    for i in range(n):
        if i > 3:
            break
        tl.store(x, i)


@triton.jit
def continue_kernel(x, n):
    while n > 0:
        n -= 1
        if n == 2:
            continue


@triton.jit
def return_in_loop_kernel(x, n):
    for i in range(n):
        if i == 100:
            return


@triton.jit
def chained_kernel(x, n):
    if 0 < n < 5:
        tl.store(x, 1.0)


@triton.jit
def lambda_kernel(x, n):
    f = lambda a: a + 1  # noqa: E731
    tl.store(x, f(n))


@triton.jit
def comprehension_kernel(x, n):
    for_all = [tl.load(x + i) for i in tl.static_range(3)]
    tl.store(x, for_all[0])


@triton.jit
def filtered_kernel(x, n):
    some = [i for i in (1, 2, 3) if i > 1]
    tl.store(x, some[0])


@triton.jit
def tuple_loop_kernel(x, n):
    for i in (1, 2, 3):
        tl.store(x + i, 1.0)


@triton.jit
def else_kernel(x, n):
    for i in range(n):
        tl.store(x + i, 1.0)
    else:
        tl.store(x, 2.0)


@triton.jit
def membership_kernel(x, n):
    if n in (1, 2):
        tl.store(x, 1.0)


@triton.jit
def product_kernel(x, n):
    a = tl.zeros((16, 16), tl.float16)
    tl.store(x, tl.sum(a @ a))


@triton.jit
def element_kernel(x, n):
    a = tl.load(x + tl.arange(0, 4))
    a[0] = 1.0


@triton.jit
def starred_kernel(x, n):
    a, *_rest = (1.0, 2.0, 3.0)
    tl.store(x, a)


@triton.jit
def nested_kernel(x, n):
    def inner(a):
        return a + 1

    tl.store(x, inner(n))


@triton.jit
def try_kernel(x, n):
    try:  # noqa: SIM105
        tl.store(x, 1.0)
    except ValueError:
        pass


@triton.jit
def walrus_kernel(x, n):
    if (a := n + 1) > 3:
        tl.store(x, a)


@triton.jit
def raise_kernel(x, n):
    if n > 100:
        raise ValueError("never reached, and not compiled either")


@triton.jit
def two_targets_kernel(x, n):
    a = b = 1.0
    tl.store(x, a + b)


@triton.jit
def import_kernel(x, n):
    import math

    tl.store(x, math.pi)


WRITTEN = [
    (break_kernel, "`break`; put the condition into a `while`"), (continue_kernel, "`continue`"),
    (return_in_loop_kernel, "`return` inside a loop"), (chained_kernel, "chained comparison; write .a < b. & .b < c."),
    (lambda_kernel, "a lambda"), (comprehension_kernel, "comprehension over a call"),
    (filtered_kernel, "`if` of a comprehension"), (tuple_loop_kernel, "a loop over a tuple"),
    (else_kernel, "`else` after a loop"), (membership_kernel, "`in`"),
    (product_kernel, "`@`; use tl.dot"), (element_kernel, "assignment to an element"), (starred_kernel, "unpacking with `.`"),
    (nested_kernel, "a function inside a kernel"), (try_kernel, "`try`"), (walrus_kernel, "`:=`"), (raise_kernel, "`raise`"),
    (two_targets_kernel, "chained assignment"), (import_kernel, "`import`"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "says"), WRITTEN, ids=[kernel.__name__ for kernel, _ in WRITTEN])
def test_constructs_without_a_translation_are_refused_with_their_line(kernel, says):
    with pytest.raises(KernelMistake, match=rf"{kernel.__name__}, line \d+ `.*`.*Triton does not compile .*{says}") as caught:
        kernel[(1,)](torch.zeros(16), 4)
    assert caught.value.kind == "refused"


@triton.jit
def guarded_kernel(x, n, FLAG: tl.constexpr):
    if FLAG:
        raise ValueError("the constant branch that is taken")
    else:
        tl.store(x, n)


def test_a_construct_in_a_constant_branch_counts_only_when_that_branch_is_taken():
    guarded_kernel[(1,)](torch.zeros(1), 1, False)
    with pytest.raises(KernelMistake, match=r"line \d+ `raise ValueError.*does not compile `raise`"):
        guarded_kernel[(1,)](torch.zeros(1), 1, True)


# -- types and names ---------------------------------------------------------------------------------------------------


@triton.jit
def loop_type_kernel(x, n):
    total = 0
    for i in range(n):
        total += tl.load(x + i)
    tl.store(x, total)


@triton.jit
def loop_shape_kernel(x, n):
    total = tl.zeros((1,), tl.float32)
    for i in range(n):
        total += tl.load(x + i + tl.arange(0, 4))
    tl.store(x + tl.arange(0, 4), total)


@triton.jit
def loop_bf16_kernel(x, n):
    total = tl.zeros((4,), tl.bfloat16)
    while n > 0:
        total += tl.load(x + tl.arange(0, 4))
        n -= 1


@triton.jit
def branch_type_kernel(x, n):
    a = tl.zeros((4,), tl.float32)
    if n > 3:
        a = a.to(tl.float16)
    tl.store(x + tl.arange(0, 4), a)


@triton.jit
def two_branches_kernel(x, n):
    if tl.program_id(0) > 0:  # noqa: SIM108
        a = 1
    else:
        a = 2.0
    tl.store(x, a)


@triton.jit
def two_types_kernel(x, n):
    tl.store(x, 1 if n > 3 else 2.0)


@triton.jit
def born_in_loop_kernel(x, n):
    for i in range(n):
        last = i
    tl.store(x, last.to(tl.float32))


@triton.jit
def born_in_branch_kernel(x, n):
    if n > 3:
        a = 1.0
    tl.store(x, a)


@triton.jit
def block_condition_kernel(x, n):
    if tl.load(x + tl.arange(0, 4)) > 0:
        tl.store(x, 1.0)


@triton.jit
def block_bound_kernel(x, n):
    for i in range(tl.arange(0, 4)):
        tl.store(x, i)


@triton.jit
def float_bound_kernel(x, n):
    for i in range(0.0, 4.0):
        tl.store(x, i)


@triton.jit
def global_kernel(x, n):
    tl.store(x, NUMBER)


@triton.jit
def helper_kernel(x, n):
    tl.store(x, plain_helper(n))


@triton.jit
def builtin_kernel(x, n):
    tl.store(x, abs(tl.load(x)))


@triton.jit
def enumerate_kernel(x, n):
    tl.store(x, sum((1, 2)))


@triton.jit
def int_of_tensor_kernel(x, n):
    tl.store(x, int(n) * 1.0)


@triton.jit
def f_string_kernel(x, n):
    tl.static_print(f"n is {n}")


@triton.jit
def text_kernel(x, n):
    text = "a text"
    tl.store(x, len(text))


@triton.jit
def shape_kernel(x, n):
    shape = (4, 4)
    tl.store(x, tl.sum(tl.zeros(shape, tl.float32)))


@triton.jit
def print_kernel(x, n):
    print(n)


@triton.jit
def recursive_kernel_helper(n):
    if n < 1:
        return n
    return recursive_kernel_helper(n - 1)


@triton.jit
def recursive_kernel(x, n):
    tl.store(x, recursive_kernel_helper(n))


@triton.jit
def power_kernel(x, n):
    tl.store(x, tl.load(x) ** 2)


@triton.jit
def odd_range_kernel(x, n):
    tl.store(x + tl.arange(0, 12), 0.0)


@triton.jit
def odd_shape_kernel(x, n):
    tl.store(x, tl.sum(tl.zeros((3, 4), tl.float32)))


@triton.jit
def other_without_mask_kernel(x, n):
    tl.store(x, tl.load(x, other=0.0))


@triton.jit
def int_mask_kernel(x, n):
    tl.store(x, tl.load(x, mask=n, other=0.0))


@triton.jit
def static_assert_kernel(x, n):
    tl.static_assert(n > 1)


@triton.jit
def clamp_kernel(x, n):
    tl.store(x, tl.clamp(n, 1, 3))


@triton.jit
def sum_of_scalar_kernel(x, n):
    tl.store(x, tl.sum(n))


@triton.jit
def bf16_division_kernel(x, n):
    a = tl.load(x).to(tl.bfloat16)
    tl.store(x, tl.fdiv(a, a))


MEANT = [
    (loop_type_kernel, "total from int32 to fp32"), (loop_shape_kernel, r"total from fp32\[1\] to fp32\[4\]"),
    (loop_bf16_kernel, r"total from bf16\[4\] to fp32\[4\]"),
    (branch_type_kernel, r"makes a fp16\[4\], without it it is fp32\[4\]"),
    (two_types_kernel, "types int32 and fp32"), (born_in_loop_kernel, "'last'"), (born_in_branch_kernel, "'a'"),
    (block_condition_kernel, "a block of 4 elements is no condition"), (block_bound_kernel, "must be integers"),
    (float_bound_kernel, "must be integers"), (global_kernel, "the global NUMBER, a int; write NUMBER = tl.constexpr.7."),
    (helper_kernel, "the global plain_helper, a function; put @triton.jit on it"), (builtin_kernel, "has no abs.*use tl.abs"),
    (enumerate_kernel, "has no sum"), (int_of_tensor_kernel, r"int\(\) is for constants"), (f_string_kernel, "f-string"),
    (text_kernel, "not the text 'a text'"), (shape_kernel, "constexpr"),
    (print_kernel, "needs a text first"), (recursive_kernel, "calls itself"), (power_kernel, r"\*\*"),
    (odd_range_kernel, "power of 2"), (odd_shape_kernel, "power of 2"), (other_without_mask_kernel, "without `mask`"),
    (int_mask_kernel, "mask is made of comparisons"), (static_assert_kernel, "static_assert is for constants"),
    (clamp_kernel, "Only floating point clamp"), (sum_of_scalar_kernel, "only a block can be reduced"),
    (bf16_division_kernel, "no GPU divides in bf16"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "says"), MEANT, ids=[kernel.__name__ for kernel, _ in MEANT])
def test_types_and_names_that_the_compiler_refuses_are_refused(kernel, says):
    with pytest.raises(KernelMistake, match=rf"line \d+ `.*{says}"):
        kernel[(1,)](torch.ones(16), 4)


def test_two_branches_that_disagree_are_found_when_both_have_been_taken():
    with pytest.raises(KernelMistake, match="one branch makes a int32, without it it is fp32"):
        two_branches_kernel[(2,)](torch.zeros(1), 1)


@triton.jit
def seen_kernel(x):
    tl.store(x, CONSTANT + math.pi)


def test_constants_and_modules_may_be_seen():
    x = torch.zeros(1)
    seen_kernel[(1,)](x)
    assert abs(x.item() - 7 - math.pi) < 1e-6


@triton.jit
def late_kernel(x):
    tl.store(x, LATE)  # noqa: F821


def test_a_global_is_looked_at_when_it_is_used(monkeypatch):
    monkeypatch.setitem(globals(), "LATE", 3)
    x = torch.zeros(1)
    with pytest.raises(KernelMistake, match="the global LATE"):
        late_kernel[(1,)](x)
    monkeypatch.setitem(globals(), "LATE", tl.constexpr(4))
    late_kernel[(1,)](x)
    assert x.item() == 4.0


# -- what only a compiled kernel can do --------------------------------------------------------------------------------


@triton.jit
def assembly_kernel(x, n):
    at = tl.arange(0, 4)
    a = tl.load(x + at)
    tl.store(x + at, tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [a], dtype=tl.float32, is_pure=True, pack=1))


def test_inline_assembly_is_refused_by_its_text():
    with pytest.raises(NotEmulated, match=r"line \d+ .*inline assembly `mov\.b32 \$0, \$1;` runs only compiled"):
        assembly_kernel[(1,)](torch.zeros(4), 1)


def test_an_operation_that_is_not_known_is_refused_by_its_name():
    from course_lib.interpreter.numbers.builder import CourseBuilder

    with pytest.raises(NotEmulated, match="the operation warp_dance is not emulated"):
        CourseBuilder().create_warp_dance()


@gluon.jit
def gluon_kernel(x, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [4], [0])
    at = gl.arange(0, BLOCK, layout=layout)
    gl.store(x + at, gl.load(x + at) + 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU runs it")
def test_a_gluon_kernel_is_refused_with_a_sentence():
    with pytest.raises(NotEmulated, match="gluon_kernel is a Gluon kernel, and Gluon runs only compiled; run it on a GPU"):
        gluon_kernel[(1,)](torch.zeros(128), 128)
