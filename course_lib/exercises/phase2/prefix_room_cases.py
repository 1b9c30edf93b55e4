"""Cases of exercise 2.7 about blocks: who gets a copy, which block is evicted, and whether there is room.

Prompts end in a token that nobody else has, so that none is found as a whole.
"""

from ...grading.criteria import Case
from .prefix_draw import Draw, Run, case, fork_beside_a_twin, served, served_unpublished


def fork_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    size = draw.random.choice([3, 4, 5])
    return [_two_branches(draw, size), _three_branches(draw, size), _full_block(draw, size), _many_branches(draw, size)]


def _two_branches(draw: Draw, size: int) -> Case:
    """Both go on from the middle of a block: the first gets a copy, the second writes in place."""
    a, b = draw.name(), draw.name()
    operations = [["start", a, draw.tokens(2 * size + 1), ""], ["fork", a, b], ["append", b, draw.tokens(1)],
                  ["append", a, draw.tokens(1)], ["append", b, draw.tokens(size)], ["append", a, draw.tokens(3 * size)],
                  ["free", a], ["append", b, draw.tokens(1)], ["free", b]]  # fmt: skip
    return case("two branches", operations, 40, size)


def _three_branches(draw: Draw, size: int) -> Case:
    """A branch of a branch; the parent appends first, and leaves first."""
    a, b, c = (draw.name() for _ in range(3))
    operations = [["start", a, draw.tokens(size + 1), ""], ["fork", a, b], ["fork", b, c], ["append", a, draw.tokens(2 * size)],
                  ["free", a], ["append", c, draw.tokens(2)], ["append", b, draw.tokens(1)]]  # fmt: skip
    return case("a branch of a branch", [*operations, ["free", c], ["free", b]], 40, size)


def _full_block(draw: Draw, size: int) -> Case:
    """Forked at a block's edge there is nothing to copy: the next token opens a block."""
    a, b = draw.name(), draw.name()
    operations = [["start", a, draw.tokens(2 * size), ""], ["fork", a, b], ["append", b, draw.tokens(1)],
                  ["append", a, draw.tokens(size)], ["append", b, draw.tokens(1)], ["append", a, draw.tokens(1)]]  # fmt: skip
    return case("forked at a block's edge", [*operations, ["free", a], ["free", b]], 40, size)


def _many_branches(draw: Draw, size: int) -> Case:
    live, operations = [draw.name()], []
    operations.append(["start", live[0], draw.tokens(draw.random.randint(1, 2 * size)), ""])
    for _ in range(40):
        what, seq = draw.random.choice(["fork", "append", "append", "append", "free"]), draw.random.choice(live)
        if what == "fork" and len(live) < 6:
            live.append(draw.name())
            operations.append(["fork", seq, live[-1]])
        elif what == "free" and len(live) > 2:
            live.remove(seq)
            operations.append(["free", seq])
        else:
            operations.append(["append", seq, draw.tokens(draw.random.randint(1, size + 1))])
    return case("many branches", operations, 400, size)


def eviction_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    size = draw.random.choice([2, 3, 4])
    makers = (_oldest_first, _last_block_first, _what_it_reads_stays, _a_reader_stays, _a_fork_goes_along, _refused_start,
              _mixed_evictions)  # fmt: skip
    return [make(draw, size) for make in makers]


def _oldest_first(draw: Draw, size: int) -> Case:
    """Three prompts of two blocks, the first one read again; then room is needed for one block at a time."""
    texts = [draw.tokens(2 * size) for _ in range(3)]
    order = [texts[0], texts[1], texts[2], texts[0]]
    operations = list(served(draw, [text + draw.tokens(1) for text in order]))
    operations += served_unpublished(draw, [draw.tokens(3 * size)])  # 8 blocks, 6 cached: evicts one
    operations += served(draw, [text + draw.tokens(1) for text in (texts[0], texts[2], texts[1])])
    return case("the longest unread goes first", operations, 8, size)


def _last_block_first(draw: Draw, size: int) -> Case:
    """One prompt of five blocks, and then one block after the other is needed: the beginning is worth most."""
    text = draw.tokens(5 * size)
    operations = list(served(draw, [text + draw.tokens(1)]))
    for blocks in (2, 3, 5):  # 6 blocks, 5 cached at first
        operations += served_unpublished(draw, [draw.tokens(blocks * size)])
        operations += served_unpublished(draw, [text[: (6 - blocks) * size] + draw.tokens(1)])
    return case("the end before the beginning", operations, 6, size)


