"""Cases of exercise 2.7 about look-ups: what is found, what must not be, and what a look-up costs. The pool is ample.

Prompts end in a token that nobody else has, save where it matters that a prompt can be found as a whole.
"""

from ...grading.criteria import Case
from .prefix_draw import Draw, case, fork_beside_a_twin, served, served_unpublished


def hit_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    size = draw.random.choice([3, 4, 5])
    return [_at_the_edges(draw, size), _elsewhere(draw, size), _not_yet(draw, size), _many_beginnings(draw, size),
            _many_beginnings(draw, 1)]  # fmt: skip


def _at_the_edges(draw: Draw, size: int) -> Case:
    """Prompts that agree with the first one up to a block's edge, one token less and one more."""
    first = draw.tokens(4 * size + 2)
    prompts = [first]
    for agree in (2 * size, 2 * size - 1, 2 * size + 1, size - 1, size, 0, 3 * size, 4 * size + 2):
        prompts.append(first[:agree] + draw.tokens(4 * size + 1 - agree if agree < 4 * size else 1))
    return case("up to a block's edge", list(served(draw, prompts)), 60, size)


def _elsewhere(draw: Draw, size: int) -> Case:
    """The same block of tokens behind other beginnings, and at other places: none of these is the same content."""
    a, b, shared = (draw.tokens(size) for _ in range(3))
    texts = [a + shared, b + shared, shared + a, a + a, shared + shared, b + shared + a, a + shared]
    return case("the same tokens elsewhere", list(served(draw, [text + draw.tokens(1) for text in texts])), 60, size)


def _not_yet(draw: Draw, size: int) -> Case:
    """What is not published cannot be found; what two computed at the same time can."""
    prompt, (a, b, c, d) = draw.tokens(3 * size), (draw.name() for _ in range(4))
    end = [draw.tokens(1) for _ in range(4)]
    operations = [["start", a, prompt + end[0], ""], ["start", b, prompt + end[1], ""], ["publish", a],
                  ["start", c, prompt + end[2], ""], ["publish", b], ["publish", c],
                  ["append", a, draw.tokens(size)], ["start", d, prompt + end[3], ""]]  # fmt: skip
    operations += [["free", seq] for seq in (a, b, c, d)]
    return case("before and after it is published", operations, 40, size)


