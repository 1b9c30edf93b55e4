"""Exercise 2.11, a learner's test: the caches that it has to accept, those that it has to refuse, and what is said where it errs.

Which cache a case holds is data ("kind" and "seed" of workloads/faulty_caches.py), so that the same cache is made beside the
learner's code.
"""

import random
from collections.abc import Callable
from typing import Any

from ...grading.criteria import Case
from ...grading.outcome import Mistake

TOLD = {  # what a learner hears of a cache
    "wrong rank": ("raises at the first append", "An exception that the cache raises should go through your test."),
    "page for each token": ("opens a page for each token", "How many pages may n tokens hold?"),
    "always slot 0": ("writes every token into slot 0", "Is every token still there after the next one has come?"),
    "page too early": ("opens the next page when the last one has just become full", "How many pages hold a full page's tokens?"),
    "last slot unused": ("never uses the last slot of a page", "How many tokens fit into one page?"),
    "one length for all": ("counts the tokens of all sequences together", "What if two sequences take turns?"),
    "takes another's page": (
        "takes another sequence's page when none is free", "What has to happen when every page is in use?"
    ),
    "keeps one page": ("refuses while one page is still free", "How many pages can be used, of num_pages?"),
    "whole last page": ("gathers to the end of the last page", "How many rows should come for a range?"),
    "from the page's start": ("gathers from the start of a page", "Where in a page does a range begin?"),
    "drops the last part": ("drops what lies behind the last whole page of a range", "Where in a page does a range end?"),
    "pages in a row": ("takes the first page's number and counts up", "When are a sequence's pages not neighbours?"),
    "sorted pages": (
        "reads a sequence's pages in order of their numbers", "What numbers does a sequence get from pages that were given back?"
    ),
    "values are keys": ("gives the keys twice", "There are two tensors to look at."),
    "half precision": ("rounds to bfloat16", "Which numbers survive a rounding to bfloat16? Small whole ones do."),
    "beyond the end": ("gives rows that nobody has written", "What has to happen for a range that ends behind the last token?"),
    "no empty range": ("fails for an empty range", "Is start = stop a range?"),
    "gives a view": (
        "gives its own memory, not a copy, when a range lies in one page", "Whose is the result? Write into it, and look."
    ),
    "keeps what it is given": (
        "keeps the tensors that it is given, not their values", "An engine writes the next token into the same buffer. Do you?"
    ),
    "free keeps a page": ("does not give the last page back", "How many tokens fit in after free, as compared with before?"),
    "free forgets the name only": (
        "lets a freed name go on at its old length", "What if a name comes again after it was freed?"
    ),
    "page given back twice": ("gives one page back twice", "Can two tokens get one place, once pages were given back?"),
    "a refused token counts": ("counts the token that it has refused", "Is everything as before, after a refusal?"),
}  # fmt: skip
ANY_PAGE = "Which page is handed out is the cache's affair. Do you ask for more than the table of rules promises?"
RETURNS = "A result is not looked at. A broken cache has to make the test raise: `assert condition, message`."


def cache_cases(group: str) -> Callable[[int], list[Case]]:
    """cases(seed) of one group of faults: the right caches first, then one case for each fault."""

    def cases(seed: int) -> list[Case]:
        from ...workloads.faulty_caches import FAULTS, RIGHT

        draw = random.Random(seed)
        right = [{"name": f"a right cache, {kind}", "kind": kind, "right": True} for kind in RIGHT]
        faulty = [{"name": f"a cache that {TOLD[kind][0]}", "kind": kind, "right": False} for kind in FAULTS[group]]
        return [case | {"seed": draw.randrange(2**31)} for case in right + faulty]

    return cases


def check_verdict(case: Case, output: Any) -> Mistake | None:
    """Whether the test said of this cache what it should have said."""
    if not isinstance(output, dict) or not (isinstance(output.get("raised", output.get("returned")), str)):
        return Mistake("the test did not come to an end")
    if case["right"]:
        return Mistake(f"your test refused it: {output['raised']}", ANY_PAGE) if "raised" in output else None
    if "raised" in output:
        return None
    if output["returned"] != "None":
        return Mistake(f"your test accepted it, and returned {output['returned']}", RETURNS)
    return Mistake("your test accepted it", TOLD[case["kind"]][1])
