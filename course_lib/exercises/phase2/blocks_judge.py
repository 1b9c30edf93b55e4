"""Holds what a memory in blocks showed after each operation beside the books: refusals, tables, free blocks, slots.

The first difference is the mistake. Blocks of the books and numbers of the answer are matched as they are opened: a block that is
held has one number, and no other block has it.
"""

from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case
from ...grading.outcome import Mistake
from .blocks_books import Books, Operation

TRACE = "This sequence was refused something before. Did that leave tokens, or blocks, behind?"


def check_operations(case: Case, records: Any) -> Mistake | None:
    """The first mistake in the records of all operations of a case."""
    books, numbers = Books(case["num_blocks"], case["block_size"]), {}
    refused: set[str] = set()
    for place, operation in enumerate(case["operations"]):
        where = f"operation {place + 1}, {_told(operation)}"
        if not isinstance(records, list) or place >= len(records) or not isinstance(records[place], dict):
            return Mistake(f"{where}: it was not carried out")
        mistake = _check_one(books, numbers, operation, records[place])
        if mistake:
            blocks = f"{case['num_blocks']} blocks of {case['block_size']}"
            hint = TRACE if operation[1] in refused and operation[0] != "free" and not books.refusal(operation) else mistake.hint
            return Mistake(f"{blocks}, {where}: {mistake.reason}", hint)
        if "refused" in records[place] and operation[0] == "append":
            refused.add(operation[1])
    return None


def _check_one(books: Books, numbers: dict[int, int], operation: Operation, record: dict) -> Mistake | None:
    refusal = books.refusal(operation)
    if "raised" in record:
        wanted = f"it has to be refused ({refusal}), and that is a ValueError" if refusal else "it is possible"
        return Mistake(f"raised {record['raised']}; {wanted}")
    if "refused" in record and not refusal:
        takes = f"it takes {_count(books.new_blocks(operation), 'block')} and {books.num_free} are free"
        return Mistake(f"was refused ({record['refused']}), but {takes}", _refused_hint(books, operation))
    if refusal and "refused" not in record:
        return Mistake(f"was accepted, though {refusal}", "Raise ValueError before anything is changed.")
    before = dict(books.tokens)
    if not refusal:
        books.apply(operation)
    mistake = _check_state(books, numbers, operation, record, before)
    if mistake and refusal:
        hint = "First find out whether everything is possible, then change something." if books.tokens else mistake.hint
        return Mistake(f"was refused, as it has to be, and has changed something all the same: {mistake.reason}", hint)
    if mistake or refusal:
        return mistake
    return _check_result(books, operation, record, before)


def _refused_hint(books: Books, operation: Operation) -> str:
    takes = books.new_blocks(operation)
    if operation[0] == "append" and not takes:
        return "The last block of this sequence is not full."
    if operation[0] == "fork" and not takes:
        return "All its blocks are full, so nothing has to be copied."
    if takes and takes == books.num_free:
        return "The last free block can be had as well."
    return "Did something that was refused before leave a trace?"


def _check_state(books: Books, numbers: dict, operation: Operation, record: dict, before: dict[str, int]) -> Mistake | None:
    """Tables of all sequences, the one of this operation first, and the number of free blocks."""
    if "lost" in record:
        return Mistake(f"afterwards, table or num_free raised {record['lost']}")
    mine = operation[2] if operation[0] == "fork" else operation[1]
    tables = record.get("tables")
    for dead in numbers.keys() - books.held():
        del numbers[dead]
    for name in sorted(books.tables, key=lambda name: (name != mine, name)):
        table = tables.get(name) if isinstance(tables, dict) else None
        if mistake := _check_table(books, numbers, name, table, operation, before):
            return mistake
    if type(record["free"]) is not int or record["free"] != books.num_free:
        said = f"num_free() is {_short(record['free'])}, {books.num_free} of {books.num_blocks} blocks are held by nobody"
        return Mistake(said, _free_hint(books, record["free"], operation))
    return None