def _many_beginnings(draw: Draw, size: int) -> Case:
    """Conversations that go on and branch; nobody leaves before the end, so that the same blocks are found many times."""
    texts, operations = [draw.tokens(draw.random.randint(2 * size, 5 * size))], []
    names = []
    for _ in range(16):
        text = draw.random.choice(texts)
        prompt = text[: draw.random.randint(len(text) // 2, len(text))] + draw.tokens(draw.random.randint(1, 2 * size + 1))
        texts.append(prompt)
        names.append(draw.name())
        operations += [["start", names[-1], prompt, ""], ["publish", names[-1]]]
    return case(f"conversations that branch, blocks of {size}", operations + [["free", n] for n in names], 600, size)


def whole_prompt_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    size = draw.random.choice([2, 4, 5])
    text = draw.tokens(4 * size)
    prompts = [text, text, text[: 3 * size], text[:size], text[: 2 * size + 1], text + draw.tokens(1), text[:1]]
    return [case("the same prompt again", list(served(draw, prompts)), 60, size)]


def tenant_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    size = draw.random.choice([3, 4])
    text = draw.tokens(3 * size)
    salts = ["", "red", "blue", "red", "", "re", "blue", "redblue"]
    prompts = [text + draw.tokens(1) for _ in salts]
    return [case("one prompt, several tenants", list(served(draw, prompts, salts)), 80, size)]


COLLIDING = {
    "one name": "one name for everything",
    "forgets": "names that forget what came before",
    "few names": "four names in all",
}


def collision_cases(seed: int) -> list[Case]:
    """Names that say too little. Content decides: a look-up may miss what is there, and must not serve what is not."""
    draw = Draw(seed)
    cases = []
    for kind, title in COLLIDING.items():
        size = draw.random.choice([2, 3, 4])
        a, b, shared = (draw.tokens(size) for _ in range(3))
        starts = [a + shared, b + shared, a + shared, shared + a, b + shared + a, b + b, shared]
        starts += [draw.tokens(size) + shared for _ in range(6)]
        salts = ["", "", "red", "blue"] + [draw.random.choice(["", "red"]) for _ in starts[4:]]
        prompts = [text + draw.tokens(1) for text in starts]
        again = list(range(len(prompts)))
        draw.random.shuffle(again)
        second = [starts[i] + draw.tokens(1) for i in again]
        operations = list(served(draw, prompts + second, salts + [salts[i] for i in again]))
        cases.append(case(title, operations, 300, size, hash=kind, **{"fewer hits": True}))
        cases.append(_collide_and_go(draw, kind, title))
    return [*cases, _another_in_its_place(draw)]


def _collide_and_go(draw: Draw, kind: str, title: str) -> Case:
    """Texts whose names repeat come and are evicted: now and then somebody needs all four blocks."""
    size = draw.random.choice([2, 3])
    texts = [draw.tokens(blocks * size) for blocks in (1, 1, 2, 2, 3)]
    operations: list[list] = []
    for _ in range(5):
        operations += served(draw, [text + draw.tokens(1) for text in draw.random.sample(texts, 3)])
        operations += served_unpublished(draw, [draw.tokens(4 * size)])
    return case(f"{title}, and evictions", operations, 4, size, hash=kind, **{"fewer hits": True})


def _another_in_its_place(draw: Draw) -> Case:
    """A block that was a named one's beginning is evicted, holds another text now, and is found: what followed on it is not."""
    size = draw.random.choice([2, 3, 4])
    operations, stays = fork_beside_a_twin(draw, text := draw.tokens(2 * size), size)
    others = [draw.name() for _ in range(3)]
    texts = [draw.tokens(size) for _ in others]
    operations += [["start", name, one, ""] for name, one in zip(others, texts, strict=True)]  # the last takes what was evicted
    operations += [["publish", others[-1]], *(["free", name] for name in others)]
    operations += served_unpublished(draw, [texts[-1] + text[size:] + draw.tokens(1)])
    return case("another text in a beginning's place", [*operations, ["free", stays]], 5, size, hash="forgets",
                **{"fewer hits": True})  # fmt: skip


COST_BLOCK, COST_TOKENS = 16, 2048


def cost_cases(seed: int) -> list[Case]:
    """A prompt whose beginning of 2048 tokens is cached, among others that are cached as well."""
    draw = Draw(seed)
    text = draw.tokens(COST_TOKENS)
    others = list(served(draw, [draw.tokens(8 * COST_BLOCK + 1) for _ in range(60)]))
    operations = [*others, *served(draw, [text + draw.tokens(1)]), ["start", draw.name(), text + draw.tokens(1), ""]]
    return [case("2048 cached tokens", operations, 1024, COST_BLOCK)]


def cost_bounds(case: Case) -> dict[str, float]:
    """Twice what is needed in calls; in bytes and tokens room for any encoding, and none for a square of the length."""
    tokens = len(case["operations"][-1][2])
    blocks = tokens // case["block_size"]
    return {"hash_calls": 2 * blocks + 2, "hashed_bytes": 64 * tokens + 256 * (blocks + 2), "tokens_looked_at": 16 * tokens}


def cost_hint(case: Case, name: str, got: float) -> str:
    return {
        "hash_calls": "One call for the salt and one for each block are enough.",
        "hashed_bytes": "Each call reads the whole beginning again. Make a name from the one before and its own block's tokens.",
        "tokens_looked_at": "A key of tokens is hashed and compared token by token: a block's may be, a whole beginning's not.",
    }[name]
