"""From a @triton.jit function to a Python function that computes: its source, slightly changed, in its own namespace.

Changed: every assigned value goes through Triton's `to_tensor`, so that `x = 0` makes an int32 and not a Python number; a
loop over range() counts in int32, which can wrap, as compiled code does; `and`, `or`, `not`, min and max of blocks work
element by element; loops and branches keep the types of names (flow.py).
Refused: what the compiler has no translation for (refusals.py), and names that a kernel does not see (globals that are no
constants, Python's other builtins).
The names of the kernel's module are not touched; variables of an enclosing function are bound as they are now.
"""

import ast
import inspect
import textwrap
import weakref
from collections.abc import Callable
from typing import Any

from ..mistakes.faults import KernelMistake, NoSource
from . import refusals, runtime

_RUN = "__course_run"
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
    try:
        lines, first = inspect.getsourcelines(fn)
    except OSError as error:
        where = "Triton reads a kernel's text, which exec, python -c and stdin do not keep"
        raise NoSource(f"the source of {fn.__name__} is not there: {where}; define it in a file or in a notebook cell") from error
    try:
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except IndentationError as error:  # a nested function with a docstring or comment at the left margin
        text = f"a line of {fn.__name__} starts further left than its def, so Triton cannot read it alone; indent it"
        raise KernelMistake("refused", None, text) from error
    function = next((node for node in tree.body if isinstance(node, ast.FunctionDef)), None)
    if function is None:
        raise KernelMistake("refused", None, f"{fn.__name__} is not written with `def`; Triton compiles functions made with def")
    file = inspect.getsourcefile(fn) or fn.__code__.co_filename
    ast.increment_lineno(tree, first - 1)
    outside = {name: cell.cell_contents for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)}
    ours = fn.__module__.startswith("triton.")
    found = refusals.Found(lines, first) if ours else refusals.find(function, lines, first)
    if found.always:
        raise refusals.mistake(found.always[0], fn.__name__, file)
    records: list[Any] = []
    if ours:
        change: Words = Words()
    else:
        from .rewrite_flow import Flow

        change = Flow(fn, _locals(function), fn.__globals__ | outside, found, records)
    module = _enclosed(function, list(outside), change)
    space: dict[str, Any] = {}
    exec(compile(module, fn.__code__.co_filename, "exec"), fn.__globals__, space)
    twin = space["__course_enclose"](runtime, records, *outside.values())
    twin.__code__ = twin.__code__.replace(co_qualname=fn.__qualname__)  # what a traceback calls it
    twin.__defaults__, twin.__kwdefaults__ = fn.__defaults__, fn.__kwdefaults__
    if not ours:
        _remember(twin.__code__)
    return twin


def _locals(function: ast.FunctionDef) -> set[str]:
    """Names that the function itself binds."""
    arguments = function.args
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    names |= {a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None}
    return names | {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _enclosed(function: ast.FunctionDef, outside: list[str], change: ast.NodeTransformer) -> ast.Module:
    """`def __course_enclose(run, records, free variables): def kernel(...): ...; return kernel`: no global is added."""
    function.decorator_list, function.returns = [], None
    for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    function.args.defaults = [ast.Constant(None)] * len(function.args.defaults)
    function.args.kw_defaults = [None if d is None else ast.Constant(None) for d in function.args.kw_defaults]
    inner = change.visit(function)
    names = [ast.arg(arg=name) for name in (_RUN, "__course_records", *outside)]
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


class Words(ast.NodeTransformer):
    """Assignments and Python's own words; enough for Triton's library, which is known to compile."""

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self._wrapped(self.visit(node.value))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """`x += y` is x = x + y, as in the compiler: x becomes a tensor even where it was a constant."""
        if not isinstance(node.target, ast.Name):
            return self.generic_visit(node)
        value = ast.copy_location(ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value), node)
        return self.visit(ast.copy_location(ast.Assign(targets=[node.target], value=value), node))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """`x: tl.constexpr = 3` stays a constant."""
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        value = self.visit(node.value)
        value = value if "constexpr" in ast.unparse(node.annotation) else self._wrapped(value)
        return ast.copy_location(ast.Assign(targets=[node.target], value=value), node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """`a and b` -> run.both(a, lambda: b): blocks element by element, constants with Python's short cut."""
        name = "both" if isinstance(node.op, ast.And) else "either"
        values = [self.visit(value) for value in node.values]
        result = values[0]
        for value in values[1:]:
            result = call(name, node, result, later(value))
        return result

    def _visit_condition(self, node: Any) -> Any:
        self.generic_visit(node)
        node.test = call("condition", node.test, node.test)
        return node

    visit_If = visit_While = visit_IfExp = visit_Assert = _visit_condition

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return call("negation", node, node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in runtime.BUILTINS:
            node.func = call("builtin", node, node.func)
        return node

    @staticmethod
    def _wrapped(value: ast.expr) -> ast.expr:
        return call("assigned", value, value)


def call(name: str, near: ast.AST, *args: ast.expr) -> ast.expr:
    """run.name(*args), at the place of `near`."""
    function = ast.Attribute(ast.Name(_RUN, ast.Load()), name, ast.Load())
    return ast.copy_location(ast.Call(function, list(args), []), near)


def later(value: ast.expr) -> ast.Lambda:
    """An expression that is computed only if it is asked for."""
    nothing = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(nothing, value), value)


def _remember(code: Any) -> None:
    codes.add(code)
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            _remember(constant)
