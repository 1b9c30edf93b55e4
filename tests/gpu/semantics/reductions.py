"""Reductions, scans and sorts: what becomes of NaN, of ties, of a bf16 sum, and in which type it is added up."""

from collections.abc import Sequence

import numpy as np

from .bits import Bits, floats, integers, random_bits, uniform
from .probe import Exact, Open, Probe, Rule, Ulp, Within
from .reduction_kernels import affine_kernel, indices_kernel, scan_kernel, topk_kernel, value_kernel

NAN, INF = float("nan"), float("inf")


def rows_with_nan(dtype: str, cols: int) -> Bits:
    """[16, cols]: NaN in each kind of place, infinities, ties, zeros of both signs."""
    x = uniform(dtype, (16, cols), 71, 7).values()
    for row, places in enumerate(([0], [cols // 2], [cols - 1], [1, cols - 2])):
        x[row, places] = NAN
    x[4, :] = NAN
    x[5, 1:] = NAN
    x[6, :-1] = NAN
    x[7, 3], x[7, 0] = INF, NAN
    x[8, 3], x[8, 0] = -INF, NAN
    x[9, [1, cols - 1]] = INF
    x[10, [1, cols - 1]] = -INF
    x[11, :], x[11, ::2] = 0.0, -0.0
    x[12, :], x[12, 1::2] = 0.0, -0.0
    x[13, :] = 0.25
    x[14, :] = -INF
    return floats(dtype, x)


def rows_with_ties(dtype: str, cols: int) -> Bits:
    """[16, cols]: few different values, so that the largest and the smallest come often."""
    return (
        floats(dtype, np.random.default_rng(72).integers(-2, 3, (16, cols)))
        if dtype[0] != "i"
        else integers(dtype, np.random.default_rng(72).integers(-2, 3, (16, cols)))
    )


def distinct_rows(dtype: str, cols: int) -> Bits:
    """[16, cols]: no value twice in a row."""
    return floats(dtype, np.random.default_rng(73).permuted(np.tile(np.arange(cols) - cols // 2, (16, 1)), axis=1))


def whole_sums(dtype: str, cols: int) -> Bits:
    """[16, cols] whole numbers whose sums float32 holds and bf16 and fp16 do not (above 256 and 2048): shows each rounding."""
    top = {"fp32": 128, "fp16": 48, "bf16": 16}[dtype]
    return floats(dtype, np.random.default_rng(74).integers(0, top, (16, cols)))


def _magnitudes(inputs: Sequence[Bits]) -> np.ndarray:
    return np.abs(np.nan_to_num(inputs[0].values(), posinf=0, neginf=0)).sum(1)


def _no_nan(inputs: Sequence[Bits]) -> np.ndarray:
    return ~np.isnan(inputs[0].values()).any(1)


_LANES = (
    "with a NaN in the row the comparison has no order, lanes end with different answers, and which of them is stored depends on "
    "the layout: of 128 NaNs the index is 31 in fp32 and 127 in fp16"
)


def _running(inputs: Sequence[Bits]) -> np.ndarray:
    return np.abs(inputs[0].values()).cumsum(1)


def _row_sums(inputs: Sequence[Bits]) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return inputs[0].values().sum(1)


def probes() -> list[Probe]:
    found = []

    def add(
        name: str, kernel: object, bits: Bits, outputs: list, rule: Rule | None = None, truth: object = None, **meta: object
    ) -> None:
        rows, cols = bits.data.shape
        found.append(
            Probe(name, kernel, lambda: [bits], outputs, {"ROWS": rows, "COLS": cols, **meta}, rule=rule or Exact(), truth=truth)
        )

    for dtype in ("fp32", "fp16", "bf16"):
        for cols in (16, 128, 1024):
            with_nan = rows_with_nan(dtype, cols)
            for op in ("sum", "max", "min", "argmax", "argmin"):
                # equal to a unit of the sum of magnitudes: the order of adding is the compiler's
                rule: Rule = Exact(_no_nan, _LANES) if op[0] == "a" else Exact()
                if op == "sum":
                    rule = Within({"fp32": 2.0**-20, "fp16": 2.0**-8, "bf16": 2.0**-5}[dtype], _magnitudes)
                add(
                    f"{dtype} {op} of {cols} with NaN",
                    value_kernel,
                    with_nan,
                    [("int32" if op[0] == "a" else dtype, (16,))],
                    rule,
                    OP=op,
                )
            for op in ("argmax", "argmin"):
                add(f"{dtype} {op} of {cols} with ties", value_kernel, rows_with_ties(dtype, cols), [("int32", (16,))], OP=op)
                free = Open("tie_break_left=False leaves the choice to the compiler")
                add(
                    f"{dtype} {op} fast of {cols} with ties",
                    value_kernel,
                    rows_with_ties(dtype, cols),
                    [("int32", (16,))],
                    free,
                    OP=f"{op} fast",
                )
                few = distinct_rows(dtype, min(cols, 128))
                add(
                    f"{dtype} {op} fast of {min(cols, 128)} distinct, for {cols}",
                    value_kernel,
                    few,
                    [("int32", (16,))],
                    OP=f"{op} fast",
                )
            for largest in (True, False):
                name = f"{dtype} {'max' if largest else 'min'} of {cols} with indices"
                rule = Exact(_no_nan, _LANES)
                add(name, indices_kernel, with_nan, [(dtype, (16,)), ("int32", (16,))], rule, LARGEST=largest)
            for op in ("sort", "sort descending"):
                add(
                    f"{dtype} {op} of {cols}",
                    scan_kernel,
                    distinct_rows(dtype, min(cols, 128)),
                    [(dtype, (16, min(cols, 128)))],
                    OP=op,
                )
                # a sorting network of maxima and minima, which drop a NaN or spread it, but by the network, not by the layout
                add(f"{dtype} {op} of {cols} with NaN", scan_kernel, with_nan, [(dtype, (16, cols))], OP=op)
            wholes = whole_sums(dtype, cols)
            add(
                f"{dtype} sum in fp32 of {cols} whole numbers",
                value_kernel,
                wholes,
                [("fp32", (16,))],
                truth=_row_sums,
                OP="sum in fp32",
            )
            # each step of a 16-bit sum rounds, so its order shows: within a unit of the sum for every step
            rule = {"fp32": Exact(), "fp16": Ulp(8), "bf16": Ulp(8)}[dtype]
            add(f"{dtype} sum of {cols} whole numbers", value_kernel, wholes, [(dtype, (16,))], rule, _row_sums, OP="sum")
        near = uniform(dtype, (16, 128), 75, 7)
        eps = {"fp32": 2.0**-20, "fp16": 2.0**-8, "bf16": 2.0**-5}[dtype]
        for op in ("cumsum", "cumsum reverse"):
            scale = _running if op == "cumsum" else (lambda inputs: np.abs(inputs[0].values())[:, ::-1].cumsum(1)[:, ::-1])
            kind = "fp32" if dtype == "bf16" else dtype
            add(
                f"{dtype} {op}",
                scan_kernel,
                near,
                [(kind, (16, 128))],
                Within(2.0**-20 if dtype != "fp16" else eps, scale),
                OP=op,
            )
        add(
            f"{dtype} cumsum with NaN",
            scan_kernel,
            floats(dtype, np.where(np.arange(128) == 77, NAN, np.ones((16, 1)))),
            [(dtype, (16, 128))],
            OP="cumsum",
        )
        signs = floats(dtype, np.random.default_rng(76).choice([-1.0, 1.0, 2.0, 0.5], (16, 16)))
        add(f"{dtype} cumprod", scan_kernel, signs, [(dtype, (16, 16))], OP="cumprod")
        add(f"{dtype} product by a function", value_kernel, signs, [(dtype, (16,))], OP="product")
        for op in ("larger magnitude", "larger magnitude reverse"):
            add(
                f"{dtype} scan: {op}",
                scan_kernel,
                distinct_rows(dtype, 128),
                [(dtype, (16, 128))],
                Open("equal magnitudes of both signs: which comes first is the order of combining"),
                OP=op,
            )
        add(
            f"{dtype} reduce: larger magnitude",
            value_kernel,
            _distinct_magnitudes(dtype),
            [(dtype, (16,))],
            OP="larger magnitude",
        )
        add(
            f"{dtype} scan: distinct magnitudes",
            scan_kernel,
            _distinct_magnitudes(dtype),
            [(dtype, (16, 64))],
            OP="larger magnitude",
        )
        add(
            f"{dtype} scan: distinct magnitudes, reverse",
            scan_kernel,
            _distinct_magnitudes(dtype),
            [(dtype, (16, 64))],
            OP="larger magnitude reverse",
        )
        add(f"{dtype} topk", topk_kernel, distinct_rows(dtype, 64), [(dtype, (16, 8))], K=8)
    for dtype in ("int32", "int8", "uint8", "int64"):
        bits = Bits(dtype, random_bits(dtype, (16, 128), 77).data)
        wider = {"int8": "int32", "uint8": "uint32"}.get(dtype, dtype)
        for op in ("sum", "max", "min", "xor_sum", "reduce_or"):
            kind = wider if op == "sum" else "int32" if op in ("max", "min") and dtype in ("int8", "uint8") else dtype
            add(f"{dtype} {op}", value_kernel, bits, [(kind, (16,))], OP=op)
        for op in ("cumsum", "cumsum reverse", "sort", "sort descending"):
            add(f"{dtype} {op}", scan_kernel, bits, [(wider if op[0] == "c" else dtype, (16, 128))], OP=op)
        for op in ("argmax", "argmin"):
            add(f"{dtype} {op}", value_kernel, bits, [("int32", (16,))], OP=op)
        add(f"{dtype} topk", topk_kernel, bits, [(dtype, (16, 8))], K=8)
    for reverse in (False, True):
        x, y = (
            floats("fp32", np.random.default_rng(78).choice([1.0, -1.0, 2.0, 0.5], 32)),
            floats("fp32", np.random.default_rng(79).integers(-4, 5, 32)),
        )
        found.append(
            Probe(
                f"scan of pairs{' reverse' if reverse else ''}",
                affine_kernel,
                lambda x=x, y=y: [x, y],
                [("fp32", (32,)), ("fp32", (32,))],
                {"REVERSE": reverse, "BLOCK": 32},
            )
        )
    return found


def _distinct_magnitudes(dtype: str) -> Bits:
    order = np.random.default_rng(80).permuted(np.tile(np.arange(1, 65), (16, 1)), axis=1)
    return floats(dtype, order * np.random.default_rng(81).choice([-1, 1], order.shape))
