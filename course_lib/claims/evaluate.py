"""Do the arithmetic of a `py:` check, and nothing else: the text is data, so it is walked, never executed.

Allowed  numbers, + - * / // % **, unary minus, parentheses, and max, min, log2 by name. No other name, call or attribute.
Limits   MAX_LENGTH characters, exponents up to MAX_EXPONENT, values up to MAX_VALUE: 9**9**9 is refused, not computed.
Rule     a check holds when its value rounds to the number as printed: |value - printed| <= half a unit of the last printed
         digit. Trailing zeros count. 2.274 stands for 2.2735 to 2.2745, 3.70 for 3.695 to 3.705, 8.59e9 for 8.585e9 to
         8.595e9, 264 for 263.5 to 264.5. A value in the middle, 281.25, may be printed as 281.2 or 281.3.
"""

import ast
import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass

from .checks import Check

MAX_LENGTH = 200
MAX_EXPONENT = 100
MAX_VALUE = 1e100
_TIE = 1e-9  # of half a unit: what double precision may add to a value that lies in the middle

_BINARY: dict[type, Callable] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_FUNCTIONS: dict[str, tuple[Callable, int]] = {"max": (max, 2), "min": (min, 2), "log2": (math.log2, 1)}  # least arguments
_NUMBER = re.compile(r"-?(\d+)(?:\.(\d*))?(?:e([+-]?\d+))?", re.IGNORECASE)


class ArithmeticRefused(ValueError):
    """The text is not arithmetic of the allowed kind, or its value cannot be had."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A py: check done here: its value, and whether that is the printed number. `problem` says why there is no value."""

    value: float | None
    holds: bool
    problem: str = ""


def evaluate(expression: str) -> int | float:
    """ "max(8.59e9/989.4e12, 37.75e6/3.35e12)*1e6" -> 11.268...  Raises ArithmeticRefused."""
    if len(expression) > MAX_LENGTH:
        raise ArithmeticRefused(f"the expression has {len(expression)} characters; at most {MAX_LENGTH} are evaluated")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ArithmeticRefused(f"{expression!r} is not arithmetic: {getattr(error, 'msg', error)}") from None
    return _value(tree.body)


def evaluate_check(check: Check) -> Evaluated:
    """Value of a py: part, and whether it holds to the printed digits. Never raises for what the text says."""
    try:
        value = evaluate(check.expression)
        return Evaluated(value, rounds_to(value, check.printed))
    except ValueError as error:  # ArithmeticRefused, or a part without "=> number"
        return Evaluated(None, False, str(error))


def rounds_to(value: float, printed: str) -> bool:
    """Whether value is the printed number, in its digits: 2.2744 rounds to "2.274", and not to "2.2740"."""
    half = half_unit(printed)
    return abs(value - float(printed)) <= half * (1 + _TIE)


def half_unit(printed: str) -> float:
    """Half a unit of the last printed digit: "3.70" -> 0.005, "8.59e9" -> 5e6, "264" -> 0.5. Raises for what is no number."""
    match = _NUMBER.fullmatch(printed)
    if match is None:
        raise ArithmeticRefused(f"{printed!r} is not a number such as 295.3 or 8.59e9; words belong in a part of their own")
    decimals, exponent = len(match[2] or ""), int(match[3] or 0)
    if abs(exponent) > MAX_EXPONENT:
        raise ArithmeticRefused(f"the exponent of {printed} is beyond {MAX_EXPONENT}")
    return float(f"5e{exponent - decimals - 1}")


def _value(node: ast.expr) -> int | float:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _bounded(node.value, node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) > MAX_EXPONENT:
            raise ArithmeticRefused(f"the exponent in {_text(node)} is beyond {MAX_EXPONENT}")
        return _bounded(_tried(lambda: _BINARY[type(node.op)](left, right), node), node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords:
        function, least = _FUNCTIONS[node.func.id]
        values = [_value(argument) for argument in node.args]
        if len(values) < least or (least == 1 and len(values) > 1):
            takes = f"{least} or more" if least > 1 else "1"
            raise ArithmeticRefused(f"{_text(node)} has {len(values)} arguments; {node.func.id} takes {takes}")
        return _bounded(_tried(lambda: function(*values), node), node)
    allowed = "numbers, + - * / // % **, parentheses, max, min and log2"
    raise ArithmeticRefused(f"{_text(node)} is not allowed in a check; it may hold {allowed}")


def _tried(compute: Callable[[], float], node: ast.expr) -> float:
    try:
        return compute()
    except (ArithmeticError, ValueError) as error:
        raise ArithmeticRefused(f"{_text(node)} has no value: {error}") from None


def _bounded(value: float, node: ast.expr) -> int | float:
    if isinstance(value, complex) or not abs(value) <= MAX_VALUE:  # "not <=" refuses NaN as well
        raise ArithmeticRefused(f"the value of {_text(node)} is not a real number up to {MAX_VALUE:g}")
    return value


def _text(node: ast.expr) -> str:
    text = ast.unparse(node)
    return repr(text if len(text) <= 60 else text[:57] + "...")
