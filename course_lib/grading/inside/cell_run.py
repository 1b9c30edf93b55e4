"""Run one cell as IPython does: `await` at the top is allowed, and a `from __future__` holds for the cells after it."""

import __future__

import ast
import asyncio
import functools
import inspect
import itertools
import operator

FUTURES = functools.reduce(operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names))


def run_cell(source: str, path: str, futures: int, space: dict, skipped: list[str]) -> int:
    """Run the source in the namespace `space` -> compiler flags of the `from __future__` imports in it.

    An import of a part of course_lib that is not here (the library is the answer key) is left out, and `skipped` says so: it
    costs an answer nothing unless it uses it.
    """
    found = 0
    for part in _parts(ast.parse(source, path)):
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | futures | found
        code = compile(part, path, "exec", flags, dont_inherit=True)
        found |= code.co_flags & FUTURES
        try:
            result = eval(code, space)
            if code.co_flags & inspect.CO_COROUTINE:
                asyncio.run(result)
        except ImportError as error:
            ours = isinstance(part.body[0], (ast.Import, ast.ImportFrom)) and str(error.name).startswith("course_lib")
            if not ours:
                raise  # it is not here in the notebook either
            skipped.append(f"'{ast.unparse(part)[:60]}' was left out ({error})"[:300])
    return found


def _parts(tree: ast.Module) -> list[ast.Module]:
    """The cell's statements: every import alone, the others together as far as they are neighbours."""

    def group(at: tuple[int, ast.stmt]) -> int:
        return at[0] + 1 if isinstance(at[1], (ast.Import, ast.ImportFrom)) else 0

    groups = itertools.groupby(enumerate(tree.body), group)
    return [ast.Module([statement for _, statement in items], tree.type_ignores) for _, items in groups]
