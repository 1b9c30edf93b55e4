"""An answer with its kernel at the top of a file, as a learner's cell has it: made once, not at every call."""

import ast
import inspect
import linecache
import textwrap
from collections.abc import Callable


def kernels_at_top(answer: Callable) -> Callable:
    """The same function; imports and @triton.jit kernels of its body stand before it, so that a call finds them compiled."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(answer)))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    above = [node for node in function.body if isinstance(node, (ast.Import, ast.ImportFrom)) or _decorated(node)]
    function.body = [node for node in function.body if node not in above]
    source = ast.unparse(ast.Module([*above, function], []))
    file = f"<{answer.__module__}.{answer.__name__}, kernels at the top>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    space = answer.__globals__ | {"__name__": answer.__module__}
    exec(compile(source, file, "exec"), space)
    return space[answer.__name__]


def _decorated(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and bool(node.decorator_list)
