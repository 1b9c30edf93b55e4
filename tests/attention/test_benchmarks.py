"""Benchmarks of attention: complete sources, bars that belong to cases, defaults among the variants, rows that say what ran."""

import ast
import os.path
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks import (
    _flash_setup,
    _peers,
    _variants,
    flash_forward,
    flash_variants,
    paged_decode,
    paged_prefill,
    paged_prefill_variants,
    paged_variants,
)
from course_lib.attention.decode_tile import decode_tile
from course_lib.attention.tiles import HOPPER, HOPPER_FEW_KEYS, HOPPER_POINTERS, shared_bytes
from tests.test_benchmarks import ROW_FIELDS

ROOT = Path(__file__).parents[2]
BENCHMARKS = (flash_forward, flash_variants, paged_decode, paged_variants, paged_prefill, paged_prefill_variants)
H200_BLOCK_BYTES = 227 * 1024


def imported(name):
    """Files of this project that a file imports, anywhere in it."""
    folder, found = Path(name).parent, set()
    for node in ast.walk(ast.parse((ROOT / name).read_text())):
        if isinstance(node, ast.ImportFrom):
            base = Path(*(node.module or "").split("."))
            base = folder.joinpath(*[".."] * (node.level - 1), base) if node.level else base
            names = [base.with_suffix(".py"), *((base / alias.name).with_suffix(".py") for alias in node.names)]
            found |= {os.path.normpath(path) for path in names if (ROOT / path).is_file()}
    return found


def decides(name):
    """What is timed, and how: a benchmark's own parts, kernels, workloads."""
    mine = name.startswith(("benchmarks/", "course_lib/workloads/")) or name.endswith("_kernel.py")
    return mine and name != "benchmarks/_result.py"


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda b: b.__name__)
def test_sources_are_there_once_and_hold_what_they_import(benchmark):
    sources = set(benchmark.SOURCES)
    assert len(sources) == len(benchmark.SOURCES)
    assert all((ROOT / name).is_file() for name in sources)
    for name in sources:
        missing = {other for other in imported(name) if decides(other)} - sources
        assert not missing, f"{name} imports {missing}"


def test_the_cases_of_forward_have_one_size_and_the_bars_belong_to_some():
    cases = flash_forward.cases()
    assert len(cases) == 36
    assert all(case.batch * case.sequence == 16384 and case.heads * case.head_dim == 2048 for case in cases)
    assert sum(len(flash_forward.bars_of(case)) for case in cases) == 6 * len(flash_forward.BARS)


def test_a_rate_counts_half_of_the_product_when_causal():
    """1 x 16384, 16 heads of 128: 4 * 16384^2 * 2048 = 2.199e12 FLOPs."""
    full, causal = (_flash_setup.Case(128, 16384, causal) for causal in (False, True))
    assert full.flops == 2 * causal.flops == 4 * 16384**2 * 2048
    assert _flash_setup.tflops(full, [2.0, 1.0, 4.0]) == pytest.approx((1.0995, 0.5498, 2.1990), rel=1e-4)


@pytest.mark.parametrize("head_dim", flash_variants.TILES)
def test_tiles_of_forward_fit_an_h200_and_every_default_is_among_them(head_dim):
    tiles = flash_variants.tiles(head_dim)
    assert {HOPPER[head_dim], HOPPER_FEW_KEYS[head_dim], HOPPER_POINTERS[head_dim]} <= set(tiles)
    assert len(tiles) == len({flash_variants.words_of(tile) for tile in tiles})
    assert all(shared_bytes(tile, head_dim) <= H200_BLOCK_BYTES for tile in tiles)
    for case in flash_variants.cases():
        if case.head_dim == head_dim:
            assert {flash_variants.default_of(case, tile) for tile in tiles} <= set(tiles)


