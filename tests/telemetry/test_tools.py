"""The table of tools in section 7 says what the data say, cell by cell; and no tool is asked for what it cannot see."""

import re
from pathlib import Path

import pytest

from course_lib.claims import claim
from course_lib.telemetry import QUESTIONS, TOOLS, who_sees

SOURCE = Path(__file__).parents[2] / "solutions" / "phase1_roofline.py"
HEADS = {"time of a kernel": "kernel time", "tensor cores, DRAM": "activity", "power, clocks": "power"} | {
    same: same for same in ("stalls", "tokens")
}


def table():
    """{tool: questions that its row answers}, read from the notebook's text."""
    lines = SOURCE.read_text().partition("### What each tool can see")[2].splitlines()
    rows = [[cell.strip() for cell in line.strip("# ").strip("|").split("|")] for line in lines if line.startswith("# |")]
    head = rows[0][1:-1]
    assert set(head) == HEADS.keys()
    named = {re.sub(r"[`*]", "", row[0]): row[1:-1] for row in rows[2:] if len(row) == len(rows[0])}
    return {
        tool: tuple(HEADS[column] for column, cell in zip(head, cells, strict=True) if not cell.startswith("no"))
        for tool, cells in named.items()
    }


def test_the_table_of_the_text_is_the_data():
    assert table() == {tool.name: tool.sees for tool in TOOLS}


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_question_has_a_tool(question):
    assert who_sees(question)


@pytest.mark.parametrize(("claim_id", "question", "tool"), [
    ("C042", "stalls", "nvtx"), ("C059", "activity", "nvidia-smi"),
    ("C243", "tokens", "nvidia-smi"), ("C242", "tokens", "nvprof"),
])  # fmt: skip
def test_what_the_roadmap_asks_of_a_tool_it_cannot_see(claim_id, question, tool):
    assert claim(claim_id).verdict == "wrong"
    assert not any(tool in name.lower() for name in who_sees(question))


def test_an_unknown_question_lists_the_known_ones():
    with pytest.raises(ValueError, match="no question 'speed'; ask one of kernel time, activity"):
        who_sees("speed")
