"""What the text of a recorded kernel may say, checked before a clean process runs it: it is Python from a learner's process.

Allowed   imports of triton, triton.language and math; constants; functions decorated by triton; the builtins that kernels use
Refused   other modules, however they are reached (`import`, `triton.runtime.jit.os`), other builtins, and attributes that are
          not the language's: __class__, but also a generator's gi_frame, a kernel's pre_run_hooks, a value's handle
Not covered   a fault in Triton itself. The process has the rights of whoever started it; isolation from malice is the
sandbox's work.
"""

import ast
import importlib
from collections.abc import Iterable, Iterator, Set
from types import ModuleType
from typing import Any

from . import kernel_attributes
from .kernel_names import references

MAX_CHARACTERS = 200_000
MAX_NUMBERS = 1000  # in one text: far more than kernels have, fewer than results
_MODULES = ("triton.language", "triton.experimental.gluon")
_BUILTINS = frozenset(
    ("range", "min", "max", "len", "abs", "int", "float", "bool", "str", "print", "tuple", "list", "isinstance", "zip",
     "enumerate", "sum", "any", "all", "round", "pow", "divmod", "slice", "reversed", "ValueError", "TypeError")
)  # fmt: skip
_CONSTRUCTORS = ("constexpr", "dtype", "pointer_type")
_DECORATORS = ("_triton.jit", "_gluon.jit", "_triton.constexpr_function")


class RefusedText(ValueError):
    """A text that a clean process does not run."""


def check_text(text: str, fields: Iterable[str] = ()) -> None:
    """Raises RefusedText, which says what the text may not do. Imports Triton to see where a name leads.

    fields  names of the fields of tuples that the kernel is launched with
    """
    if len(text) > MAX_CHARACTERS:
        raise RefusedText(f"the kernel's text has {len(text):,} characters, the limit is {MAX_CHARACTERS:,}; use tensors")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:  # the last two: nested too deep
        raise RefusedText(f"the kernel's text is no Python ({error})") from error
    numbers = sum(isinstance(node, ast.Constant) and type(node.value) in (int, float) for node in ast.walk(tree))
    if numbers > MAX_NUMBERS:
        raise RefusedText(f"the kernel's text has {numbers:,} numbers, the limit is {MAX_NUMBERS:,}; pass data as tensors")
    outside: dict[str, Any] = {}
    for statement in tree.body:
        _top_level(statement, outside)
    attributes = kernel_attributes.of_values() | {field for field in fields if field not in kernel_attributes.hidden()}
    for node in ast.walk(tree):
        _node(node)
        if isinstance(node, ast.Attribute):
            _attribute(node, outside, attributes)
    known = {name for statement in tree.body for name in _bound(statement)} | _BUILTINS
    for statement in tree.body:
        names = [r.name for r in references(statement)] if isinstance(statement, ast.FunctionDef) else []
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Name):
            names.append(statement.value.id)
        for name in names:
            if name not in known:
                raise RefusedText(f"the kernel uses {name}, which is none of the names that a graded kernel may use")


def constant(expression: str) -> Any:
    """The value of a constant's expression (kernel_constants.expression). Raises RefusedText for anything else."""
    try:
        node = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError) as error:
        raise RefusedText(f"{expression[:60]!r} is no constant") from error
    if not _is_constant(node):
        raise RefusedText(f"{expression[:60]!r} is no constant that can be replayed")
    space: dict[str, Any] = {"float": float, "__builtins__": {}}
    if "_language" in expression:
        space["_language"] = importlib.import_module("triton.language")
    return eval(compile(ast.Expression(node), "<constant>", "eval"), space)


def _is_constant(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_constant(node.operand)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(_is_constant, node.elts))
    if not isinstance(node, ast.Call) or node.keywords or not all(map(_is_constant, node.args)):
        return False
    return ast.unparse(node.func) in ("float", *(f"_language.{name}" for name in _CONSTRUCTORS))


def _top_level(statement: ast.stmt, outside: dict[str, Any]) -> None:
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            outside[alias.asname or alias.name.split(".")[0]] = _module(alias.name)
    elif isinstance(statement, ast.ImportFrom) and not statement.level:
        for alias in statement.names:
            outside[alias.asname or alias.name] = _member(_module(statement.module or ""), alias.name, statement.module or "")
    elif isinstance(statement, ast.Assign) and all(isinstance(target, ast.Name) for target in statement.targets):
        if _is_constant(statement.value) and any(isinstance(node, ast.List) for node in ast.walk(statement.value)):
            raise RefusedText(f"the kernel's text has the list `{ast.unparse(statement)[:80]}`; a constant is a tuple")
        if not (isinstance(statement.value, ast.Name) or _is_constant(statement.value) or _is_layout(statement.value)):
            raise RefusedText(f"the kernel's text computes `{ast.unparse(statement)[:80]}`, which is no constant")
    elif isinstance(statement, ast.FunctionDef):
        for decorator in statement.decorator_list:
            call = isinstance(decorator, ast.Call)
            name = ast.unparse(decorator.func if call else decorator)
            literal = not call or (not decorator.args and all(_is_constant(k.value) for k in decorator.keywords))
            if name not in _DECORATORS or not literal:
                raise RefusedText(f"the kernel's text is decorated with `{ast.unparse(decorator)[:80]}`")
        for default in (*statement.args.defaults, *filter(None, statement.args.kw_defaults)):
            if isinstance(default, ast.List) or not (isinstance(default, ast.Name) or _is_constant(default)):
                raise RefusedText(f"the kernel's text has the default `{ast.unparse(default)[:80]}`, which is no constant")
    else:
        raise RefusedText(f"the kernel's text says `{ast.unparse(statement)[:80]}`; it may hold kernels, helpers and constants")


