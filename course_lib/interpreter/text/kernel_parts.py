"""One thing that a kernel needs, and how it stands in the text: an import, a constant, or a function copied line by line."""

import ast
import builtins
import inspect
import sys
import textwrap
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

from .jit_functions import from_triton, inner_function, is_gluon, python_function
from .kernel_constants import expression
from .kernel_names import Span, identifiers, references, replaced, text_at

KEPT_OPTIONS = ("noinline", "debug", "do_not_specialize", "do_not_specialize_on_alignment")


class SourceError(ValueError):
    """A kernel that cannot be written into a module of its own: the message names the value, its type and the cure."""


@dataclass(frozen=True, slots=True)
class Use:
    """A place in a function where a value from outside stands.

    source  what is written there, "" for a default value; fresh: the name is made here and must be nobody's
    """

    name: str
    value: Any
    span: Span
    source: str = ""
    fresh: bool = False

    def edit(self, lines: list[str], wanted: str) -> list[tuple[Span, str]]:
        here = "".join(text_at(lines, self.span).split())
        if wanted == (self.source or here):
            return []
        if self.source and here != self.source:  # Python 3.11 does not know where the names of an f-string stand
            raise SourceError(f"{self.source} stands in an f-string and its name is taken by something else; rename one of them")
        return [(self.span, wanted)]


@dataclass(slots=True)
class Part:
    """One definition of the text. `lines` is empty for a part that is one line without an origin (`line`)."""

    value: Any  # kept alive, so that its identity stays its own
    title: str
    line: str = ""  # with {name} for the name
    file: str = ""
    first_line: int = 0
    gluon: bool = False
    decorator: str = ""
    lines: list[str] = field(default_factory=list)
    uses: list[Use] = field(default_factory=list)
    edits: list[tuple[Span, str]] = field(default_factory=list)
    identifiers: set[str] = field(default_factory=set)

    def written(self, name: str, names: list[str]) -> tuple[list[str], list[str]]:
        """(lines made here, lines copied); names[i] is what the value of uses[i] is called in the text."""
        if not self.lines:
            return [self.line.replace("{name}", name)], []
        edits = list(self.edits)
        for use, wanted in zip(self.uses, names, strict=True):
            edits += use.edit(self.lines, wanted)
        body = replaced(self.lines, edits)
        start = self.lines[0].index(self.title, self.lines[0].index("def ") + 4)
        body[0] = body[0][:start] + name + body[0][start + len(self.title) :]
        return [self.decorator] if self.decorator else [], body


def identity(value: Any) -> Any:
    """Equal for values that one definition serves."""
    value = inner_function(value)
    if isinstance(value, ModuleType):
        return ("module", value.__name__)
    text = expression(value)
    return ("constant", text) if text is not None else ("object", id(python_function(value) or value))


def part_of(value: Any, name: str, user: str) -> Part:
    """The part that defines a value. user: the function that uses it under `name`, "" for the kernel itself."""
    value = inner_function(value)
    if not user and python_function(value) is None:
        raise TypeError(f"{name} is a {type(value).__name__}, not a kernel made by @triton.jit or @gluon.jit")
    if isinstance(value, ModuleType):
        if importable(value):
            return Part(value, name, f"import {value.__name__} as {{name}}")
        raise _unwritable(value, name, user)
    if (text := expression(value)) is not None:
        return Part(value, name, f"{{name}} = {text}")
    fn = python_function(value)
    origin = fn or value
    if from_triton(origin) and hasattr(sys.modules.get(origin.__module__), getattr(origin, "__name__", "")):
        return Part(value, name, f"from {origin.__module__} import {origin.__name__} as {{name}}")
    if fn is None:
        raise _unwritable(value, name, user)
    if not user and fn is value:
        raise TypeError(f"{name} is a plain function; decorate it with @triton.jit")
    return _function(value, fn)


