"""tl.dot as the builder is asked for it: which accumulators there are, what is counted, where doubt goes; numbers: dot.py."""

import math
from typing import Any

import numpy as np

from ..values import Doubt, Value, joined
from .dot import product


class Products:
    """Mixin of the builder. `self.launch` is the running Launch."""

    launch: Any

    def create_dot(self, a: Value, b: Value, d: Value, input_precision: Any, max_num_imprecise_acc: Any) -> Value:
        """See dot.py for the numbers; a doubtful factor makes its whole row or column of the product doubtful."""
        wanted = {"int8": "int32", "fp64": "fp64"}.get(a.dtype.scalar.name)
        into = d.dtype.scalar
        if (wanted and into.name != wanted) or (into.is_int() and (a.dtype.scalar.is_fp8() or a.dtype.scalar.is_fp16())):
            raise self.launch.mistake("refused", f"tl.dot of {a.dtype.scalar} cannot add up in {into}; use {wanted or 'fp32'}")
        data, kind = product(a.data, b.data, d.data, a.dtype.scalar.name, input_precision)
        if self.launch.account is not None:
            *batch, m, k = a.data.shape
            self.launch.account.dot(kind, 2 * math.prod(batch) * m * b.data.shape[-1] * k, self.launch.line())
        doubt = None
        if a.doubt is not None or b.doubt is not None or d.doubt is not None:
            rows = np.bitwise_or.reduce(a.doubt.kinds, axis=-1, keepdims=True) if a.doubt else np.uint8(0)
            columns = np.bitwise_or.reduce(b.doubt.kinds, axis=-2, keepdims=True) if b.doubt else np.uint8(0)
            origins = {k: v for side in (d, b, a) if side.doubt for k, v in side.doubt.origins.items()}
            doubt = joined(data.shape, d.doubt, Doubt(np.broadcast_to(rows | columns, data.shape), origins))
        return Value(data, d.dtype.scalar, doubt=doubt)
