"""Exercise 2.10 names the slip that a learner made; its facts of the kernel are what the kernel does, run by threads."""

import types

import pytest
import torch

from course_lib.attention.hopper_kernel import hopper_forward_kernel
from course_lib.attention.hopper_ladder import EVERY_STEP
from course_lib.attention.hopper_launch import REGISTERS, TILES, HopperTile, Work, launch_arguments
from course_lib.course.live import check_live
from course_lib.exercises.phase2.overlap_numbers import expected_facts
from course_lib.grading.outcome import State
from course_lib.workloads.hopper_tile import TileShape

from ..attention import gluon_emulated as emulated
from .answers.phase2 import overlap as answers

SAYS = {
    "one_group": "only the load serves both",
    "a_load_each": "One load brings a tile for both groups",
    "loads_never_longest": "cannot hide behind it",
    "units_of_one_group": "two groups have work with each tile",
    "products_side_by_side": "on the same tensor cores",
    "never_exponentials": "When are exponentials the slowest?",
    "softmax_beside_all": "A softmax ends before the next scores are asked for",
    "softmax_beside_scores": "that of its scores, or of the values before?",
    "fp8_exponentials_too": "Exponentials are no faster in FP8",
    "fp8_same_loads": "half as many bytes to load",
    "fp8_upside_down": "the old time over the new one",
    "fp8_whole_cycles": "Half of an odd number of cycles",
    "fp8_whole_loads": "Half of an odd number of cycles",
    "fp8_rounded": "Do not round",
    "fp8_of_two_tiles": 'The gain is that of "both"',
    "both_as_two_tiles": "the other one's products can run, scores or values",
    "groups_from_one": "count from 0",
    "last_values_missing": "After the last tile's softmax",
    "a_load_for_each_group": "A load serves all groups",
    "units_are_free": "Each unit does one job at a time",
    "stages_for_ever": "which tile was in this one before",
    "one_stage_more": "the first that finds none empty, or the next?",
    "place_of_one_group": "when all groups are done with it",
    "keys_only": "holds the values of its tile as well",
    "registers_for_ever": "from the start of its qk to the end of its pv",
    "one_thing_at_a_time": "Every load waits until the tile before is done with",
    "no_load_ahead": "Every load waits until the tile before is done with",
    "values_first": "pv of tile 0 is over already",
    "in_step": "when they are of two groups?",
    "one_after_another": "when they are of two tiles?",
    "whoever_can_first": "which waits for softmax of tile",
    "pairs_of_one_tile": "which values are in the stage of a tile's keys?",
    "no_first_stage": "what is in the first stage of a walk?",
    "one_tile_more": "512 keys fill 4 tiles of 128",
    "always_128_columns": "head_dim 64 is a power of two: it takes 64 columns",
    "rows_of_all": "tile.rows is of one warpgroup",
    "all_stages_alike": "in the first stage of a walk, and what in the last?",
    "place_for_parity": "That is the place in the ring",
    "producer_s_parity": "what the producer waits for",
    "one_arrival": "with which count is `empty` made",
    "always_two": "tile.warpgroups is not always 2",
    "not_padded": "A block of a descriptor is a power of two wide",
    "rounded_down": "A tile that is not full is a tile",
    "result_for_nothing": "Where is the result before it leaves",
    "result_always": "Where is the result before it leaves",
    "one_ring": "Keys and values have a ring each",
    "no_weights": "the weights of this tile are still multiplied",
    "one_warp": "has three idle warps",
    "two_by_heart": "With 3 consumers a thread has other numbers",
}


@pytest.mark.parametrize("name", SAYS)
def test_a_slip_is_named(name):
    answer = next(answer for answer, _ in answers.WRONG if answer.__name__ == name)
    outcomes = [o for o in check_live("2.10", answer, seed=2).outcomes if o.state is State.FAILED]
    assert SAYS[name] in " ".join(o.hint for o in outcomes), [(o.reason, o.hint) for o in outcomes]


def of_numbers(number):
    names = ("in turn", "loads hidden", "two groups", "two tiles", "both", "fp8 gain", "stage_bytes", "full_parity",
             "empty_arrivals", "shared_bytes", "thread_registers", "block_registers")  # fmt: skip
    jobs = [("load", None, 0, number), ("qk", number, number, 0)]
    return lambda: (
        lambda cycles: dict.fromkeys(names, number),
        lambda *shape: jobs,
        lambda *tile: {name: [number] for name in names},
    )


