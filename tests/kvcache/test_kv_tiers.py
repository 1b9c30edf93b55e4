"""The benchmark of tiers, on a CPU and in small: every way back gives the same content, and a walk checks itself."""

from pathlib import Path

import pytest
import torch

from benchmarks import kv_tiers as bench
from course_lib.kvcache import HostCopies, KVStorage
from course_lib.workloads.table_walk import table_walk

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def storage():
    made = KVStorage(6, 4, layers=3, shapes=((2, 8), (2, 8)), dtype=torch.float32)
    bench.fill(made)
    return made


def test_every_way_back_writes_what_was_there_and_nothing_else(storage):
    before = [[part.clone() for part in layer] for layer in storage.tensors]
    for name, call in bench.reloads(storage, 4).items():
        for part in (part for layer in storage.tensors for part in layer):
            part[2:] = -1.0
            part[:2] = 7.0
        call()
        for layer, saved in zip(storage.tensors, before, strict=True):
            for part, was in zip(layer, saved, strict=True):
                assert torch.equal(part[2:], was[2:]), name
                assert (part[:2] == 7.0).all(), name


def test_the_way_out_takes_the_blocks_that_the_ways_back_bring(storage, monkeypatch):
    saved, copy_out = [], HostCopies.copy_out
    monkeypatch.setattr(HostCopies, "copy_out", lambda copies, blocks: saved.append(blocks) or copy_out(copies, blocks))
    (call,) = bench.saves(storage, 4).values()
    call()
    call()
    assert saved == [[5, 4, 3, 2]] * 2


def test_rows_of_the_host_and_a_prefill_that_fills_a_cache(storage, monkeypatch):
    monkeypatch.setattr(bench, "BLOCK_SIZE", 4)
    monkeypatch.setattr(bench, "ROUNDS", 2)
    prefill = bench.prefill_call("course-draft", 16, device="cpu")
    again = prefill(8)
    first = again()
    assert first.shape == (1, 1, 4096)
    assert torch.equal(again(), first)  # a second time from an empty cache
    rows = bench.host_rows((8, 16), prefill, storage)
    assert len(rows) == len({row["case"] for row in rows}) == 2 * (4 + 1)
    assert sum("by HostCopies" in row["case"] for row in rows) == 4
    assert {row["unit"] for row in rows} == {"ms"}
    assert all(row["ratio"] == pytest.approx(row["ours"] / row["peer"]) for row in rows)


def test_a_walk_that_leads_elsewhere_is_found():
    walk = table_walk(2, 5, 8, 2, 2, device="cpu")
    bench.check_walk(walk)
    walk.leaves[walk.directories[0, 0], 0] = walk.flat[1, 4]
    with pytest.raises(AssertionError, match="elsewhere"):
        bench.check_walk(walk)


def test_sources_exist_and_table_bytes_are_those_of_the_library():
    assert all((ROOT / name).is_file() for name in bench.SOURCES)
    few, all_of_it = bench.table_byte_rows()
    # 256 rows: directories of 32 entries, one leaf of 256 for 107 blocks; flat 8192 entries
    assert (few["ours"], few["peer"]) == (256 * (32 + 256) * 4, 256 * 8192 * 4)
    assert all_of_it["ratio"] == pytest.approx(1 + 32 / 8192)
    assert bench.storage_of("course-draft", 33, "cpu").num_blocks == 3
