"""Exercise 2.11, a learner's test: the caches that it has to accept, those that it has to refuse, and what is said where it errs.

A case is what the process beside the learner's code gets, so it holds no label: two numbers from which workloads/faulty_caches.py
makes the cache, and a name that says nothing. Which numbers are of a right cache is known here, where the test is judged. Right
and broken caches of a group share their first numbers, and come in an order that is drawn.
"""

import random
from collections.abc import Callable
from typing import Any

from ...grading.criteria import Case
from ...grading.outcome import Mistake

RIGHT = ("lowest page first", "highest page first", "any page")
FAULTS = {
    "append": (
        "wrong rank", "page for each token", "always slot 0", "page too early", "last slot unused", "one length for all",
        "takes another's page", "keeps one page", "another error when full",
    ),
    "gather": (
        "whole last page", "from the page's start", "drops the last part", "pages in a row", "sorted pages", "values are keys",
        "half precision", "beyond the end", "another error behind the end", "empty anywhere", "no empty range",
    ),
    "over time": (
        "gives a view", "keeps what it is given", "free keeps a page", "free forgets the name only", "page given back twice",
        "a refused token counts",
    ),
}  # fmt: skip
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
    "another error when full": (
        "raises IndexError when no page is free", "Which exceptions does your test take for a refusal by append?"
    ),
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
    "another error behind the end": (
        "raises ValueError for a range behind the end", "Which exceptions does your test take for a refusal by gather?"
    ),
    "empty anywhere": (
        "gives an empty range behind the end", "stop lies behind the last token: is that allowed when start = stop?"
    ),
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
ASKS_MORE = (
    "Each thing that you ask for: does the table of rules have it, as it stands there? Not promised are which page is handed "
    "out, what append and free return, and names that are not there. Tokens are float32."
)
RETURNS = "A result is not looked at. A broken cache has to make the test raise: `assert condition, message`."
FORMS = 3  # first numbers in a group: as many as right caches, so that broken ones have each of them too


def cache_cases(group: str) -> Callable[[int], list[Case]]:
    """cases(seed) of one group of faults: the right caches and one case for each fault, in an order that is drawn."""

    def cases(seed: int) -> list[Case]:
        from ...workloads.faulty_caches import turn_of

        draw = random.Random(seed)
        forms = [draw.randrange(2**31) for _ in range(FORMS)]
        kinds = [(kind, forms[place % FORMS]) for place, kind in enumerate((*RIGHT, *FAULTS[group]))]
        draw.shuffle(kinds)
        return [
            {"name": f"cache {place + 1}", "form": form, "turn": turn_of(kind, form), "seed": draw.randrange(2**31)}
            for place, (kind, form) in enumerate(kinds)
        ]

    return cases


def kind_of(case: Case) -> str:
    """Which of RIGHT or FAULTS a case holds."""
    from ...workloads.faulty_caches import turn_of

    return next(kind for kind in (*RIGHT, *TOLD) if turn_of(kind, case["form"]) == case["turn"])


def check_verdict(case: Case, output: Any) -> Mistake | None:
    """Whether the test said of this cache what it should have said."""
    from ...workloads.faulty_caches import MOST_CALLS

    if isinstance(output, dict) and output.get("too many"):
        return Mistake(f"your test calls the methods of its caches more than {MOST_CALLS:,} times", "Fewer rounds are plenty.")
    if not isinstance(output, dict) or not (isinstance(output.get("raised", output.get("returned")), str)):
        return Mistake("the test did not come to an end")
    kind = kind_of(case)
    if kind in RIGHT:
        said = f"a right cache, {kind}: your test refused it: {output.get('raised')}"
        return Mistake(said, ASKS_MORE) if "raised" in output else None
    if "raised" in output:
        return None
    broken, hint = TOLD[kind]
    if output["returned"] != "None":
        return Mistake(f"a cache that {broken}: your test accepted it, and returned {output['returned']}", RETURNS)
    return Mistake(f"a cache that {broken}: your test accepted it", hint)
