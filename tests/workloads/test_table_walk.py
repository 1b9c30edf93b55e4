"""A walk through tables of one level and of two reads the same blocks, each once."""

import pytest
import torch

from course_lib.workloads.table_walk import table_walk


@pytest.mark.parametrize(("rows", "blocks", "leaf", "parts"), [(1, 1, 1, 1), (2, 9, 4, 2), (3, 8, 4, 3), (2, 5, 16, 4)])
def test_both_tables_lead_to_every_block_once(rows, blocks, leaf, parts):
    walk = table_walk(rows, blocks, 8, leaf, parts, device="cpu", seed=rows)
    sums = [walk.run(two).clone() for two in (False, True)]
    assert torch.equal(*sums)
    assert torch.equal(sums[0].sum(1, dtype=torch.int32), walk.words[walk.flat.long()].sum(1, dtype=torch.int32))
    assert sorted(walk.flat.flatten().tolist()) == list(range(rows * blocks))
    assert walk.read_bytes == rows * blocks * 32


def test_leaves_say_what_the_flat_table_says_and_are_padded():
    walk = table_walk(2, 9, 8, 4, 1, device="cpu")
    assert walk.leaves.shape == (6, 4)
    assert torch.equal(walk.leaves[walk.directories.long()].view(2, 12)[:, :9], walk.flat)
    assert (walk.leaves[walk.directories[:, 2].long(), 1:] == -1).all()


def test_strange_shapes_are_refused():
    for bad in ((1, 1, 6, 1, 1), (0, 1, 8, 1, 1), (1, 1, 8, 0, 1)):
        with pytest.raises(ValueError, match="at least 1"):
            table_walk(*bad, device="cpu")
