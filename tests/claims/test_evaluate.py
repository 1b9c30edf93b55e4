"""The arithmetic of every claim holds to its printed digits, a broken digit is seen, and nothing but arithmetic is done."""

import dataclasses

import pytest

from course_lib.claims import ArithmeticRefused, all_claims, evaluate, evaluate_check
from course_lib.claims.checks import Check
from course_lib.claims.evaluate import half_unit, rounds_to

PARTS = [(one.id, check) for one in all_claims() for check in one.checks if check.kind == "py"]


def test_every_py_check_holds_to_its_printed_digits():
    assert len(PARTS) == 241
    broken = {f"{claim_id}: {check}": evaluate_check(check) for claim_id, check in PARTS}
    assert {text: done for text, done in broken.items() if not done.holds} == {}


def test_a_digit_broken_anywhere_is_seen():
    """The last printed digit of each check, one up and one down; a check that holds for both would be no check."""
    for claim_id, check in PARTS:
        unit = 2 * half_unit(check.printed)
        mantissa, letter, exponent = check.printed.partition("e")
        scale = float(f"1e{exponent or 0}")
        for step in (-2, 2):  # two units, since a value in the middle may be printed either way
            moved = float(check.printed) + step * unit
            digits = len(mantissa.partition(".")[2])
            broken = f"{moved / scale:.{digits}f}{letter}{exponent}"
            changed = dataclasses.replace(check, text=f"{check.expression} => {broken}")
            assert not evaluate_check(changed).holds, f"{claim_id}: {changed}"


VALUES = [
    ("2*8*32*4096*4096", 8589934592),
    ("max(8.59e9/989.4e12, 37.75e6/3.35e12)*1e6", 11.268656716417911),
    ("min(3, 2, 1) + log2(8) - -4", 8.0),
    ("7//2 + 7%4 + 2**-1", 6.5),
    ("-(1e9)**2/(2*2**64)", -0.027105054312137611),
]


@pytest.mark.parametrize(("expression", "value"), VALUES)
def test_the_value_of(expression, value):
    assert evaluate(expression) == pytest.approx(value, rel=1e-15)


REFUSED = [
    ("9**9**9", "the exponent in '9 ** 9 ** 9' is beyond 100"),
    ("10**100*10**100", "is not a real number up to 1e+100"),
    ("1e999", "is not a real number up to"),
    ("(-8)**0.5", "is not a real number"),
    ("1/0", "'1 / 0' has no value: division by zero"),
    ("log2(0)", "'log2(0)' has no value"),
    ("max(1)", "'max(1)' has 1 arguments; max takes 2 or more"),
    ("log2(1, 2)", "takes 1"),
    ("max(1, 2, key=abs)", "is not allowed"),
    ("max(*[1, 2])", "is not allowed"),
    ("abs(-1)", "'abs(-1)' is not allowed in a check; it may hold numbers"),
    ("__import__('os').system('true')", "is not allowed"),
    ("(1).real", "is not allowed"),
    ("pi", "is not allowed"),
    ("True + 1", "'True' is not allowed"),
    ("'a' * 3", "is not allowed"),
    ("1 if 1 else 2", "is not allowed"),
    ("[1][0]", "is not allowed"),
    ("(x := 3)", "is not allowed"),
    ("1 << 9", "is not allowed"),
    ("2j", "is not allowed"),
    ("1 +", "is not arithmetic"),
    ("import os", "is not arithmetic"),
    ("1\n2", "is not arithmetic"),
    ("", "is not arithmetic"),
    ("1+" * 100 + "1", "the expression has 201 characters; at most 200"),
    ("(" * 199, "is not arithmetic"),
]


@pytest.mark.parametrize(("expression", "says"), REFUSED)
def test_refuses(expression, says):
    with pytest.raises(ArithmeticRefused) as refused:
        evaluate(expression)
    assert says in str(refused.value)
    done = evaluate_check(Check("py", f"{expression} => 1"))
    assert (done.value, done.holds) == (None, False)
    assert done.problem


@pytest.mark.parametrize(("value", "printed", "holds"), [
    (2.2739, "2.274", True), (2.2744, "2.274", True), (2.2744, "2.2740", False), (2.2746, "2.274", False),
    (3.698, "3.70", True), (3.692, "3.70", False), (3.692, "3.7", True),
    (8589934592, "8.59e9", True), (8.584e9, "8.59e9", False), (281.25, "281.3", True), (281.25, "281.2", True),
    (37748736, "37748736", True), (37748737, "37748736", False), (-0.5, "-0.5", True), (0.0265, "2.7e-2", True),
])  # fmt: skip
def test_a_value_rounds_to_what_is_printed(value, printed, holds):
    assert rounds_to(value, printed) is holds


@pytest.mark.parametrize("printed", ["", "about 3", "3 ms", "1e999", "nan", "inf", "0x10", "1_000", ".", "1e200"])
def test_what_is_printed_must_be_a_number(printed):
    with pytest.raises(ArithmeticRefused):
        rounds_to(1.0, printed)
