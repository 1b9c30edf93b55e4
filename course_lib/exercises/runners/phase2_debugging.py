"""Exercise 2.11: a learner's test on caches of which some are broken, their own cache through operations, and their findings.

The entry gives three things: (check_cache, a class, diagnose). Those that are still to be written raise NotImplementedError
only when they are used.
"""

from typing import Any

__course_runner__ = True  # messages name the learner's line, not one of this file

HEADS, HEAD_DIM = 2, 4


def examine(entry: Any, case: dict) -> dict:
    """The learner's test on one cache -> {"returned": type's name} or {"raised": error}, whatever raised it.

    {"too many": True} when it called the cache's methods too often.
    """
    from course_lib.workloads.faulty_caches import MOST_CALLS, TooManyCalls, cache_maker

    check_cache, calls = entry()[0], [0]
    try:
        returned = check_cache(cache_maker(case["form"], case["turn"], case["seed"], calls))
        said = {"returned": "None" if returned is None else f"{type(returned).__name__} {str(returned)[:60]}"}
    except NotImplementedError:
        raise
    except TooManyCalls:
        return {"too many": True}
    except Exception as error:
        said = {"raised": _said(error)}
    return {"too many": True} if calls[0] > MOST_CALLS else said


def operate(entry: Any, case: dict) -> list[dict]:
    """One record for each operation on the learner's cache; the list ends with what raised an unexpected error.

    k and v of token number n are `token(n)`; they come in one buffer that is overwritten after each call. What gather gave is
    copied, then overwritten.
    """
    import torch

    cache = entry()[1](case["num_pages"], case["page_size"])
    buffer, records, there = torch.empty(2, HEADS, HEAD_DIM), [], []
    for kind, seq, *rest in case["operations"]:
        record: dict = {}
        try:
            if kind == "append":
                buffer.copy_(torch.tensor(token(rest[0])))
                cache.append(seq, buffer[0], buffer[1])
                there += [seq] if seq not in there else []
            elif kind == "gather":
                record["gathered"] = _taken(cache.gather(seq, *rest))
            else:
                cache.free(seq)
                there.remove(seq)
        except NotImplementedError:
            raise
        except (MemoryError, IndexError) as error:
            record["refused"] = "MemoryError" if isinstance(error, MemoryError) else "IndexError"
            record["said"] = _said(error)
        except Exception as error:
            records.append({"raised": _said(error)})
            return records
        buffer.fill_(-1.0)
        record["pages"] = {name: [int(page) for page in cache.pages(name)] for name in there}
        if kind == "append" and seq in there:
            record["read"] = _read(cache, seq, case["page_size"])
        records.append(record)
    return records


def findings(entry: Any, case: dict) -> Any:
    """What the learner's diagnose says of two scrapes."""
    return entry()[2](case["before"], case["after"], case["block_size"], case["bound_hits"])


def token(number: int) -> list:
    """[2, heads, dim]: keys and values of a token, exact in float32 and different for each number, head and place."""
    key = [[1024.0 * number + 8 * head + place for place in range(HEAD_DIM)] for head in range(HEADS)]
    return [key, [[-x - 0.5 for x in row] for row in key]]


def _taken(given: Any) -> Any:
    """Copies of the two tensors that gather gave, which are then overwritten: they are the caller's."""
    import torch

    if not isinstance(given, (tuple, list)) or len(given) != 2 or not all(isinstance(x, torch.Tensor) for x in given):
        return {"type": type(given).__name__}
    copies = [x.detach().clone() for x in given]
    for x in given:
        x.fill_(-2.0)
    return copies


def _read(cache: Any, seq: str, page_size: int) -> Any:
    """The newest page of a sequence as a decode kernel reads it: by its number, from k_pages and v_pages."""
    page = cache.pages(seq)[-1]
    return [cache.k_pages[page].detach().clone(), cache.v_pages[page].detach().clone()]


def _said(error: BaseException) -> str:
    """The error, and the line of the learner's that raised it."""
    place, found = error.__traceback__, ""
    while place is not None:
        code, name = place.tb_frame.f_code, str(place.tb_frame.f_globals.get("__name__"))
        ours = place.tb_frame.f_globals.get("__course_runner__") or name.startswith("course_lib.")
        if not ours and "site-packages" not in code.co_filename:
            found = f" (line {place.tb_lineno}, in {code.co_name})"
        place = place.tb_next
    return f"{type(error).__name__}: {str(error)[:150]}{found}"
