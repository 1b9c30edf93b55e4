"""What a learner finds in place of a solution: a stub that says which exercise it is, in a cell that still runs.

On the host side a stub raises NotImplementedError with the exercise's number. In a @triton.jit body, where nothing can be raised,
it is `pass`, and the host function around the launch raises.
"""

import ast
import re

from ...exercises import exercise

_SOLUTION_ID = re.compile(r"ex-(\d+)-(\d+)(-[a-z])?")


def exercise_id(grade_id: str) -> str | None:
    """"ex-2-4" and "ex-2-4-b" -> "2.4"; None for a cell that is no exercise's solution."""
    match = _SOLUTION_ID.fullmatch(grade_id)
    return f"{match[1]}.{match[2]}" if match else None


def with_stubs(source: str, number: str, grade_id: str) -> str:
    """The cell's source with each marked region replaced. Raises ValueError, naming the line, for marks that make no sense."""
    if "BEGIN SOLUTION" not in source and "END SOLUTION" not in source:
        raise ValueError(f"{grade_id} marks no region with ### BEGIN SOLUTION and ### END SOLUTION")
    lines, out, start = source.split("\n"), [], None
    for index, line in enumerate(lines):
        if "BEGIN SOLUTION" in line:
            if start is not None:
                raise ValueError(f"{grade_id}, line {index + 1}: a solution begins inside the one of line {start + 1}")
            start = index
            out += _stub(source, index, number, grade_id, line[: len(line) - len(line.lstrip())])
        elif "END SOLUTION" in line:
            if start is None:
                raise ValueError(f"{grade_id}, line {index + 1}: END SOLUTION without BEGIN SOLUTION")
            start = None
        elif start is None:
            out.append(line)
    if start is not None:
        raise ValueError(f"{grade_id}, line {start + 1}: the solution has no END SOLUTION")
    stubbed = "\n".join(out)
    try:
        ast.parse(stubbed)
    except SyntaxError as error:
        raise ValueError(f"{grade_id}: with its stub the cell is no valid Python, line {error.lineno}: {error.msg}") from error
    return stubbed


def _stub(source: str, index: int, number: str, grade_id: str, indent: str) -> list[str]:
    function = _function_around(source, index + 1)
    if function is None:
        raise ValueError(f"{grade_id}, line {index + 1}: a solution must stand inside a function, or its stub could not wait")
    if any("jit" in ast.unparse(decorator) for decorator in function.decorator_list):
        return [f"{indent}pass  # {number}: yours to write"]
    wanted = exercise(number).signature if function.name == exercise(number).entry else function.name
    return [f"{indent}# your code here", f'{indent}raise NotImplementedError("{number}: {wanted} is yours to write")']


def _function_around(source: str, line: int) -> ast.FunctionDef | None:
    """The innermost function whose body spans this line."""
    found = None
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef) and node.lineno < line <= (node.end_lineno or 0):
            found = node if found is None or node.lineno > found.lineno else found
    return found
