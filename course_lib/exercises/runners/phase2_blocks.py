"""Exercise 2.6: a memory in blocks, made by the learner's function, carries out operations; what it showed is written down.

Only numbers leave this process: what each operation returned, and how the tables and the count of free blocks looked after it.
"""

from itertools import islice
from operator import index
from typing import Any

__course_runner__ = True  # messages name the learner's line, not one of this file

MOST_NUMBERS = 4096  # of one result


def operations(entry: Any, case: dict) -> list[dict]:
    """One record for each operation: {"returned" or "refused" or "raised", "free", "tables"}. The list ends with what raised.

    ValueError is how an operation is refused. Any other error ends the run.
    """
    memory = entry(case["num_blocks"], case["block_size"])
    there: list[str] = []  # sequences, as far as the answer has agreed to them
    records = []
    for operation in case["operations"]:
        kind, *arguments = operation
        method = getattr(memory, kind)
        try:
            record = {"returned": _plain(method(*arguments))}
            _note(there, kind, arguments)
        except ValueError as error:
            record = {"refused": _said(error)}
        except NotImplementedError:  # still to be written
            raise
        except Exception as error:
            records.append({"raised": _said(error)})
            return records
        try:
            record |= {"free": _plain(memory.num_free()), "tables": {name: _plain(memory.table(name)) for name in there}}
        except (ValueError, LookupError) as error:
            record |= {"lost": _said(error)}
        records.append(record)
        if "lost" in record:
            return records
    return records


def waste(entry: Any, case: dict) -> Any:
    """What the learner's function says of three allocators."""
    return entry(1, case["block_size"]).waste([tuple(request) for request in case["requests"]], case["max_length"])


def _note(there: list[str], kind: str, arguments: list) -> None:
    if kind == "add" and arguments[0] not in there:
        there.append(arguments[0])
    elif kind == "fork" and arguments[1] not in there:
        there.append(arguments[1])
    elif kind == "free" and arguments[0] in there:
        there.remove(arguments[0])


def _plain(value: Any) -> Any:
    """A copy that no later operation can change: None, int, or a list of such; anything else by its type."""
    if value is None:
        return None
    if hasattr(value, "__index__") and not hasattr(value, "__iter__"):
        return index(value)
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        plain = value.tolist() if hasattr(value, "tolist") else value
        return [_plain(item) for item in islice(plain, MOST_NUMBERS)] if isinstance(plain, (list, tuple)) else index(plain)
    return {"type": type(value).__name__[:60]}


def _said(error: BaseException) -> str:
    """The error, and the line that raised it."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    line = f" (line {place.tb_lineno}, in {place.tb_frame.f_code.co_name})" if place is not None else ""
    return f"{type(error).__name__}: {str(error)[:150]}{line}"
