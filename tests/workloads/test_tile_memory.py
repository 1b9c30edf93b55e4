"""A memory of tiles gives what it was given, refuses what is no tile, and its trace weighs what its tiles weigh."""

import pytest
import torch

from course_lib.workloads.tile_memory import tile_memory, traced_bytes


@pytest.fixture
def made():
    q, k, v = (torch.arange(rows * 2 * 4).reshape(rows, 2, 4).bfloat16() + add for rows, add in ((5, 0), (6, 0.5), (6, 0.25)))
    return q, k, v, *tile_memory(q, k, v, tile_q=2, tile_k=3)


def test_tiles_come_as_float32_of_their_head(made):
    q, k, v, memory, _, _, _ = made
    assert torch.equal(memory.load_q(1, 4, 5), q[4:5, 1].float())
    assert torch.equal(memory.load_k(0, 3, 6), k[3:6, 0].float())
    assert torch.equal(memory.load_v(1, 0, 2), v[:2, 1].float())
    memory.load_k(0, 0, 3).zero_()  # a copy of what lies in memory
    assert torch.equal(memory.load_k(0, 0, 3), k[:3, 0].float())


def test_what_is_stored_lies_in_its_place_and_the_rest_is_nan(made):
    _, _, _, memory, _, out, lse = made
    memory.store(1, 2, torch.ones(2, 4), torch.zeros(2))
    assert torch.equal(out[2:4, 1], torch.ones(2, 4))
    assert torch.equal(lse[1, 2:4], torch.zeros(2))
    assert int(out.isnan().sum()) == 5 * 2 * 4 - 8
    assert int(lse.isnan().sum()) == 5 * 2 - 2


def test_the_trace_weighs_two_rows_of_q_three_of_k_one_of_v_and_one_stored(made):
    _, _, _, memory, trace, _, _ = made
    memory.predict(16, 32, 12)
    memory.load_q(0, 0, 2)
    memory.load_k(0, 0, 3)
    memory.load_v(0, 5, 6)
    memory.store(0, 4, torch.zeros(1, 4), torch.zeros(1))
    assert trace[0] == ["predict", 16, 32, 12]
    assert traced_bytes(trace, 4, 2) == {"q_bytes": 16, "kv_bytes": 32, "stored_bytes": 12}


@pytest.mark.parametrize(
    ("access", "words"),
    [
        (lambda m: m.load_k(0, 0, 4), "load_k: 4 rows at once, and a tile has room for 3"),
        (lambda m: m.load_q(0, 4, 6), "load_q: rows 4 to 6 are not a part of rows 0 to 5"),
        (lambda m: m.load_v(0, 3, 3), "load_v: rows 3 to 3"),
        (lambda m: m.load_v(2, 0, 1), "load_v: head 2 is not one of the 2 heads, 0 to 1"),
        (lambda m: m.store(0, 4, torch.zeros(2, 4), torch.zeros(2)), "store: rows 4 to 6"),
        (lambda m: m.store(0, 0, torch.zeros(2, 3), torch.zeros(2)), r"store takes \[2, 4\] and \[2\], got \[2, 3\] and \[2\]"),
    ],
)
def test_what_is_no_tile_is_refused_and_not_traced(made, access, words):
    memory, trace = made[3], made[4]
    with pytest.raises(ValueError, match=words):
        access(memory)
    assert trace == []
