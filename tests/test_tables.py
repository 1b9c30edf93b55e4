"""Tables in the documents are what the result files say."""

import json

import pytest

from benchmarks import _tables as tables

TEXT = "before\n<!-- table gpu/speed ^b -->\nold\n<!-- end table -->\nafter\n"


@pytest.fixture
def result(tmp_path, monkeypatch):
    """A result file with two rows and one source, in a root of its own."""
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr("benchmarks._result.ROOT", tmp_path)
    (tmp_path / "kernel.py").write_text("1")
    row = {"unit": "sectors", "peer_name": "ncu", "roof_share": None, "spread": None}
    rows = [
        row | {"case": "a", "ours": 1, "peer": 2, "ratio": 0.5},
        row | {"case": "b", "ours": 12345, "peer": 12345, "ratio": 1.0},
        row | {"case": "no peer", "ours": 2.5, "peer": None, "peer_name": None, "ratio": None},
    ]
    content = {
        "device": "a GPU",
        "driver": None,
        "torch": "2",
        "triton": "3",
        "date": "2026-01-02T03:04:05",
        "sources": ["kernel.py"],
    }
    content |= {"sha256": tables.sources_hash(["kernel.py"]), "rows": rows}
    path = tmp_path / "benchmarks" / "results" / "gpu" / "speed.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(content))
    return tmp_path


def test_every_table_in_the_documents_is_what_its_result_says(capsys):
    assert tables.main(check=True) == 0, capsys.readouterr().out


def test_a_table_shows_the_rows_picked_and_nothing_outside_it_changes(result):
    made = tables.with_tables(TEXT)
    assert made.startswith("before\n")
    assert made.endswith("<!-- end table -->\nafter\n")
    assert "| b | sectors | 12,345 | 12,345 | 1.000 |" in made
    assert "| a |" not in made
    assert "old" not in made
    assert tables.with_tables(made) == made


def test_a_row_without_a_peer_has_a_dash_for_it(result):
    made = tables.table("gpu/speed", "^(b|no peer)$")
    assert "| case | unit | ours | ncu | ratio |" in made
    assert "| no peer | sectors | 2.5 | - | - |" in made


@pytest.mark.parametrize(
    ("value", "text"), [(4229.7, "4,230"), (792.51, "793"), (0.08312, "0.0831"), (3.0, "3"), (12345, "12,345"), (None, "-")]
)
def test_a_number_has_three_figures_or_its_whole_part(value, text):
    assert tables._number(value) == text


def test_a_result_whose_source_changed_is_marked_stale(result):
    assert "Stale" not in tables.with_tables(TEXT)
    (result / "kernel.py").write_text("2")
    assert "Stale" in tables.with_tables(TEXT)


@pytest.mark.parametrize(("name", "rows", "message"), [("gpu/other", "", "does not exist"), ("gpu/speed", "^c", "matches")])
def test_a_table_of_nothing_is_an_error(result, name, rows, message):
    with pytest.raises(ValueError, match=message):
        tables.table(name, rows)


def test_a_document_that_drifted_is_found(result):
    (result / "docs").mkdir()
    (result / "README.md").write_text(TEXT)
    assert tables.main(check=True) == 1
    assert tables.main(check=False) == 0
    assert tables.main(check=True) == 0
