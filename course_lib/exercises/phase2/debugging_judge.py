"""Holds what a cache in pages did beside a dictionary: sequence -> the numbers of its tokens. The first difference counts."""

from typing import Any

from ...grading.criteria import Case
from ...grading.outcome import Mistake
from ..runners.phase2_debugging import token

VIEW = "gather gave the cache's own memory, and it was written into. Copies are needed, for every range."
UNWRITTEN = "Memory that nobody wrote came out."
PLACE = "Token t of a sequence lies in its page t // page_size, in slot t % page_size, as it was appended."
BEHIND = "An empty range is allowed up to the last token: stop may be the number of tokens, not more."
NOT_ALL_IN = "Is everything as before, after a refusal? Refuse before anything is changed."


def check_operations(case: Case, records: Any) -> Mistake | None:
    """The first mistake in the records of all operations of a case."""
    texts: dict[str, list[int]] = {}
    size, pages, gathered = case["page_size"], case["num_pages"], False
    for place, operation in enumerate(case["operations"]):
        where = f"{pages} pages of {size}, operation {place + 1}, {_told(operation)}"
        record = records[place] if isinstance(records, list) and place < len(records) else None
        if not isinstance(record, dict):
            return Mistake(f"{where}: it was not carried out")
        mistake = _check_one(texts, operation, record, size, pages, gathered)
        if mistake:
            return Mistake(f"{where}: {mistake.reason}", mistake.hint)
        gathered = gathered or operation[0] == "gather"
    return None


def _check_one(
    texts: dict[str, list[int]], operation: list, record: dict, size: int, num_pages: int, gathered: bool
) -> Mistake | None:
    kind, seq, *rest = operation
    wanted = _refusal(texts, operation, size, num_pages)
    if "raised" in record:
        return Mistake(f"raised {record['raised']}", _refused_hint(texts, operation, size, wanted))
    refused = record.get("refused", "")
    if wanted and not refused:
        why = "no page is free" if wanted == "MemoryError" else f"{seq!r} has {len(texts[seq])} tokens"
        hint = (BEHIND if rest[0] == rest[1] else UNWRITTEN) if kind == "gather" else ""
        return Mistake(f"was accepted, though {why}; expected {wanted}", hint)
    if refused != wanted:
        expected = f", expected {wanted}" if wanted else ", but it is possible"
        return Mistake(f"raised {record['said']}{expected}", _refused_hint(texts, operation, size, wanted))
    if not wanted:
        _apply(texts, operation)
    if mistake := _check_pages(texts, record.get("pages"), seq, size, num_pages, bool(wanted)):
        return mistake
    if kind == "append" and not wanted:
        return _check_read(texts[seq], record.get("read"), size, gathered)
    if kind == "gather" and not wanted:
        return _check_gathered(texts[seq], rest[0], rest[1], record.get("gathered"), size, gathered)
    return None