@pytest.mark.parametrize("number", [float("nan"), float("inf"), 10**400, None, "4096", True, torch.zeros(2), [], b""], ids=repr)
def test_nonsense_fails_everything_with_a_reason(number):
    verdict = check_live("2.10", of_numbers(number), seed=1)
    assert all(o.state is State.FAILED and o.reason for o in verdict.outcomes)


def said_about(name):
    answer = next(answer for answer, _ in answers.WRONG if answer.__name__ == name)
    return [(o.reason, o.hint) for o in check_live("2.10", answer, seed=2).outcomes if o.state is State.FAILED]


def test_parts_of_a_tile_are_refused():
    assert all("group and tile whole numbers" in reason for reason, _ in said_about("half_tiles"))


def test_a_start_below_zero_has_no_misleading_hint():
    assert all("time begins at 0" in reason and not hint for reason, hint in said_about("before_the_beginning"))


def test_a_part_alone_earns_its_points():
    def only_paces():
        def still_open(*args):
            raise NotImplementedError("2.10: not yet")

        return answers.in_turns()[0], still_open, still_open

    assert check_live("2.10", only_paces, seed=1).score == 1.75


def test_the_tile_of_the_exercise_is_the_kernel_s():
    assert TileShape._fields == tuple(HopperTile.__slots__)
    assert all(tile.warpgroups in REGISTERS for tile in TILES.values())


@pytest.mark.parametrize(("tile", "head_dim", "kv_len"), [((2, 64, 128, 2, True), 128, 513), ((3, 64, 64, 3, False), 96, 200)])
def test_facts_are_what_the_kernel_does(tile, head_dim, kv_len, monkeypatch):
    stage_bytes, parities, counts, allocated = [], [], [], []
    tile, mbarrier, allocate = HopperTile(*tile), emulated.FAKES["mbarrier"], emulated.FAKE_GL.allocate_shared_memory
    full = set()

    def expect(barrier, size, pred=True):
        if size != tile.rows * 128 * 2 or (tile.rows == tile.keys and barrier in full):
            stage_bytes.append(int(size))
        mbarrier.expect(barrier, size, pred)

    def wait(barrier, parity):
        if barrier in full:
            parities.append(int(parity))
        mbarrier.wait(barrier, parity)

    def init(barrier, *, count):
        counts.append(count)
        mbarrier.init(barrier, count=count)

    def remember(dtype, shape, layout):
        made = allocate(dtype, shape, layout)
        if isinstance(made, emulated.MBarriers):
            barriers.append(made)
            full.update(barriers[2].all if len(barriers) > 2 else ())
        elif len(shape) == 5:  # tiles: the kernel may have some words besides
            allocated.append(made.data.numel() * made.data.element_size())
        return made

    barriers = []  # q_full, q_empty, full, empty: in the order in which the kernel makes them
    fakes = types.SimpleNamespace(**vars(mbarrier) | {"expect": expect, "wait": wait, "init": init})
    monkeypatch.setitem(emulated.FAKES, "mbarrier", fakes)
    monkeypatch.setattr(emulated.FAKE_GL, "allocate_shared_memory", remember)
    q, k, v = (torch.randn(1, n, 1, head_dim).bfloat16() for n in (tile.queries, kv_len, kv_len))
    out = torch.full_like(q, torch.nan)
    work = Work(q, k, v, out, None, False, head_dim**-0.5, tile.queries, kv_len)
    args, constants = launch_arguments(work, None, 1, EVERY_STEP, tile)
    blocks = [descriptor.block_shape for descriptor in args[:4]]
    args[:4] = [emulated.Descriptor(x.permute(0, 2, 1, 3), block) for x, block in zip((q, k, v, out), blocks, strict=True)]
    constants.pop("num_warps")
    emulated.run(hopper_forward_kernel, 1, args, constants)

    case = {"tile": [*(getattr(tile, name) for name in HopperTile.__slots__)], "head_dim": head_dim, "kv_len": kv_len}
    facts = expected_facts(case)
    assert facts["stage_bytes"] == stage_bytes
    assert sorted(facts["full_parity"] * tile.warpgroups) == sorted(parities)
    assert facts["empty_arrivals"] == counts[-1]
    assert facts["shared_bytes"] == sum(allocated)
    consumer, producer = constants["CONSUMER_REGISTERS"], constants["PRODUCER_REGISTERS"]
    assert facts["block_registers"] == [consumer, producer, 128 * (tile.warpgroups * consumer + producer)]