def _what_it_reads_stays(draw: Draw, size: int) -> Case:
    """Room is needed for a prompt whose own beginning has been unread for longest: somebody else's end goes."""
    old, other = draw.tokens(2 * size), draw.tokens(2 * size)
    operations = list(served(draw, [old + draw.tokens(1), other + draw.tokens(1)]))
    operations += served_unpublished(draw, [old + draw.tokens(3 * size)])  # 2 blocks free, 4 cached: needs 3, reads 2
    operations += served_unpublished(draw, [other + draw.tokens(1), old + draw.tokens(1)])
    return case("its own beginning is the oldest", operations, 6, size)


def _a_reader_stays(draw: Draw, size: int) -> Case:
    """A beginning that a running sequence reads is not evicted, however old it is."""
    system, other = draw.tokens(2 * size), draw.tokens(2 * size)
    a, b = draw.name(), draw.name()
    operations = [["start", a, system + draw.tokens(size + 1), ""], ["publish", a],
                  ["start", b, system + draw.tokens(1), ""], ["free", a]]  # fmt: skip
    operations += served(draw, [other + draw.tokens(1)])
    operations += served_unpublished(draw, [draw.tokens(6 * size)])
    operations += [["append", b, draw.tokens(size)], ["free", b]]
    operations += served_unpublished(draw, [system + draw.tokens(1), other + draw.tokens(1)])
    return case("a running sequence keeps its blocks", operations, 9, size)


def _a_fork_goes_along(draw: Draw, size: int) -> Case:
    """Its first block was computed twice; one of two who share it publishes, and the other one stays."""
    operations, stays = fork_beside_a_twin(draw, text := draw.tokens(2 * size), size)
    operations += served_unpublished(draw, [draw.tokens(3 * size), text + draw.tokens(1)])
    return case("a fork that has not published", [*operations, ["free", stays]], 5, size)


def _mixed_evictions(draw: Draw, size: int) -> Case:
    """Prompts of a few families in a pool that holds half of them. Nothing is refused."""
    families, live, run = [draw.tokens(4 * size) for _ in range(6)], [], Run(16, size)
    for _ in range(60):
        name, family = draw.name(), draw.random.choice(families)
        prompt = family[: draw.random.randint(0, 4 * size)] + draw.tokens(draw.random.randint(1, size))
        while run.reference.pool.num_held > 10:
            run.do(["free", live.pop(0)])
        if run.do(["start", name, prompt, ""]):
            run.do(["publish", name])
            live.append(name)
        if len(live) > draw.random.randint(0, 2):
            run.do(["free", live.pop(draw.random.randrange(len(live)))])
    return case("a few families of prompts", run.operations + [["free", name] for name in live], 16, size)


def room_cases(seed: int) -> list[Case]:
    draw = Draw(seed)
    size = draw.random.choice([2, 3, 4])
    makers = (_too_large, _own_beginning, _no_room_for_a_copy, _nothing_leaks, _refused_append)
    return [make(draw, size) for make in makers]


def _too_large(draw: Draw, size: int) -> Case:
    """Refused with every block in use, served as soon as one can be had; who was there reads what was theirs."""
    a, b, c, text = draw.name(), draw.name(), draw.name(), draw.tokens(2 * size)
    operations = [["start", a, text + draw.tokens(1), ""], ["publish", a], ["start", b, draw.tokens(2 * size), ""],
                  ["start", c, draw.tokens(size + 1), ""], ["append", b, draw.tokens(size + 1)],
                  ["append", b, draw.tokens(size)], ["append", b, draw.tokens(1)], ["free", a],
                  ["start", c, draw.tokens(6 * size), ""], ["start", c, text + draw.tokens(2 * size), ""],
                  ["append", b, draw.tokens(1)], ["free", b], ["start", c, text[:size] + draw.tokens(3 * size), ""],
                  ["free", c], ["start", c, draw.tokens(6 * size), ""]]  # fmt: skip
    return case("refused, and served later", operations, 6, size)


def _own_beginning(draw: Draw, size: int) -> Case:
    """Its own cached beginning is all that could be evicted: then there is no room."""
    text, late = draw.tokens(3 * size), draw.name()
    operations = list(served(draw, [text + draw.tokens(1)]))
    operations += [["start", late, text + draw.tokens(2 * size), ""], ["start", late, text + draw.tokens(size), ""],
                   ["append", late, draw.tokens(1)], ["free", late]]  # fmt: skip
    return case("only what it reads itself could be evicted", operations, 4, size)


