"""How much the launches of a recording were told other than by tensors: a result must not travel in numbers, texts or fills.

Kernels need some of it: sizes, strides, a few factors, buffers filled with one value. The host that computes the answer itself
needs about as many bits as the answer has. So bits are added up over a whole recording, and the limit follows from the answer.

Counted    the bits of each number, 8 for each letter, 32 for a float that is not 0 or 1; at each launch what differs from the
           last launch of the same kernel (a size that stays is told once) and 8 for the launch itself; constants in the
           texts, each function once and without its docstring, and half a bit for each node of its syntax (a kernel that the
           answer itself wrote may say a result without constants; flash attention has 660 nodes); fills and metadata that
           replay_memory.py let in
Not seen   answers so small that the least limit holds them: an exercise has one case with an answer of 1000 elements
"""

import ast
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ..text.kernel_text import constant

LEAST_BITS = 4096
SHARE = 8  # the limit is this part of the answer's bits
_LAUNCH_BITS, _LETTER_BITS, _FLOAT_BITS = 8, 8, 32


class Told:
    """The bits of one recording so far."""

    def __init__(self) -> None:
        self.bits = 0
        self._last: dict[int, dict[str, Any]] = {}  # kernel -> what its last launch was told, by the place in its arguments
        self._statements: set[str] = set()

    def text(self, text: str) -> None:
        """A kernel's text, which check_text has let pass."""
        for statement in ast.parse(text).body:
            key = ast.unparse(statement)
            if key not in self._statements:
                self._statements.add(key)
                nodes = sum(not isinstance(node, ast.expr_context) for node in ast.walk(statement))
                self.bits += sum(map(bits_of, _literals(statement))) + nodes // 2

    def launch(self, launch: Mapping[str, Any]) -> None:
        mine = dict(_told(launch["arguments"]))
        mine |= {f"grid {axis}": size for axis, size in enumerate(launch["grid"])}
        last = self._last.get(launch["kernel"], {})
        # 1 and True and 1.0 are equal and not the same
        changed = [v for k, v in mine.items() if k not in last or type(last[k]) is not type(v) or last[k] != v]
        self.bits += _LAUNCH_BITS + sum(map(bits_of, changed))
        self._last[launch["kernel"]] = mine


def limit(answer: Any) -> int:
    """The most bits that launches with this answer (`_answer` of the worker) may be told."""
    return max(LEAST_BITS, 8 * sum(tensor.numel() * tensor.element_size() for tensor in _tensors(answer)) // SHARE)


def field_names(tape: Mapping[str, Any]) -> set[str]:
    """Names of the fields of all named tuples that launches are given."""
    waiting, found = [arg for launch in tape["launches"] for arg in launch["arguments"].values()], set()
    while waiting:
        arg = waiting.pop()
        if arg["kind"] == "tuple":
            waiting += arg["items"]
            found |= set(arg["fields"] or ())
    return found


def bits_of(value: Any) -> int:
    """What one constant can carry at most."""
    if isinstance(value, (bytes, str)):
        return _LETTER_BITS * len(value)
    if isinstance(value, float):
        return _FLOAT_BITS if math.isfinite(value) and value not in (0.0, 1.0, -1.0) else 2
    return max(1, int(value).bit_length()) if isinstance(value, int) else 0


def _literals(statement: ast.stmt) -> Iterator[Any]:
    docs = {id(n.value) for n in ast.walk(statement) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    notes = {id(n.annotation) for n in ast.walk(statement) if isinstance(n, ast.arg)}
    for node in ast.walk(statement):
        if isinstance(node, ast.Constant) and id(node) not in docs and id(node) not in notes:
            yield node.value


def _told(arguments: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(place, number or text) of everything in the arguments that is not the content of a tensor."""
    for name, arg in arguments.items():
        kind = arg["kind"]
        if kind == "number":
            yield name, arg["value"]
        elif kind == "constant":
            yield from _flat(name, constant(arg["expression"]))
        elif kind == "tensor":
            yield f"{name} offset", arg["offset"]
        elif kind == "tuple":
            yield f"{name} fields", " ".join(arg["fields"] or ())
            yield from _told({f"{name}.{place}": item for place, item in enumerate(arg["items"])})
        elif kind == "descriptor":
            yield f"{name} offset", arg["base"]["offset"]
            for field in ("shape", "strides", "block_shape"):
                yield from _flat(f"{name} {field}", arg[field])


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    value = getattr(value, "value", value)
    if isinstance(value, (tuple, list)):
        yield f"{name} length", len(value)
        for place, item in enumerate(value):
            yield from _flat(f"{name}.{place}", item)
    elif isinstance(value, (int, float, str)):
        yield name, value


def _tensors(node: Any) -> Iterator[Any]:
    if node is None:
        return
    if node["kind"] == "tensor":
        yield node["tensor"]
    items = node.get("items", ())
    for item in items.values() if isinstance(items, dict) else items:
        yield from _tensors(item)
