"""Which names a function's source takes from outside, where each stands, and how to change them without moving a line.

Positions are those of `ast`: lines from 1, columns in UTF-8 bytes. Python's scopes are followed (nested functions, lambdas and
comprehensions have locals of their own), because a rename that touched a local of the same name would change the program.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open: from (line, column) up to (end_line, end_column)."""

    line: int
    column: int
    end_line: int
    end_column: int

    @classmethod
    def of(cls, node: ast.expr) -> "Span":
        return cls(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)


@dataclass(frozen=True, slots=True)
class Reference:
    """A name from outside and the attributes read from it: `library.tools.scale` is ("library", ("tools", "scale")).

    spans[i] covers the name and its first i attributes.
    """

    name: str
    attributes: tuple[str, ...]
    spans: tuple[Span, ...]


def references(function: ast.FunctionDef) -> Iterator[Reference]:
    """What the body of a function takes from outside. Its own defaults, annotations and decorators are not looked at."""
    inside = own_names(function)
    for statement in function.body:
        yield from _visit(statement, inside)


def own_names(scope: Function) -> set[str]:
    """Names that a function binds itself: arguments, and whatever it assigns."""
    arguments = scope.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names = {argument.arg for argument in every if argument}
    body = scope.body if isinstance(scope.body, list) else [scope.body]
    for statement in body:
        names |= _bound(statement)
    return names


def identifiers(function: ast.FunctionDef) -> set[str]:
    """Every name that occurs in a function, local or not: a new name must be none of these."""
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    for node in ast.walk(function):
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            names |= own_names(node)
    return names


def _bound(node: ast.AST) -> set[str]:
    """Names that a statement binds in the scope that it stands in."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
        return set()
    names = set()
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        names.add(node.id)
    elif isinstance(node, ast.alias):
        names.add((node.asname or node.name).split(".")[0])
    elif isinstance(node, ast.ExceptHandler) and node.name:
        names.add(node.name)
    for child in ast.iter_child_nodes(node):
        names |= _bound(child)
    return names


def _visit(node: ast.AST, inside: set[str]) -> Iterator[Reference]:
    if isinstance(node, (ast.Name, ast.Attribute)) and (chain := _chain(node)):
        if chain.name not in inside:
            yield chain
        return
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
        deeper = inside | own_names(node)
        body = node.body if isinstance(node.body, list) else [node.body]
        for child in ast.iter_child_nodes(node):
            yield from _visit(child, deeper if child in body else inside)
        return
    if isinstance(node, COMPREHENSIONS):
        targets = [generator.target for generator in node.generators]
        inside = inside | {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    for child in ast.iter_child_nodes(node):
        yield from _visit(child, inside)


def _chain(node: ast.expr) -> Reference | None:
    """The reference that `a.b.c` is; None where an attribute is read from something that is not a name."""
    attributes, spans = [], [Span.of(node)]
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
        spans.append(Span.of(node))
    if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
        return None
    return Reference(node.id, tuple(reversed(attributes)), tuple(reversed(spans)))


def text_at(lines: list[str], span: Span) -> str:
    """The text of a span; its lines joined by newlines."""
    covered = [line.encode() for line in lines[span.line - 1 : span.end_line]] or [b""]
    covered[-1] = covered[-1][: span.end_column]
    covered[0] = covered[0][span.column :]
    return b"\n".join(covered).decode()


def replaced(lines: list[str], edits: list[tuple[Span, str]]) -> list[str]:
    """The lines with each span replaced. Their number stays: a span of several lines leaves its newlines behind it."""
    lines = list(lines)
    for span, new in sorted(edits, key=lambda edit: (edit[0].line, edit[0].column), reverse=True):
        first, last = lines[span.line - 1].encode(), lines[span.end_line - 1].encode()
        kept = last[span.end_column :].decode()
        if span.line == span.end_line:
            lines[span.line - 1] = first[: span.column].decode() + new + kept
        else:
            lines[span.line - 1] = first[: span.column].decode() + new
            lines[span.line : span.end_line - 1] = [""] * (span.end_line - 1 - span.line)
            lines[span.end_line - 1] = kept
    return lines