def test_causal_queries_see_half_of_the_keys_and_a_default_counts_those():
    """head_dim 64: 64 x 128 from 2048 keys on."""
    tile = HOPPER[64]
    case = _flash_setup.Case
    assert flash_variants.default_of(case(64, 2048, False), tile) == flash_variants.default_of(case(64, 4096, True), tile) == tile
    assert flash_variants.default_of(case(64, 2048, True), tile) == HOPPER_FEW_KEYS[64]
    assert flash_variants.default_of(case(64, 2048, True), HOPPER_POINTERS[64]) == HOPPER_POINTERS[64]


def test_tiles_of_paged_attention_have_the_defaults_among_them_once():
    defaults = {paged_variants: decode_tile(128, 16), paged_prefill_variants: paged_prefill_variants.default()}
    for benchmark, default in defaults.items():
        names = [benchmark.words_of(tile) for tile in benchmark.TILES]
        assert benchmark.words_of(default) in names
        assert len(names) == len(set(names))


def test_calls_take_turns_and_every_second_round_goes_backwards(monkeypatch):
    order = []
    monkeypatch.setattr(_peers, "l2_flusher", lambda: None)

    def time_calls(call, **_):
        order.append(call())
        return SimpleNamespace(median_seconds=len(order))

    monkeypatch.setattr(_peers, "time_calls", time_calls)
    found = _peers.in_turns({"a": lambda: "a", "b": lambda: "b"}, rounds=3)
    assert "".join(order) == "abbaab"
    assert found == {"a": [1, 4, 5], "b": [2, 3, 6]}


def test_a_row_for_each_peer_whose_work_may_be_another():
    """6 units in 2 s and 3 s -> 3 and 2 a second. A peer that does 12 in 4 s does 3 a second."""
    seconds = {"ours": [2.0, 3.0, 2.0], "as much": [2.0, 2.0, 4.0], "twice": [4.0, 4.0, 4.0]}
    first, second = _peers.rows_beside(
        "words", "GB/s", 6, seconds, roof=4, peer_work={"twice": 12}, bars={"as much": 1.5}, roof_bar=0.5
    )
    assert first.keys() >= ROW_FIELDS
    assert (first["case"], first["ours"], first["spread"], first["roof_share"]) == ("words, against as much", 3, [2, 3], 0.75)
    assert (first["peer"], first["ratio"], first["microseconds"]) == (3, 1, 2e6)
    assert first["ratio_by_round"] == pytest.approx([2 / 3, 2])
    assert (second["peer"], second["ratio"]) == (3, 1)
    assert second["ratio_by_round"] == pytest.approx([2 / 3, 1])
    assert "bar" not in second
    assert _peers.words_of(first) == (
        "words, against as much: 3 GB/s, 1.000 of as much (3) [0.667 to 2.000] bar 1.5 MISSED, 0.750 of the roof bar 0.5"
    )
    assert _peers.words_of(_peers.alone("read", "GB/s", 4532.2)) == "read: 4,532 GB/s"


def variants(times, monkeypatch):
    """name -> seconds of its call, or what it raises or gives instead of ones; the first is the default."""
    monkeypatch.setattr(_variants, "in_turns", lambda calls, rounds: {name: [times[name]] * rounds for name in calls})

    def call(name):
        if isinstance(times[name], Exception):
            raise times[name]
        return torch.full((3,), times[name] if times[name] < 0 else 1.0)

    return {name: _variants.Variant(lambda name=name: call(name), next(iter(times)), {"tile": name}) for name in times}


