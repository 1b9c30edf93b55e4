"""From a @triton.jit function to a Python function that computes: its source, slightly changed, in its own namespace.

Changed: every assigned value goes through Triton's `to_tensor`, so that `x = 0` makes an int32 and not a Python number; a
loop over range() counts in int32, which can wrap, as compiled code does; `and`, `or`, `not`, min and max of blocks work
element by element.
Refused: what the compiler has no translation for (break, continue, list comprehensions, lambda, try, ...), with its line.
The names of the kernel's module are not touched; variables of an enclosing function are bound as they are now.
"""

import ast
import inspect
import textwrap
import weakref
from collections.abc import Callable
from typing import Any

from triton.compiler.code_generator import CodeGenerator

from . import runtime
from .builder import semantic
from .faults import KernelMistake, Place

_TO_TENSOR, _RUN = "__course_to_tensor", "__course_run"
_rewritten: "weakref.WeakKeyDictionary[Callable, Callable]" = weakref.WeakKeyDictionary()
codes: set[Any] = set()  # code objects of rewritten functions that learners wrote: whose lines are shown


def rewritten(fn: Callable) -> Callable:
    """The computing twin of a kernel's Python function, made once for each function object.

    Raises KernelMistake ("refused") for source that the compiler does not accept, OSError where there is no source.
    """
    twin = _rewritten.get(fn)
    if twin is None:
        twin = _rewritten[fn] = _rewrite(fn)
    return twin


def _rewrite(fn: Callable) -> Callable:
    lines, first = inspect.getsourcelines(fn)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        raise KernelMistake("refused", None, f"{fn.__name__} is not written with `def`; Triton compiles functions made with def")
    file = inspect.getsourcefile(fn) or fn.__code__.co_filename
    ast.increment_lineno(tree, first - 1)
    ours = fn.__module__.startswith("triton.")
    if not ours:
        _refuse(function, fn.__name__, file, lines, first)
    outside = {name: cell.cell_contents for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)}
    module = _enclosed(function, list(outside))
    space: dict[str, Any] = {}
    exec(compile(module, fn.__code__.co_filename, "exec"), fn.__globals__, space)
    twin = space["__course_enclose"](_to_tensor, runtime, *outside.values())
    twin.__defaults__, twin.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    if not ours:
        _remember(twin.__code__)
    return twin


def _to_tensor(value: Any) -> Any:
    return semantic.to_tensor(value, False)


def _enclosed(function: ast.FunctionDef, outside: list[str]) -> ast.Module:
    """`def __course_enclose(to_tensor, free variables): def kernel(...): ...; return kernel`, so that no global is added."""
    function.decorator_list, function.returns = [], None
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    function.args.defaults = [ast.Constant(None)] * len(function.args.defaults)
    function.args.kw_defaults = [None if d is None else ast.Constant(None) for d in function.args.kw_defaults]
    inner = _Assignments().visit(function)
    names = [ast.arg(arg=name) for name in (_TO_TENSOR, _RUN, *outside)]
    enclose = ast.FunctionDef(
        name="__course_enclose",
        args=ast.arguments(posonlyargs=[], args=names, kwonlyargs=[], kw_defaults=[], defaults=[]),
        body=[inner, ast.Return(ast.Name(function.name, ast.Load()))],
        decorator_list=[],
        type_params=[],
    )
    ast.copy_location(enclose, function)
    module = ast.Module([enclose], type_ignores=[])
    return ast.fix_missing_locations(module)


class _Assignments(ast.NodeTransformer):
    """Wraps the value of every assignment; `x: tl.constexpr = 3` stays a constant."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self._wrapped(self.visit(node.value))
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        constant = "constexpr" in ast.unparse(node.annotation)
        if node.value is None:
            return node
        value = node.value if constant else self._wrapped(node.value)
        return ast.copy_location(ast.Assign(targets=[node.target], value=value), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`a and b` -> run.both(a, lambda: b): blocks element by element, constants with Python's short cut."""
        name = "both" if isinstance(node.op, ast.And) else "either"
        values = [self.visit(value) for value in node.values]
        result = values[0]
        for value in values[1:]:
            nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            result = _call(name, node, result, ast.Lambda(nothing, value))
        return result

    def _visit_condition(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = _call("condition", node.test, node.test)
        return node

    visit_If = visit_While = visit_IfExp = visit_Assert = _visit_condition

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _call("negation", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("range", "min", "max"):
            node.func = _call("builtin", node, ast.Name(node.func.id, ast.Load()))
        return node

    @staticmethod
    def _wrapped(value: ast.expr) -> ast.Call:
        return ast.copy_location(ast.Call(ast.Name(_TO_TENSOR, ast.Load()), [value], []), value)


def _call(name: str, near: ast.AST, *args: ast.expr) -> ast.Call:
    function = ast.Attribute(ast.Name(_RUN, ast.Load()), name, ast.Load())
    return ast.copy_location(ast.Call(function, list(args), []), near)


def _refuse(function: ast.FunctionDef, name: str, file: str, lines: list[str], first: int) -> None:
    """Raise for the first construct that Triton's compiler has no visitor for."""
    for node in ast.walk(function):
        if node is function or not isinstance(node, (ast.stmt, ast.expr)):
            continue
        kind = type(node).__name__
        chained = (isinstance(node, ast.Assign) and len(node.targets) > 1) or (
            isinstance(node, ast.Compare) and len(node.ops) > 1
        )
        known = hasattr(CodeGenerator, f"visit_{kind}") and not chained
        if not known and kind not in _HARMLESS:
            text = lines[node.lineno - first].strip()
            place = Place(name, file, node.lineno, text, (0, 0, 0))
            raise KernelMistake("refused", place, f"Triton does not compile {_WORDS.get(kind, kind)}; {_CURES.get(kind, _CURE)}")


_HARMLESS = {"FormattedValue", "Load", "Store", "Starred", "Slice", "Nonlocal"}
_WORDS = {
    "Break": "`break`", "Continue": "`continue`", "ListComp": "a list comprehension", "Lambda": "a lambda", "Try": "`try`",
    "DictComp": "a dict comprehension", "SetComp": "a set comprehension", "GeneratorExp": "a generator expression",
    "With": "`with`", "Raise": "`raise`", "Dict": "a dict", "Set": "a set", "Yield": "`yield`", "Assign": "a chained assignment",
    "NamedExpr": "`:=`", "Global": "`global`", "Compare": "a chained comparison",
    "Delete": "`del`", "Import": "`import`", "ImportFrom": "`import`",
}  # fmt: skip
_CURE = "write it with if, for, while and arithmetic"
_CURES = {
    "Break": "put the condition into a `while`, or mask the rest of the work",
    "Continue": "put the rest of the loop's body under an `if`",
    "Raise": "check on the host before the launch, or use tl.device_assert",
    "ListComp": "use a loop over tl.static_range",
    "Compare": "write (a < b) & (b < c)",
}


def _remember(code: Any) -> None:
    codes.add(code)
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            _remember(constant)
