"""Types through loops and branches: the compiler wants each name to keep its type, and forgets names born in one branch.

Python does neither, so a kernel that adds floats to `total = 0` in a loop would run here and not compile.
"""

from collections.abc import Iterable
from typing import Any

import triton.language as tl

from ..numbers.builder import builder


class Loop:
    """Around one loop: what was known before it, and the types that its first turn must keep."""

    __slots__ = ("before", "names")

    def __init__(self, scope: dict[str, Any], names: Iterable[str]):
        self.before = {name: kind_of(scope[name]) for name in names if name in scope}
        self.names = tuple(self.before)

    def turn(self, scope: dict[str, Any]) -> None:
        """At the end of the body: once, for as the first turn leaves the types the others keep them."""
        for name in self.names:
            old, new = self.before[name], kind_of(scope.get(name))
            if old != new and old is not None:
                raise builder.launch.mistake(
                    "refused",
                    f"the loop changes {name} from {_words(old)} to {_words(new)}, and compiled code has one type for it: "
                    f"start with that type, or convert with .to() before the end of the loop",
                )
        self.names = ()

    def fresh(self, name: str) -> bool:
        """Was the name born in the loop? It does not exist after it."""
        return name not in self.before


class Branch:
    """Around one `if` whose condition is known only at run time."""

    __slots__ = ("before", "record", "taken")

    def __init__(self, taken: bool, record: dict[str, Any]):
        self.taken, self.record, self.before = taken, record, {}

    def __bool__(self) -> bool:
        return self.taken

    def enter(self, scope: dict[str, Any], names: Iterable[str]) -> None:
        self.before = {name: kind_of(scope[name]) for name in names if name in scope}

    def leave(self, scope: dict[str, Any], names: Iterable[str]) -> None:
        """After it: names keep their types, and a name born in both branches has one type in both."""
        if self.record.get("launch") is not builder.launch:
            self.record.clear()
            self.record["launch"] = builder.launch
        side, other = ("body", "else") if self.taken else ("else", "body")
        for name in names:
            if name not in scope:
                continue
            new = kind_of(scope[name])
            self.record[side, name] = new
            old = self.before.get(name, self.record.get((other, name)))
            if old is not None and new != old:
                where = "this branch" if name in self.before else "one branch"
                raise builder.launch.mistake(
                    "refused",
                    f"{where} makes {name} {_words(new)}, without it it is {_words(old)}; compiled code has one type for it: "
                    "convert with .to()",
                )

    def fresh(self, name: str) -> bool:
        return name not in self.before


def kind_of(value: Any) -> Any:
    """A tensor's type and shape, None for what has none (constants)."""
    if not isinstance(value, tl.tensor):
        return None
    return value.type.scalar, tuple(int(size) for size in value.shape) if value.type.is_block() else ()


def _words(kind: Any) -> str:
    if kind is None:
        return "a constant"
    dtype, shape = kind
    return f"{dtype}[{'x'.join(map(str, shape))}]" if shape else f"{dtype}"
