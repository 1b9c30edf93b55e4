"""From the author's script to cells: ids that stay, and a clear word for each mistake, which changes no notebook."""

import shutil

import pytest

from course_lib.course.build import BuildError, build
from tests.notebooks.classroom import PHASE, read
from tests.notebooks.small_course import (
    FIRST,
    RIDGE,
    SCALED,
    SECOND,
    SETUP,
    planted,
    solved,
    write_course,
    write_script,
)

TEXT = SETUP + FIRST + SECOND
BEGIN, END = "    ### BEGIN SOLUTION\n", "    ### END SOLUTION\n"
BODY = FIRST[FIRST.index(BEGIN) + len(BEGIN) : FIRST.index(END)]
SOLUTION = BEGIN + BODY + END


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with planted(RIDGE, SCALED):
        yield write_course(tmp_path_factory.mktemp("two-exercises"), TEXT)


def test_a_cell_keeps_its_id_when_other_cells_come_and_go(two, tmp_path):
    old = {each.source: each.id for each in read(solved(two)).cells}
    write_course(tmp_path, TEXT.replace(FIRST, "\n# %%\nnew = 1\n" + FIRST))
    new = {each.source: each.id for each in read(solved(tmp_path)).cells}
    assert {source: new[source] for source in old} == old
    assert len(new) == len(old) + 1


def test_equal_cells_have_different_ids(two, tmp_path):
    write_course(tmp_path, TEXT + 3 * "\n# %%\nx = 1\n")
    first, second, third = [each.id for each in read(solved(tmp_path)).cells if each.source == "x = 1"]
    assert (second, third) == (f"{first}-2", f"{first}-3")


def test_the_lab_version_follows_the_source(two, tmp_path):
    write_course(tmp_path, TEXT + "\n# %% [markdown]\n# One more word.\n")
    assert read(solved(tmp_path)).metadata.course.lab_version != read(solved(two)).metadata.course.lab_version


def _with(more):
    return lambda text: text + "\n" + more


def _instead(old, new):
    return lambda text: text.replace(old, new, 1)


MISTAKES = {
    "a grade id twice": (_with('# %% grade_id="ex-1-1-check"\nx = 1\n'), "grade_id 'ex-1-1-check' stands twice"),
    "an unknown tag": (_with('# %% tags=["a-tag"]\nx = 1\n'), "unknown tag ['a-tag']; known are ['nbval-check-output']"),
    "an unknown header": (_with("# %% points=3\nx = 1\n"), "a cell header carries ['points']; use grade_id and tags"),
    "an id of nothing": (_with('# %% grade_id="ex-1-1-tested"\nx = 1\n'), "write ex-1-1, ex-1-1-b, ex-1-1-check or"),
    "an unknown exercise": (_with('# %% grade_id="ex-1-9-check"\nx = 1\n'), "no exercise '1.9'; the course has 1.1, 1.2"),
    "a part without points": (_with('# %% grade_id="ex-1-2-timed"\nx = 1\n'), "ex-1-2-timed grades nothing"),
    "no check": (_instead('# %% grade_id="ex-1-1-check"', "# %%"), "has no cell ex-1-1-check; add it to solutions/"),
    "no setup": (_instead('# %% grade_id="setup"', "# %%"), 'has no cell grade_id="setup"'),
    "no marks": (_instead(SOLUTION, BODY), "ex-1-1 marks no region with ### BEGIN SOLUTION and ### END SOLUTION"),
    "no end": (_instead(END, ""), "ex-1-1, line 3: the solution has no END SOLUTION"),
    "no begin": (_instead(BEGIN, ""), "ex-1-1, line 5: END SOLUTION without BEGIN SOLUTION"),
    "two begins": (_instead(BEGIN, 2 * BEGIN), "ex-1-1, line 4: a solution begins inside the one of line 3"),
    "a solution outside of a function": (
        _instead(SOLUTION, "\n### BEGIN SOLUTION\nx = 1\n### END SOLUTION\n"),
        "ex-1-1, line 4: a solution must stand inside a function",
    ),
    "a solution in a plain cell": (
        _with(f"# %%\ndef f():\n{BEGIN}    pass\n{END}"),
        "the cell that begins with 'def f():' marks a solution and is no solution cell",
    ),
    "a stub that is no Python": (
        _instead(SOLUTION, f"    x = [\n{BEGIN}    1\n{END}    ]\n"),
        "ex-1-1: with its stub the cell is no valid Python, line ",
    ),
    "a syntax error": (_with("# %%\nx = = 1\n"), "line 1, 'x = = 1', is a syntax error"),
    "an unknown magic": (_with("# %%\n%notamagic\n"), "line 1, '%notamagic', is IPython's, not Python's"),
    "a shell line": (_with("# %%\nx = 1\n!false\n"), "line 2, '!false', is IPython's, not Python's; write plain Python"),
    "a cell magic": (_with("# %%\n%%bash\nfalse\n"), "line 1, '%%bash', is IPython's, not Python's"),
    "no stored output": (_with('# %% tags=["nbval-check-output"]\nprint()\n'), "run: labs build --execute"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_an_author_is_named_and_leaves_the_old_notebooks(two, tmp_path, mistake):
    change, message = MISTAKES[mistake]
    shutil.copytree(two, tmp_path, dirs_exist_ok=True)
    assert change(TEXT) != TEXT
    write_script(tmp_path, change(TEXT))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")}
    with pytest.raises((BuildError, ValueError)) as raised:
        build(tmp_path)
    assert message in str(raised.value)
    assert PHASE in str(raised.value) or "ex-1-1" in str(raised.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.ipynb")} == before
    assert len(before) == 2
