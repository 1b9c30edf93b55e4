"""Triton's frontend takes most of the time of an interpreted launch; here it is spared work that changes nothing.

Shapes      a block's shape, its size and its name are worked out once for each shape, not again for each operation
Broadcasts  two blocks of one shape, or two scalars, are left as they are
Casts       the same, with a shorter error
The frontend's own code decides everything else, and every shape that is new to it.
"""

from typing import Any

import triton.language as tl
from triton.language.semantic import TritonSemantic

_new_block_type, _new_tensor = tl.block_type.__init__, tl.tensor.__init__
_PLAIN = {int}
_shapes: dict[tuple[int, ...], tuple[Any, int, str, Any, Any]] = {}


class CourseSemantic(TritonSemantic):
    """Triton's semantic, but quick where there is nothing to do."""

    def broadcast_impl_value(self, lhs: Any, rhs: Any) -> tuple[Any, Any]:
        left, right = lhs.type, rhs.type
        if left.shape is right.shape if left.is_block() and right.is_block() else left.is_block() is right.is_block():
            return lhs, rhs
        return super().broadcast_impl_value(lhs, rhs)

    def cast(self, input: Any, dst_ty: Any, *args: Any, **kwargs: Any) -> Any:
        """A cast that Triton does not have names two types; Triton itself would print every element of the block."""
        try:
            return super().cast(input, dst_ty, *args, **kwargs)
        except AssertionError as error:
            if not str(error).startswith("cannot cast"):
                raise
            raise AssertionError(f"cannot cast {input.type.scalar} to {dst_ty.scalar}") from error


def block_type_init(self: Any, element_ty: Any, shape: Any) -> None:
    """In place of tl.block_type.__init__: the same attributes, from the first block of this shape."""
    if not isinstance(shape, (list, tl.tuple)):
        return _new_block_type(self, element_ty, shape)
    sizes = tuple([size.value if isinstance(size, tl.constexpr) else size for size in shape])
    if not _PLAIN.issuperset(map(type, sizes)):  # 16.0 is equal to 16 and not allowed
        return _new_block_type(self, element_ty, shape)
    known = _shapes.get(sizes)
    if known is None:
        _new_block_type(self, element_ty, shape)
        first = object.__new__(tl.tensor)
        _new_tensor(first, None, self)
        name = self.name[: self.name.rindex(str(element_ty))]
        known = _shapes[sizes] = (self.shape, self.numel, name, first.shape, first.numel)
    self.element_ty = element_ty
    self.shape, self.numel, name, self.shape_of_tensor, self.numel_of_tensor = known
    self.name = f"{name}{element_ty}>"


def tensor_init(self: Any, handle: Any, type: Any) -> None:
    """In place of tl.tensor.__init__, likewise."""
    known = type.__dict__
    if "shape_of_tensor" not in known:
        _new_tensor(self, handle, type)
        return
    self.handle, self.type, self.dtype = handle, type, known["element_ty"]
    self.shape, self.numel = known["shape_of_tensor"], known["numel_of_tensor"]


def planned() -> list[tuple[Any, str, Any]]:
    """What `language.apply` puts in place: (owner, name, replacement)."""
    return [(tl.block_type, "__init__", block_type_init), (tl.tensor, "__init__", tensor_init)]
