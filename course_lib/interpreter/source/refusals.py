"""What Triton's compiler has no translation for, found in a kernel's source: each construct with its line and a way out.

The compiler visits only the branch of a constant `if` that is taken. So a refused construct outside every `if` is refused
before the kernel runs; one inside is refused when the branch counts: always for a condition known only at run time.
"""

import ast
from dataclasses import dataclass, field

from triton.compiler.code_generator import CodeGenerator

from ..mistakes.faults import KernelMistake, Place


@dataclass(frozen=True, slots=True)
class Refusal:
    """A construct: line in the file, its source text, and the sentence."""

    line: int
    text: str
    sentence: str


@dataclass(slots=True)
class Branches:
    """What is refused directly inside the two branches of one `if` or conditional expression."""

    body: list[Refusal] = field(default_factory=list)
    orelse: list[Refusal] = field(default_factory=list)


@dataclass
class Found:
    """always: refused wherever the kernel goes; branches: by the `if` node that decides."""

    lines: list[str]
    first: int
    always: list[Refusal] = field(default_factory=list)
    branches: dict[ast.AST, Branches] = field(default_factory=dict)

    def look(self, node: ast.AST, into: list[Refusal], loop: bool = False) -> None:
        """Walk a node; `into` collects for the branch that it lies in, `loop`: inside a loop that is not unrolled."""
        if isinstance(node, (ast.If, ast.IfExp)):
            inside = self.branches[node] = Branches()
            self.look(node.test, into, loop)
            for part, found in ((node.body, inside.body), (node.orelse, inside.orelse)):
                for child in part if isinstance(part, list) else [part]:
                    self.look(child, found, loop)
            return
        sentence = _sentence(node, loop)
        if sentence:
            into.append(Refusal(node.lineno, self.lines[node.lineno - self.first].strip(), sentence))
            return
        loop = loop or isinstance(node, ast.While) or (isinstance(node, ast.For) and not is_unrolled(node))
        for child in ast.iter_child_nodes(node):
            self.look(child, into, loop)


def find(function: ast.FunctionDef, lines: list[str], first: int) -> Found:
    """function: the kernel's node, with line numbers of its file; lines: its source, beginning at line `first`."""
    found = Found(lines, first)
    if function.args.vararg is not None:
        found.always.append(Refusal(function.lineno, lines[0].strip(), "Triton does not compile `*args`; name each argument"))
    for statement in function.body:
        found.look(statement, found.always)
    return found


def mistake(refusal: Refusal, name: str, file: str, program: tuple[int, int, int] = (0, 0, 0)) -> KernelMistake:
    return KernelMistake("refused", Place(name, file, refusal.line, refusal.text, program), refusal.sentence)


def is_unrolled(node: ast.For) -> bool:
    function = getattr(node.iter, "func", None)
    return getattr(function, "attr", getattr(function, "id", "")) == "static_range"


def _sentence(node: ast.AST, loop: bool) -> str:
    """ "" for what the compiler takes."""
    what, cure = _special(node, loop)
    kind = type(node).__name__
    if (
        not what
        and isinstance(node, (ast.stmt, ast.expr))
        and kind not in _HARMLESS
        and not hasattr(CodeGenerator, f"visit_{kind}")
    ):
        what = _WORDS.get(kind, kind)
    return f"Triton does not compile {what}; {cure or _CURES.get(kind, _CURE)}" if what else ""


def _special(node: ast.AST, loop: bool) -> tuple[str, str]:
    """(what, cure) of a construct that the compiler knows and takes only in some shapes."""
    match node:
        case ast.Assign(targets=targets) if len(targets) > 1:
            return "a chained assignment", "write one line for each name"
        case ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign(target=ast.Subscript()):
            return "an assignment to an element", "blocks and tuples are values: use tl.where, or build a new one"
        case ast.Assign(targets=[ast.Attribute()]) | ast.AugAssign(target=ast.Attribute()):
            return "an assignment to an attribute", "use a name of its own"
        case ast.Assign(targets=[ast.Tuple(elts=parts)]) if any(isinstance(part, ast.Starred) for part in parts):
            return "unpacking with `*`", "name each element"
        case ast.Compare(ops=ops) if len(ops) > 1:
            return "a chained comparison", "write (a < b) & (b < c)"
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return "`in`", "compare with each element"
        case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
            return "`@`", "use tl.dot"
        case ast.For(orelse=[_, *_]) | ast.While(orelse=[_, *_]):
            return "`else` after a loop", "put it after the loop"
        case ast.For(iter=iterator) if not isinstance(iterator, ast.Call):
            return "a loop over a tuple or list", "use tl.static_range over its indices"
        case ast.For(target=target) if not isinstance(target, ast.Name):
            return "a loop with several names", "loop over range and take the elements inside"
        case ast.ListComp(generators=[_, _, *_]):
            return "a comprehension with two `for`", "nest two of them"
        case ast.ListComp(generators=[ast.comprehension(ifs=[_, *_])]):
            return "the `if` of a comprehension (it drops it without a word)", "leave the element out by hand"
        case ast.ListComp(generators=[ast.comprehension(iter=ast.Call())]):
            return "a comprehension over a call", "use a loop over tl.static_range; only tuples and lists can be gone through"
        case ast.FunctionDef():
            return "a function inside a kernel", "put it at the top of the file, with @triton.jit"
        case ast.Return() if loop:
            return "`return` inside a loop", "set a value in the loop and return after it"
    return "", ""


_HARMLESS = {"FormattedValue", "Starred", "Nonlocal"}
_WORDS = {
    "Break": "`break`", "Continue": "`continue`", "Lambda": "a lambda", "Try": "`try`", "DictComp": "a dict comprehension",
    "SetComp": "a set comprehension", "GeneratorExp": "a generator expression", "Raise": "`raise`", "Dict": "a dict",
    "Set": "a set", "Yield": "`yield`", "NamedExpr": "`:=`", "Global": "`global`", "Delete": "`del`", "Import": "`import`",
    "ImportFrom": "`import`", "Match": "`match`", "ClassDef": "a class", "Await": "`await`",
}  # fmt: skip
_CURE = "write it with if, for, while and arithmetic"
_CURES = {
    "Break": "put the condition into a `while`, or mask the rest of the work",
    "Continue": "put the rest of the loop's body under an `if`",
    "Raise": "check on the host before the launch, or use tl.device_assert",
    "Lambda": "use a function with @triton.jit",
    "Import": "import it in the module",
    "NamedExpr": "assign on a line of its own",
}
