"""Casts between all pairs of types, and bits read as another type; rounding.py has the roundings."""

from typing import Any

import numpy as np

from ..values import WRAPPED, Value, without
from .numpy_types import computed, from_memory, stored, to_memory
from .rounding import float_to_int, to_float


class Casts:
    """Mixin of the builder. `self.launch` is the running Launch."""

    launch: Any

    def _cast(self, src: Value, dst_type: Any, toward_zero: bool = False) -> Value:
        dtype = dst_type.scalar
        if dtype.is_floating():
            data = to_float(src.data, dtype, toward_zero)
        elif src.dtype.scalar.is_floating():
            data = float_to_int(src.data, computed(dtype))
        else:
            data = src.data.astype(computed(dtype))
        whole = not dtype.is_floating() and dtype.int_bitwidth >= 32 and (dtype.is_int_signed() or dtype.int_bitwidth > 32)
        return Value(data, dtype, doubt=src.doubt if whole else without(src.doubt, WRAPPED))  # low bits are right: a hash

    def create_si_to_fp(self, src: Value, dst_type: Any) -> Value:
        return self._cast(src, dst_type)

    create_ui_to_fp = create_fp_to_si = create_fp_to_ui = create_fp_ext = create_fp_trunc = create_si_to_fp

    def create_int_cast(self, src: Value, dst_type: Any, is_signed: bool) -> Value:
        result = self._cast(src, dst_type)
        if dst_type.scalar.int_bitwidth > src.dtype.scalar.int_bitwidth:
            result.bound = src.bound
        return result

    def create_fp_to_fp(self, src: Value, dst_type: Any, rounding_mode: Any) -> Value:
        before, after, toward_zero = src.dtype.scalar, dst_type.scalar, "RTZ" in str(rounding_mode)
        if after.is_fp8() and (before.is_fp8() or before.is_fp64()):
            raise self.launch.mistake("refused", f"no compiler casts {before} to {after}; go through tl.float32")
        if toward_zero and after.is_fp8() and after.name not in ("fp8e5", "fp8e4b15"):
            raise self.launch.mistake("refused", f"a cast to {after} rounds to nearest only; drop fp_downcast_rounding")
        return self._cast(src, dst_type, toward_zero)

    def create_bitcast(self, src: Value, dst_type: Any) -> Value:
        target = dst_type.scalar
        bits = to_memory(src.data, src.dtype)
        if target.is_ptr() and bits.dtype.itemsize < 8:
            raise self.launch.mistake("refused", f"{src.dtype.scalar} is too narrow for an address; use an int64")
        data = from_memory(bits.view(stored(target)), target) if not target.is_ptr() else bits.view(np.uint64)
        return Value(data, target, src.arg, src.doubt)

    create_int_to_ptr = create_ptr_to_int = create_bitcast