def importable(module: ModuleType) -> bool:
    """Triton's and the standard library's modules are imported; from others the things that are used are copied."""
    root = module.__name__.partition(".")[0]
    return root == "triton" or (root in sys.stdlib_module_names and root != "__main__")


def _unwritable(value: Any, name: str, user: str) -> SourceError:
    return SourceError(
        f"kernel {user} uses {name}, a {type(value).__name__}, which cannot be written into a module of its own. "
        f"Pass it as an argument, or make it a number, a string or a tl.constexpr of one."
    )


def _function(value: Any, fn: FunctionType) -> Part:
    try:
        source = getattr(value, "raw_src", None) or inspect.getsourcelines(fn)[0]
        first = getattr(value, "starting_line_number", 0) or inspect.getsourcelines(fn)[1]
    except (OSError, TypeError):
        raise SourceError(f"the source of {fn.__name__} is nowhere; define it in a file or in a notebook cell") from None
    lines = textwrap.dedent("".join(source)).splitlines()
    node = ast.parse("\n".join(lines)).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise SourceError(f"{fn.__name__} is not defined by a `def` of its own; define it so")
    above = node.lineno - 1
    part = Part(
        value,
        fn.__name__,
        file=fn.__code__.co_filename,
        first_line=first + above,
        gluon=is_gluon(value),
        decorator=_decorator(value),
        lines=lines[above : node.end_lineno],
        identifiers=identifiers(node),
    )
    ast.increment_lineno(node, -above)
    _arguments(part, node.args, fn)
    if node.returns:
        part.edits.append((Span.of(node.returns), "None"))
    outside = fn.__globals__ | inspect.getclosurevars(fn).nonlocals
    for reference in references(node):
        if use := _use(reference, outside):
            part.uses.append(use)
    return part


def _decorator(value: Any) -> str:
    if isinstance(value, FunctionType):
        return ""
    if type(value).__name__ == "ConstexprFunction":
        return "@_triton.constexpr_function"
    given = getattr(value, "kwargs", None) or {name: getattr(value, name, None) for name in KEPT_OPTIONS}
    options = {name: given.get(name) for name in KEPT_OPTIONS}
    options = {name: option if isinstance(option, bool) else list(option) for name, option in options.items() if option}
    jit = "@_gluon.jit" if is_gluon(value) else "@_triton.jit"
    return jit + (f"({', '.join(f'{name}={option!r}' for name, option in options.items())})" if options else "")


def _arguments(part: Part, arguments: ast.arguments, fn: FunctionType) -> None:
    """Annotations become the strings that Triton reads them as; defaults the values that they had when `def` ran."""
    from triton.runtime.jit import _normalize_ty

    positional = [*arguments.posonlyargs, *arguments.args]
    for argument in filter(None, [*positional, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]):
        if argument.annotation and argument.arg in fn.__annotations__:
            part.edits.append((Span.of(argument.annotation), repr(_normalize_ty(fn.__annotations__[argument.arg]))))
    defaults = list(zip(arguments.defaults, fn.__defaults__ or (), strict=True))
    keywords = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    defaults += [(node, (fn.__kwdefaults__ or {})[argument.arg]) for argument, node in keywords if node]
    for node, value in defaults:
        if not isinstance(node, ast.Constant):
            part.uses.append(Use(f"default_of_{fn.__name__}", value, Span.of(node), fresh=True))


def _use(reference: Any, outside: dict[str, Any]) -> Use | None:
    """What a name of the source stands for; None for Python's own names, and for names that nothing defines."""
    if reference.name not in outside:
        return None
    value, used = outside[reference.name], 0
    if value is getattr(builtins, reference.name, value) and hasattr(builtins, reference.name):
        return None
    while isinstance(value, ModuleType) and not importable(value) and used < len(reference.attributes):
        attribute = reference.attributes[used]
        if not hasattr(value, attribute):
            return None
        value, used = getattr(value, attribute), used + 1
    path = (reference.name, *reference.attributes[:used])
    return Use("_".join(path), value, reference.spans[used], ".".join(path), fresh=used > 0)
