"""The rewriting of learners' kernels beyond single expressions: loops, branches, and names from outside the function."""

import ast
import builtins
from typing import Any

from .names import ALLOWED_BUILTINS, LIBRARY_MODULE, may_be_seen
from .refusals import Found, is_unrolled
from .rewrite import Words, call, later

_MISSING = object()


class Flow(Words):
    """itself: the function; names: what it binds; scope: its globals and free variables; records: what single `if`s remember."""

    def __init__(self, itself: Any, names: set[str], scope: dict[str, Any], found: Found, records: list[Any]):
        self.itself, self.names, self.scope, self.found, self.records = itself, names, scope, found, records
        self.count, self.many_returns = 0, False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.many_returns = sum(isinstance(n, ast.Return) and n.value is not None for n in ast.walk(node)) > 1
        self.generic_visit(node)
        if self.many_returns:
            node.body.insert(0, _at(node.body[0], "__course_dynamic = False"))
        return node

    def visit_Return(self, node: ast.Return) -> ast.Return:
        """Where a run-time `if` chooses between returns, each gives a tensor."""
        self.generic_visit(node)
        if node.value is not None and self.many_returns:
            value = ast.IfExp(ast.Name("__course_dynamic", ast.Load()), call("assigned", node, node.value), node.value)
            node.value = ast.copy_location(value, node)
        return node

    # -- loops ---------------------------------------------------------------------------------------------------------

    def visit_For(self, node: ast.For) -> Any:
        if is_unrolled(node):
            return self.generic_visit(node)
        names = _bound(node.body)
        self.generic_visit(node)
        node.iter.func = call("counter", node.iter, node.iter.func)
        return self._looped(node, names, {node.target.id})

    def visit_While(self, node: ast.While) -> Any:
        names = _bound(node.body)
        self._visit_condition(node)
        return self._looped(node, names, set())

    def _looped(self, node: Any, names: set[str], indices: set[str]) -> list[ast.stmt]:
        watched = sorted(names - indices)
        if not watched:
            return [node]
        mark = self._mark()
        node.body.append(_at(node.body[-1], f"if {mark}.names: {mark}.turn(locals())"))
        before = _at(node, f"{mark} = __course_run.Loop(locals(), {watched!r})")
        after = [_at(node, f"if {mark}.fresh({n!r}):\n    {n} = None\n    del {n}") for n in watched]
        return [before, node, *after]

    # -- branches ------------------------------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> Any:
        body, orelse = _bound(node.body), _bound(node.orelse)
        refused = self.found.branches[node]
        returns = self.many_returns and any(isinstance(n, ast.Return) for n in ast.walk(node))
        self.generic_visit(node)
        names = sorted(body | orelse)
        if not (names or returns or refused.body or refused.orelse):
            node.test = call("condition", node.test, node.test)
            return node
        self.records.append(({}, refused.body, refused.orelse))
        mark = self._mark()
        before = _at(node, f"{mark} = __course_run.branch(None, __course_records[{len(self.records) - 1}])")
        before.value.args[0] = node.test
        node.test = ast.copy_location(ast.Name(mark, ast.Load()), node)
        out: list[ast.stmt] = [before]
        if returns:
            out.append(_at(node, f"__course_dynamic = __course_dynamic or {mark}.__class__ is __course_run.Branch"))
        if not names:
            return [*out, node]
        watched = f"{mark}.__class__ is __course_run.Branch"
        out += [_at(node, f"if {watched}: {mark}.enter(locals(), {names!r})"), node]
        out.append(_at(node, f"if {watched}: {mark}.leave(locals(), {names!r})"))
        for n in sorted(body ^ orelse):
            out.append(_at(node, f"if {watched} and {mark}.fresh({n!r}):\n    {n} = None\n    del {n}"))
        return out

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        refused = self.found.branches[node]
        simple = not any(isinstance(n, ast.Call) for n in (*ast.walk(node.body), *ast.walk(node.orelse)))
        self.generic_visit(node)
        self.records.append(({}, refused.body, refused.orelse))
        record = ast.Subscript(ast.Name("__course_records", ast.Load()), ast.Constant(len(self.records) - 1), ast.Load())
        return call("ternary", node, node.test, later(node.body), later(node.orelse), ast.Constant(simple), record)

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        self.generic_visit(node)
        return ast.copy_location(ast.Expr(call("asserted", node, node.test, node.msg or ast.Constant(""))), node)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def visit_ListComp(self, node: ast.ListComp) -> ast.ListComp:
        self.generic_visit(node)
        node.generators[0].iter = call("elements", node, node.generators[0].iter)
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.FormattedValue:
        self.generic_visit(node)
        node.value = call("text", node, node.value)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name from outside: constants, modules and kernels may be seen; the rest is refused where it is used."""
        if node.id in self.names or not isinstance(node.ctx, ast.Load) or node.id.startswith("__course_"):
            return node
        value = self.scope.get(node.id, _MISSING)
        if value is _MISSING:
            refused = hasattr(builtins, node.id) and node.id not in ALLOWED_BUILTINS
            return call("unknown", node, ast.Constant(node.id)) if refused else node
        if getattr(value, "__module__", None) == LIBRARY_MODULE and callable(value):
            return call("library", node, ast.Constant(value.__name__))
        if getattr(value, "fn", None) is self.itself:
            return call("recursion", node, ast.Constant(node.id))
        return node if may_be_seen(value) else call("outside", node, ast.Constant(node.id), node)

    def _mark(self) -> str:
        self.count += 1
        return f"__course_{self.count}"


def _bound(statements: list[ast.stmt]) -> set[str]:
    """Names that statements assign, those inside nested loops and branches too (a comprehension's own names are not)."""
    found: set[str] = set()
    for statement in statements:
        inner = {id(n) for c in ast.walk(statement) if isinstance(c, ast.comprehension) for n in ast.walk(c.target)}
        stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
        found |= {n.id for n in stored if id(n) not in inner and not n.id.startswith("__course_")}
    return found


def _at(near: ast.AST, source: str) -> Any:
    """Our own statement, with the line of the learner's."""
    statement = ast.parse(source).body[0]
    for node in ast.walk(statement):
        ast.copy_location(node, near)
    return statement
