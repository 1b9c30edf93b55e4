"""Which tokens a step sees: all of them once an epoch, and the same ones whoever asks."""

import hashlib
import json
import lzma

import numpy as np
import pytest
import torch

from tools.train.data import VALIDATION_WINDOWS, Windows, read_tokens


def tokens(count):
    return torch.arange(count, dtype=torch.int16)


def test_an_epoch_sees_every_window_once_and_none_that_is_held():
    windows = Windows(tokens(3000), length=16, batch=4, seed=1)
    inputs = torch.cat([windows.batch(step)[0] for step in range(windows.steps_per_epoch)])
    seen = inputs.flatten()
    assert seen.unique().numel() == seen.numel() == windows.steps_per_epoch * 4 * 16
    assert seen.max() < 3000 - VALIDATION_WINDOWS * 16
    held = torch.cat([batch[0] for batch in windows.validation()])
    assert held.shape == (VALIDATION_WINDOWS, 16)
    assert held.min() > seen.max()


def test_targets_are_the_next_tokens():
    windows = Windows(tokens(3000), length=16, batch=4, seed=1)
    for inputs, targets in (windows.batch(5), windows.validation()[0]):
        assert targets.equal(inputs + 1)
        assert inputs.dtype == torch.int64


def test_a_step_sees_the_same_whatever_came_before():
    one, other = (Windows(tokens(3000), length=16, batch=4, seed=1) for _ in range(2))
    wanted = [one.batch(step)[0] for step in range(200)]
    for step in (150, 3, 151, 199, 0):
        assert other.batch(step)[0].equal(wanted[step])
    assert not Windows(tokens(3000), length=16, batch=4, seed=2).batch(0)[0].equal(wanted[0])
    assert not wanted[0].equal(wanted[one.steps_per_epoch])  # the next epoch has another order and other cuts
    assert {int(batch[0, 0]) % 16 for batch in wanted[: one.steps_per_epoch]} != {
        int(batch[0, 0]) % 16 for batch in wanted[one.steps_per_epoch : 2 * one.steps_per_epoch]
    }


def test_too_little_text_is_refused_with_what_is_needed():
    need = (4 + 2 + VALIDATION_WINDOWS) * 16 + 2
    assert Windows(tokens(need), length=16, batch=4, seed=0).steps_per_epoch == 1
    with pytest.raises(ValueError, match=f"use at least {need}"):
        Windows(tokens(need - 17), length=16, batch=4, seed=0)


def write_shards(folder, parts):
    rows = []
    for number, part in enumerate(parts):
        data = np.array(part, dtype="<u2").tobytes()
        (folder / f"train-{number:02}.xz").write_bytes(lzma.compress(data))
        rows.append({"file": f"train-{number:02}.xz", "tokens": len(part), "sha256": hashlib.sha256(data).hexdigest()})
    (folder / "shards.json").write_text(json.dumps({"vocab": 4096, "end": 0, "shards": rows}))


def test_shards_are_read_in_their_order(tmp_path):
    write_shards(tmp_path, [[1, 2, 0], [4095, 0]])
    found = read_tokens(tmp_path)
    assert (found.tolist(), found.dtype) == ([1, 2, 0, 4095, 0], torch.int16)


def test_a_shard_cut_short_is_refused(tmp_path):
    write_shards(tmp_path, [[1, 2, 0], [4095, 0]])
    (tmp_path / "train-01.xz").write_bytes(lzma.compress(np.array([7], dtype="<u2").tobytes()))
    with pytest.raises(ValueError, match=r"train-01.xz holds 1 tokens, shards.json says 2"):
        read_tokens(tmp_path)
