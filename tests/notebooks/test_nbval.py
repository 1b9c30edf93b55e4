"""CI's second look at the solved notebooks: nbval runs them and compares the outputs that are stored."""

import subprocess
import sys

import nbformat
import pytest

from .classroom import ROOT, read

SOLVED = sorted(ROOT.glob("solutions/*/*.ipynb"))


def _nbval(folder, notebook) -> subprocess.CompletedProcess:
    """pytest --nbval-lax on one notebook, in a folder of its own, in this environment."""
    path = folder / "lab.ipynb"
    nbformat.write(notebook, path)
    options = ["--nbval-lax", "--nbval-current-env", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", str(folder)]
    command = [sys.executable, "-m", "pytest", *options, str(path)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_nbval_finds_the_stored_outputs_again(tmp_path, path):
    ended = _nbval(tmp_path, read(path))
    code = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert ended.returncode == 0, ended.stdout[-3000:]
    assert f"{len(code)} passed" in ended.stdout


def test_every_solved_notebook_has_a_stored_output_to_compare():
    for path in SOLVED:
        assert [cell for cell in read(path).cells if cell.get("outputs")], path


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_nbval_fails_when_a_stored_output_was_changed(tmp_path, path):
    notebook = read(path)
    checked = next(cell for cell in notebook.cells if cell.get("outputs"))
    text = checked.outputs[0].text
    digit = next(i for i, character in enumerate(text) if character.isdigit())
    checked.outputs[0].text = text[:digit] + str((int(text[digit]) + 1) % 10) + text[digit + 1 :]
    upto = notebook.cells.index(checked)
    notebook.cells = [cell for cell in notebook.cells[: upto + 1] if cell.cell_type == "code"]
    ended = _nbval(tmp_path, notebook)
    assert ended.returncode == 1, ended.stdout[-3000:]
    assert "1 failed" in ended.stdout
    assert "mismatch" in ended.stdout