def _refusal(texts: dict[str, list[int]], operation: list, size: int, num_pages: int) -> str:
    kind, seq, *rest = operation
    if kind == "append" and len(texts.get(seq, [])) % size == 0:
        return "" if sum(-(-len(text) // size) for text in texts.values()) < num_pages else "MemoryError"
    return "IndexError" if kind == "gather" and rest[1] > len(texts[seq]) else ""


def _apply(texts: dict[str, list[int]], operation: list) -> None:
    kind, seq, *rest = operation
    if kind == "append":
        texts.setdefault(seq, []).append(rest[0])
    elif kind == "free":
        del texts[seq]


def _raised_hint(texts: dict[str, list[int]], operation: list, size: int) -> str:
    kind, seq, *rest = operation
    if kind == "gather" and rest[0] == rest[1]:
        return "An empty range is a range: no rows come of it."
    if kind == "append" and seq in texts and len(texts[seq]) % size:
        return "The last page of this sequence has room for this token."
    if kind == "append":
        return "Does anything remain of a sequence that was freed, or of a token that was refused?"
    return ""


def _refused_hint(texts: dict[str, list[int]], operation: list, size: int, wanted: str) -> str:
    """Where a refusal came that is none, or one with another name."""
    kind, seq, *rest = operation
    if wanted == "MemoryError":
        return "No page is free: refuse, with MemoryError, before one is taken."
    if kind == "gather" and not wanted and rest[0] < rest[1] == len(texts[seq]):
        return "stop itself is not asked for: it may be the number of tokens."
    return _raised_hint(texts, operation, size)


def _check_pages(texts: dict[str, list[int]], tables: Any, mine: str, size: int, num_pages: int, refused: bool) -> Mistake | None:
    """Tables of all sequences: as long as they should be, in the cache, and no page twice."""
    if not isinstance(tables, dict):
        return Mistake("pages were not asked for")
    owner: dict[int, str] = {}
    for seq in sorted(texts, key=lambda seq: (seq != mine, seq)):
        table, tokens = tables.get(seq), len(texts[seq])
        if not isinstance(table, list) or not all(type(page) is int for page in table):
            return Mistake(f"pages({seq!r}) is no list of numbers")
        need = -(-tokens // size)
        if len(table) != need:
            said = f"{seq!r} has {tokens} tokens in {len(table)} pages, expected {need}"
            early = len(table) == tokens // size + 1
            return Mistake(said, NOT_ALL_IN if refused else "A page is opened by the first token in it." if early else "")
        for page in table:
            if not 0 <= page < num_pages:
                return Mistake(f"{seq!r} has page {page}; there are 0 to {num_pages - 1}")
            if page in owner:
                return Mistake(f"page {page} is in use twice, by {owner[page]!r} and {seq!r}", "When is a page free?")
            owner[page] = seq
    return None


def _check_read(text: list[int], read: Any, size: int, gathered: bool) -> Mistake | None:
    """The newest page, as a kernel reads it."""
    import torch

    held = (len(text) - 1) % size + 1
    if not isinstance(read, list) or len(read) != 2 or not all(isinstance(x, torch.Tensor) and x.dim() == 3 for x in read):
        return Mistake("k_pages and v_pages could not be read", "Keep both as they are: [num_pages, page_size, 2, 4].")
    for name, part, want in zip(("k_pages", "v_pages"), read, _tensors(text[-held:]), strict=True):
        if part.shape[0] < held or not torch.equal(part[:held], want):
            slots = [slot for slot in range(min(held, part.shape[0])) if not torch.equal(part[slot], want[slot])]
            other = _tensors(text[-held:])[name == "k_pages"]
            swapped = part[:held].shape == other.shape and torch.equal(part[:held], other)
            hint = "Keys lie in k_pages, values in v_pages." if swapped else PLACE
            hint = VIEW if gathered and (part[:held] == -2.0).any() else hint
            return Mistake(f"{name} of its last page, slots {slots or list(range(held))}: not what was appended", hint)
    return None


def _check_gathered(text: list[int], start: int, stop: int, got: Any, size: int, before: bool) -> Mistake | None:
    import torch

    if not isinstance(got, list) or not all(isinstance(x, torch.Tensor) for x in got):
        return Mistake("expected a pair of tensors (k, v)")
    want = _tensors(text[start:stop])
    for name, part, right in zip("kv", got, want, strict=True):
        if part.shape != right.shape:
            return Mistake(
                f"{name} has shape {tuple(part.shape)}, expected {tuple(right.shape)}", _shape_hint(part, start, stop, size)
            )
        if part.dtype != right.dtype:
            return Mistake(f"{name} is {part.dtype}, expected {right.dtype}")
        if not torch.equal(part, right):
            row = next(i for i in range(len(right)) if not torch.equal(part[i], right[i]))
            return Mistake(
                f"{name}, row {row} (token {start + row}): not what was appended",
                _value_hint(text, start, part, row, size, before),
            )
    return None


def _shape_hint(part: Any, start: int, stop: int, size: int) -> str:
    if part.dim() == 3 and part.shape[0] == -(-stop // size) * size - start // size * size:
        return "Whole pages came. Which of their rows were asked for?"
    if part.dim() == 3 and part.shape[0] < stop - start:
        return "The last page of a range need not be wanted whole, and is wanted all the same."
    return "[stop - start, 2, 4], also for an empty range."


def _value_hint(text: list[int], start: int, part: Any, row: int, size: int, before: bool) -> str:
    import torch

    if part[row].isnan().any():
        return UNWRITTEN
    if before and (part[row] == -2.0).all():
        return VIEW
    keys, values = _tensors(text)
    other = [i for i in range(len(text)) if torch.equal(part[row], keys[i]) or torch.equal(part[row], values[i])]
    if other and start % size and other[0] == start // size * size + row:
        return "A range may begin in the middle of a page."
    if other:
        return f"That is token {other[0]}. In which order are a sequence's pages read, and from which slot?"
    return "Does it come from another sequence's page?"


def _tensors(numbers: list[int]) -> list[Any]:
    """Keys and values [tokens, 2, 4] of tokens with these numbers."""
    import torch

    if not numbers:
        return [torch.empty(0, 2, 4), torch.empty(0, 2, 4)]
    both = torch.tensor([token(number) for number in numbers])
    return [both[:, 0], both[:, 1]]


def _told(operation: list) -> str:
    kind, seq, *rest = operation
    if kind == "append":
        return f"append({seq!r}, ...)"
    return f"{kind}({', '.join(map(repr, [seq, *rest]))})"