def _check_table(books: Books, numbers: dict, name: str, table: Any, operation: Operation, before: dict) -> Mistake | None:
    wanted, size, tokens = books.tables[name], books.block_size, books.tokens[name]
    if not isinstance(table, list) or not all(type(block) is int for block in table):
        return Mistake(f"table({name!r}) is {_short(table)}, expected a list of block numbers")
    if len(table) != len(wanted):
        said = f"{name!r} has {_count(tokens, 'token')} and {_count(len(table), 'block')}, expected {len(wanted)}"
        if name not in operation[1:]:
            return Mistake(said, "The operation was not about this sequence. Do two of them share a list?")
        return Mistake(said, _count_hint(len(table), tokens, size, tokens - before.get(name, 0)))
    owner = {number: block for block, number in numbers.items()}
    for position, (block, number) in enumerate(zip(wanted, table, strict=True)):
        here = f"block {position} of {name!r}"
        if not 0 <= number < books.num_blocks:
            return Mistake(f"{here} is number {number}, the memory has 0 to {books.num_blocks - 1}")
        if block in numbers and numbers[block] != number:
            other = next((one for one in books.tables if one != name and block in books.tables[one]), None)
            if other and operation[0] == "fork":
                return Mistake(f"{here} is number {number}, but {other!r} has the same tokens in {numbers[block]}",
                               "A full block is never written again. Is there a reason to have it twice?")  # fmt: skip
            said = f"{here} was number {numbers[block]} and is {number} now"
            return Mistake(said, "Keys and values that are written stay there.")
        if block not in numbers and number in owner:
            holder = next((one for one in books.tables if owner[number] in books.tables[one]), name)
            hint = "Was it given back while somebody still held it, or is it still among the free ones?"
            if operation[0] == "fork" and holder == operation[1]:
                hint = "Parent and child will both write into it. What does the child need of its own?"
            return Mistake(f"{here} is number {number}, which {holder!r} holds", hint)
        numbers[block] = number
        owner[number] = block
    return None


def _count_hint(got: int, tokens: int, size: int, added: int) -> str:
    if got == tokens // size + 1:
        return f"A block is opened by the first token in it. {size} tokens need one block, {size + 1} need two."
    if got == tokens or (added == 1 and got > tokens // size + 1):
        return "Does the last block have room for this token?"
    if got == tokens // size:
        return "The last tokens fill only a part of a block. Do they have one?"
    return "How many blocks do so many tokens need?"


def _free_hint(books: Books, got: Any, operation: Operation) -> str:
    if type(got) is not int:
        return ""
    if got < books.num_free:
        return (
            "Some blocks are held by no sequence and were not given back."
            if operation[0] == "free"
            else ("A block that two sequences hold is one block.")
        )
    if operation[0] == "free":
        return "Another sequence holds some of these blocks too. When is a block free?"
    return "Is there a number in the list of free blocks twice, or one that somebody holds?"


def _check_result(books: Books, operation: Operation, record: dict, before: dict[str, int]) -> Mistake | None:
    got, tables, size = record["returned"], record["tables"], books.block_size
    if operation[0] == "append":
        name, table = operation[1], tables[operation[1]]
        positions = range(before[name], books.tokens[name])
        wanted = [table[p // size] * size + p % size for p in positions]
        if got == wanted:
            return None
        said = f"returned {_short(got)}, expected {_short(wanted)} for tokens {positions[0]} to {positions[-1]} in blocks {table}"
        return Mistake(said, next((hint for hint, value in _slot_slips(table, positions, size) if value == got), ""))
    if operation[0] == "fork":
        parent, child = tables[operation[1]], tables[operation[2]]
        wanted = [[parent[-1], child[-1]]] if books.tokens[operation[1]] % size else []
        if got == wanted:
            return None
        hint = (
            "Source first, then destination."
            if wanted and got == [wanted[0][::-1]]
            else ("A list of pairs; it is empty when the parent's last block is full.")
        )
        return Mistake(f"returned {_short(got)}, expected {_short(wanted)}", hint)
    return None


def _slot_slips(table: list[int], positions: range, size: int) -> Iterator[tuple[str, list[int]]]:
    """(hint, the slots that this slip leads to)"""
    yield (
        "This is where all its tokens lie. Which of them are new?",
        [table[p // size] * size + p % size for p in range(positions.stop)],
    )
    yield "Every token lands in the first slot of a block.", [table[p // size] * size for p in positions]
    yield "Every token lands in the first slot of a block.", [table[-1] * size for _ in positions]
    yield "That is the place in the block. Which block?", [p % size for p in positions]
    yield "That is the position in the sequence. Where does its block lie?", list(positions)
    yield "That is the block. Which slot in it?", [table[p // size] for p in positions]
    yield "A block begins at its number times what?", [table[p // size] + p % size for p in positions]
    yield (
        "Where does the first new token lie? The sequence has tokens already.",
        [table[i // size] * size + i % size for i in range(len(positions))],
    )
    yield (
        "The first token has position 0.",
        [table[min(p // size, len(table) - 1)] * size + p % size for p in range(positions.start + 1, positions.stop + 1)],
    )


def _told(operation: Operation) -> str:
    kind, *arguments = operation
    return f"{kind}({', '.join(map(repr, arguments))})"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 70 else f"{text[:66]} ..."