def _no_room_for_a_copy(draw: Draw, size: int) -> Case:
    """A fork needs no block; its next token does."""
    a, b = draw.name(), draw.name()
    operations = [["start", a, draw.tokens(2 * size + 1), ""], ["fork", a, b], ["append", b, draw.tokens(1)],
                  ["append", a, draw.tokens(size)], ["free", b], ["append", a, draw.tokens(1)], ["free", a],
                  ["start", b, draw.tokens(3 * size), ""]]  # fmt: skip
    return case("no room for a copy", operations, 3, size)


def _refused_start(draw: Draw, size: int) -> Case:
    """What a refused start had found is as long without a reader as before, and goes first."""
    old, younger = draw.tokens(2 * size), draw.tokens(size)
    reader, late = draw.name(), draw.name()
    operations = list(served(draw, [old, younger]))
    operations += [["start", reader, draw.tokens(2 * size), ""]]  # 6 blocks: 2 read, 3 cached, 1 free
    operations += [["start", late, old + draw.tokens(2 * size + 1), ""]]  # 3 blocks wanted, 2 to be had
    operations += served_unpublished(draw, [draw.tokens(size + 1), old + draw.tokens(1), younger + draw.tokens(1)])
    return case("a refused start is forgotten", [*operations, ["free", reader]], 6, size)


def _refused_append(draw: Draw, size: int) -> Case:
    """An append that cannot be served evicts nothing."""
    text, reader = draw.tokens(2 * size), draw.name()
    operations = list(served(draw, [text]))
    operations += [["start", reader, draw.tokens(size), ""]]  # 4 blocks: 1 read, 2 cached, 1 free
    operations += [["append", reader, draw.tokens(4 * size)]]
    operations += served_unpublished(draw, [text + draw.tokens(1)])
    return case("a refused append is forgotten", [*operations, ["free", reader]], 4, size)


def _nothing_leaks(draw: Draw, size: int) -> Case:
    """Everything mixed, two who computed the same included; in the end all blocks can be had, and not one more."""
    blocks = 150  # so many that nothing is evicted before the end
    live, run = [], Run(blocks, size)
    families = [draw.tokens(3 * size) for _ in range(3)]
    twin = draw.tokens(2 * size)
    for _ in range(2):  # computed twice, published twice: the second gives its own blocks back
        live.append(draw.name())
        run.do(["start", live[-1], twin + draw.tokens(1), ""])
    run.do(["publish", live[0]])
    run.do(["publish", live[1]])
    live.append(draw.name())
    run.do(["fork", live[0], live[-1]])
    run.do(["append", live[-1], draw.tokens(size)])
    run.do(["append", live[0], draw.tokens(1)])
    run.do(["append", live[1], draw.tokens(size - 1)])  # full to the edge
    live.append(draw.name())
    run.do(["fork", live[1], live[-1]])
    run.do(["append", live[-1], draw.tokens(1)])
    probe = draw.name()
    run.do(["start", probe, draw.tokens(run.reference.pool.num_available * size), ""])
    run.do(["free", probe])
    for _ in range(60):
        what = draw.random.choice(["start", "start", "fork", "append", "append", "publish", "free"])
        seq = draw.random.choice(live) if live else None
        if what == "start" or seq is None:
            name, family = draw.name(), draw.random.choice(families)
            prompt = family[: draw.random.randint(0, 3 * size)] + draw.tokens(draw.random.randint(1, size))
            if run.do(["start", name, prompt, ""]):
                live.append(name)
        elif what == "fork" and len(live) < 7:
            live.append(draw.name())
            run.do(["fork", seq, live[-1]])
        elif what == "append":
            run.do(["append", seq, draw.tokens(draw.random.randint(1, size))])
        elif what == "publish":
            run.do(["publish", seq])
        elif what == "free":
            live.remove(seq)
            run.do(["free", seq])
    operations = run.operations + [["free", name] for name in live]
    last = draw.name()
    operations += [["start", last, draw.tokens(blocks * size + 1), ""], ["start", last, draw.tokens(blocks * size), ""],
                   ["append", last, draw.tokens(1)], ["free", last]]  # fmt: skip
    return case("everything, and then all blocks at once", operations, blocks, size)