def _is_layout(node: ast.expr) -> bool:
    """A Gluon layout or an enum of Triton: __import__('triton...', fromlist=['*']).Name, perhaps called with constants."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        plain = not node.args and all(_is_constant(k.value) or _is_layout(k.value) for k in node.keywords)
        return plain and _is_layout(node.func)
    while isinstance(node, ast.Attribute):
        node = node.value
    if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
        return False
    name = node.args[0].value
    exact = ast.unparse(node) == f"__import__({name!r}, fromlist=['*'])"
    return exact and isinstance(name, str) and _allowed(name)


def _node(node: ast.AST) -> None:
    bound = isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load)
    if bound or isinstance(node, (ast.Global, ast.ClassDef, ast.AsyncFunctionDef, ast.Await, ast.Match)):
        raise RefusedText(f"the kernel says `{ast.unparse(node)[:60]}`, which no kernel needs")
    if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
        raise RefusedText(f"the kernel reads the attribute {node.attr}; only public ones may be used")
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "__import__" and not _is_layout(node):
        raise RefusedText(f"the kernel's text imports by `{ast.unparse(node)[:60]}`")
    if isinstance(node, ast.arg) and not isinstance(node.annotation, (ast.Constant, type(None))):
        raise RefusedText(f"the kernel's text annotates {node.arg} with `{ast.unparse(node.annotation)[:60]}`")
    if isinstance(node, ast.FunctionDef):
        if not isinstance(node.returns, (ast.Constant, type(None))):
            raise RefusedText(f"the kernel's text annotates {node.name} with `{ast.unparse(node.returns)[:60]}`")
        for inner in ast.walk(node):
            if isinstance(inner, (ast.Import, ast.ImportFrom)):
                raise RefusedText(f"the kernel imports (`{ast.unparse(inner)[:60]}`); a graded kernel uses triton and math only")
            if isinstance(inner, ast.Name) and inner.id == "__import__":
                raise RefusedText("the kernel uses __import__; a graded kernel uses triton and math only")


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign):
        yield from (target.id for target in statement.targets)
    elif isinstance(statement, ast.FunctionDef):
        yield statement.name
    elif isinstance(statement, (ast.Import, ast.ImportFrom)):
        yield from (alias.asname or alias.name.split(".")[0] for alias in statement.names)


def _module(name: str) -> ModuleType:
    if name not in ("triton", "math") and not _allowed(name):
        raise RefusedText(f"the kernel uses the module {name}; a graded kernel uses triton and math only")
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise RefusedText(f"the kernel uses {name}, which is not in this Triton") from error


def _allowed(name: str) -> bool:
    return name in _MODULES or name.startswith(tuple(f"{module}." for module in _MODULES))


def _member(owner: Any, name: str, path: str) -> Any:
    """owner.name, where a module's member is public and comes from a module that is allowed."""
    if name.startswith("_") or not hasattr(owner, name):
        raise RefusedText(f"the kernel uses {path}.{name}, which does not exist or is not public")
    member = getattr(owner, name)
    if isinstance(member, ModuleType):
        if not _allowed(member.__name__) and member.__name__ not in ("math", "triton.experimental"):
            raise RefusedText(f"the kernel reaches the module {member.__name__} by {path}.{name}; it may use triton and math")
        return member
    if isinstance(member, (list, dict, set)):
        raise RefusedText(f"the kernel reads {path}.{name}, which belongs to Triton and can be changed")
    home = getattr(getattr(member, "fn", member), "__module__", None) or ""
    if callable(member) and not (_allowed(home) or home in ("triton", "math") or (path, name) in _LAUNCHERS or name in _ENUMS):
        raise RefusedText(f"the kernel uses {path}.{name}, which is no part of Triton's language")
    return member


_ENUMS = ("PropagateNan",)  # of triton.language, but made by its compiler
_LAUNCHERS = {("_triton", "jit"), ("_triton", "constexpr_function"), ("triton", "constexpr_function"), ("_gluon", "jit")}


def _attribute(node: ast.Attribute, outside: dict[str, Any], known: Set[str]) -> None:
    """Follow `module.member.member` as far as it leads through modules; what is no module has the attributes that are known."""
    names = [node.attr]
    inner = node.value
    while isinstance(inner, ast.Attribute):
        names.insert(0, inner.attr)
        inner = inner.value
    owner = outside.get(inner.id) if isinstance(inner, ast.Name) else None
    path = inner.id if isinstance(inner, ast.Name) else ""
    for name in names:
        if not isinstance(owner, ModuleType):
            break
        owner, path = _member(owner, name, path), f"{path}.{name}"
    else:
        return
    if node.attr not in known:
        raise RefusedText(
            f"the kernel reads the attribute {node.attr}, which no value of Triton's language has; a named tuple with a field "
            "of that name needs another one"
        )
