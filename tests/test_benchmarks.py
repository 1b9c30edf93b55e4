"""Result files say what they were made of, and every committed one has the agreed fields."""

import json
import re
from pathlib import Path

import pytest

from benchmarks._result import sources_hash
from course_lib.course.bench import benchmarks, run_benchmark

ROOT = Path(__file__).parents[1]
FIELDS = {"name", "device", "driver", "clocks", "torch", "triton", "date", "commit", "sources", "sha256", "rows"}
ROW_FIELDS = {"case", "unit", "ours", "peer", "peer_name", "ratio", "roof_share", "spread"}


@pytest.mark.parametrize("path", sorted(ROOT.glob("benchmarks/results/*/*.json")), ids=lambda p: p.stem)
def test_a_committed_result_has_every_field_and_a_benchmark_that_made_it(path):
    result = json.loads(path.read_text())
    assert result.keys() >= FIELDS
    assert result["name"] == path.stem
    assert path.stem in benchmarks(ROOT)
    assert result["rows"]
    for row in result["rows"]:
        assert row.keys() >= ROW_FIELDS  # a benchmark may add fields of its own
        assert row["ratio"] == (None if row["peer"] is None else pytest.approx(row["ours"] / row["peer"]))
        assert row["roof_share"] is None or 0 < row["roof_share"] <= 1.05
    assert re.fullmatch(r"[0-9a-f]{40}", result["commit"])


def test_the_hash_of_the_sources_changes_with_each_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks._result.ROOT", tmp_path)
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    first = sources_hash(["a", "b"])
    assert first != sources_hash(["b", "a"])
    (tmp_path / "b").write_text("3")
    assert first != sources_hash(["a", "b"])


def test_an_unknown_benchmark_lists_the_known_ones():
    with pytest.raises(KeyError, match=r"no benchmark 'nothing'; there are: .*ridge"):
        run_benchmark(ROOT, "nothing")


@pytest.mark.skipif(__import__("torch").cuda.is_available(), reason="says blocked only without a GPU")
def test_a_benchmark_without_a_gpu_says_blocked_and_fails(capfd):
    assert run_benchmark(ROOT, "ridge") == 1
    assert "blocked: needs a CUDA device" in capfd.readouterr().out
