"""Functions of libdevice by the symbol that compiled code would call (__nv_tanhf, __nv_pow, ...), as numpy computes them.

A float32 function is computed in float64 and rounded once, so it is nearer to the exact value than NVIDIA's own, which
promises a few units of the last place. What numpy does not have (Bessel functions, inverse error functions, ...) and the
directed roundings are refused by name.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

_f64 = np.float64


def _each(function: Callable[[float], float]) -> Callable:
    """math's function of one number, NaN and infinity handled by it or turned into NaN where it raises."""

    def safe(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return np.vectorize(safe, otypes=[_f64])


def _gamma(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else math.gamma(x)


def _round(x: np.ndarray) -> np.ndarray:
    """Halves away from zero, as C does (numpy takes them to even)."""
    whole = np.trunc(x)
    return np.copysign(np.abs(whole) + (np.abs(x - whole) >= 0.5), x)


def _sinpi(x: np.ndarray) -> np.ndarray:
    """sin(pi * x): x is brought into -1..1 first, and whole numbers give an exact zero."""
    part = np.fmod(x, 2.0)
    return np.where(np.fmod(part, 1.0) == 0, np.copysign(0.0, x), np.sin(np.pi * part))


def _cospi(x: np.ndarray) -> np.ndarray:
    part = np.fmod(x, 2.0)
    return np.where(np.fmod(np.abs(part), 1.0) == 0.5, 0.0, np.cos(np.pi * part))


def _pow(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.power(x, y.astype(_f64))


FLOAT: dict[str, Callable] = {
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(10.0, x), "expm1": np.expm1,
    "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "rcbrt": lambda x: 1 / np.cbrt(x),
    "erf": _each(math.erf), "erfc": _each(math.erfc), "tgamma": _each(_gamma), "lgamma": _each(math.lgamma),
    "normcdf": lambda x: 0.5 * _each(math.erfc)(-x / math.sqrt(2)),
    "fabs": np.abs, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint, "nearbyint": np.rint, "round": _round,
    "sinpi": _sinpi, "cospi": _cospi,
    "saturate": lambda x: np.fmin(np.fmax(x, 0.0), 1.0),
    "pow": _pow, "powi": _pow, "atan2": np.arctan2, "hypot": np.hypot, "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "fmod": np.fmod, "copysign": np.copysign, "fdim": lambda x, y: np.where(np.isnan(x) | np.isnan(y), np.nan, np.fmax(x - y, 0)),
    "fmax": np.fmax, "fmin": np.fmin, "ldexp": np.ldexp, "scalbn": np.ldexp,
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z), "logb": lambda x: np.floor(np.log2(np.abs(x))),
    # round to nearest: done in float64 and rounded once, which is the same
    "fadd_rn": np.add, "dadd_rn": np.add, "fsub_rn": np.subtract, "dsub_rn": np.subtract, "fmul_rn": np.multiply,
    "dmul_rn": np.multiply, "fdiv_rn": np.divide, "ddiv_rn": np.divide, "fsqrt_rn": np.sqrt, "dsqrt_rn": np.sqrt,
    "frcp_rn": np.reciprocal, "drcp_rn": np.reciprocal, "frsqrt_rn": lambda x: 1 / np.sqrt(x),
    "fast_sin": np.sin, "fast_cos": np.cos, "fast_tan": np.tan, "fast_exp": np.exp, "fast_exp10": lambda x: np.power(10.0, x),
    "fast_log": np.log, "fast_log2": np.log2, "fast_log10": np.log10, "fast_pow": _pow, "fast_fdivide": np.divide,
}  # fmt: skip
WHOLE: dict[str, Callable] = {  # with an integer result, or from integers
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "finite": np.isfinite, "signbit": np.signbit,
    "llrint": np.rint, "llround": _round, "abs": np.abs, "llabs": np.abs,
    "float2int_rz": np.trunc, "float2int_rn": np.rint, "float2int_rd": np.floor, "float2int_ru": np.ceil,
    "double2int_rz": np.trunc, "double2int_rn": np.rint, "double2int_rd": np.floor, "double2int_ru": np.ceil,
    "int2float_rn": lambda x: x, "int2double_rn": lambda x: x, "uint2float_rn": lambda x: x, "uint2double_rn": lambda x: x,
    "popc": lambda x: np.bitwise_count(x.view(f"u{x.itemsize}")),
    "popcll": lambda x: np.bitwise_count(x.view(f"u{x.itemsize}")),
    "clz": lambda x: _leading_zeros(x), "clzll": lambda x: _leading_zeros(x),
}  # fmt: skip


def _leading_zeros(x: np.ndarray) -> np.ndarray:
    bits = x.itemsize * 8
    return np.array([bits - int(v).bit_length() for v in x.view(f"u{x.itemsize}").ravel()]).reshape(x.shape)


def emulation(symbol: str) -> Callable[..., Any] | None:
    """__nv_<name>[f|d] -> a function of numpy arrays with a result to be cast, or None for a symbol not known here."""
    name = symbol.removeprefix("__nv_").removeprefix("__ocml_").removesuffix("_f32").removesuffix("_f64")
    for known in (name, name[:-1] if name[-1:] in "fd" else name):
        if known in FLOAT:
            return lambda *args, op=FLOAT[known]: op(*(a.astype(_f64) if a.dtype.kind == "f" else a for a in args))
        if known in WHOLE:
            return WHOLE[known]
    return None