def test_variants_stand_best_first_beside_the_peer_and_the_default_and_broken_ones_last(monkeypatch):
    times = {"default": 2.0, "slow": 4.0, "fails": ValueError("too large\nand more"), "wrong": -1.0, "fast": 1.0, "peer": 1.0}
    made = variants(times, monkeypatch)
    del made["peer"]
    made["nan"] = _variants.Variant(lambda: torch.full((3,), torch.nan), "default")
    made["known"] = _variants.Variant(lambda: 1 / 0, "default", why_not="its process died")
    rows = _variants.variant_rows(
        "case", "TFLOP/s", 8, made, right=torch.ones(3), budget=0.1, peer_name="peer", peer=lambda: None, roof=16
    )
    assert [row["case"] for row in rows[:3]] == ["case: fast", "case: default", "case: slow"]
    assert all(row.keys() >= ROW_FIELDS for row in rows)
    for row, ours, of_default in zip(rows, (8, 4, 2), (2, 1, 0.5), strict=False):
        assert (row["ours"], row["peer"], row["ratio"], row["roof_share"]) == (ours, 8, ours / 8, ours / 16)
        assert (row["ratio_to_default"], row["is_default"]) == (of_default, of_default == 1)
    assert {row["ours"] for row in rows[3:]} == {None}
    reasons = {row["case"]: row["why_not"] for row in rows[3:]}
    assert reasons["case: fails"] == "ValueError: too large"
    assert reasons["case: wrong"].startswith("WRONG: 2.0 from")
    assert reasons["case: nan"].startswith("WRONG: nan")
    assert reasons["case: known"] == "its process died"
    assert _peers.words_of(rows[0]) == "case: fast: 8 TFLOP/s, 1.000 of peer (8), 0.500 of the roof, 2.000 of the default"
    assert _peers.words_of(rows[-1]).startswith("case: ")


def test_variants_without_a_peer_have_a_ratio_to_the_default_only(monkeypatch):
    rows = _variants.variant_rows(
        "case", "GB/s", 8, variants({"default": 2.0, "slow": 4.0}, monkeypatch), right=torch.ones(3), budget=0.1,
        peer_name="peer", peer=None,
    )  # fmt: skip
    assert [(row["peer"], row["ratio"], row["ratio_to_default"]) for row in rows] == [(None, None, 1), (None, None, 0.5)]


def test_what_merging_costs_is_the_tiles_spared_less_the_time_gained(monkeypatch):
    """256 pairs of 128 tiles: 128 for the fullest of 264 programs, 124.12 in equal shares. One tile's time gained: 2.88 tiles."""
    monkeypatch.setattr(paged_variants, "in_turns", lambda calls: {"ours": [127.0], "whole pairs": [128.0]})
    plan = SimpleNamespace(programs=264, tile=decode_tile(128, 16), list=None)
    made = SimpleNamespace(rows=32, tokens=8192, words="32 x 8192", kv_bytes=1e9, ours=lambda splits: (None, plan))
    (row,) = paged_variants.merge_rows(made, roof=1.0)
    assert row["tiles_spared"] == pytest.approx(128 * 8 / 264)
    assert row["merge_tiles"] == pytest.approx(128 * 8 / 264 - 1)
    assert row["ratio"] == pytest.approx(128 / 127)


def test_a_peer_that_does_not_run_is_named_and_left_out(capsys):
    def call():
        raise RuntimeError("no kernel\nand a long story")

    assert _peers.first_result("cuDNN", call) is None
    assert _peers.in_a_line(AssertionError()) == "AssertionError: "
    assert capsys.readouterr().out == "cuDNN does not run: RuntimeError: no kernel\n"


def test_results_that_differ_or_hold_nan_end_the_benchmark():
    values = torch.tensor([1.0, -4.0])
    assert _peers.budget_of(values) == 4 / 64
    _peers.check_alike("a and b", values, values + 0.06, _peers.budget_of(values))
    for wrong in (values + 0.07, values * torch.nan):
        with pytest.raises(AssertionError, match="a and b differ by"):
            _peers.check_alike("a and b", values, wrong, _peers.budget_of(values))


@pytest.mark.parametrize("there", [False, True])
def test_without_a_gpu_nothing_is_measured_and_with_one_rows_are_told_and_written(there, monkeypatch, capsys):
    written = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    monkeypatch.setattr(_peers, "write_result", lambda *what: written.append(what) or "path")
    code = _peers.run("name", ("a",), lambda: iter([_peers.alone("read", "GB/s", 2.0)]))
    assert (code, len(written)) == ((0, 1) if there else (1, 0))
    assert capsys.readouterr().out == ("read: 2 GB/s\npath\n" if there else "blocked: needs a CUDA device\n")
