"""What the documents point at is there: files, pictures, make targets, `labs` commands."""

import re
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from course_lib.claims import all_claims
from course_lib.cli import app
from course_lib.exercises.registry import exercises_of
from course_lib.model.held_out import modules

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import setup_plan  # noqa: E402

DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docs/no-gpu.md", "docs/binder.md")]
README = DOCUMENTS[0].read_text(encoding="utf-8")
CARD = (ROOT / "course_lib" / "model" / "weights" / "card.md").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z ]+):(?: |$)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def broken_links(document: Path) -> list[str]:
    """Relative links and pictures of a document that lead nowhere, headings within a file included."""
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, heading = target.partition("#")
        file = document.parent / name if name else document
        headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE) if heading and file.is_file() else []
        anchors = {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}
        if not file.exists() or (heading and heading not in anchors):
            broken.append(target)
    return broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_and_picture_of_a_document_leads_somewhere(document):
    assert broken_links(document) == []


def test_a_link_to_a_missing_file_picture_or_heading_is_broken(tmp_path):
    document = tmp_path / "page.md"
    document.write_text(
        "# On a GPU\n[a](gone.md) ![b](b.png) [c](#nowhere) [d](#on-a-gpu) [e](page.md) [f](https://example.org)\n"
    )
    assert broken_links(document) == ["gone.md", "b.png", "#nowhere"]


def test_every_make_target_and_labs_command_of_the_readme_exists():
    targets = {name for names in TARGETS for name in names.split()}
    assert {"lab", "test", "run"} <= targets
    assert set(re.findall(r"\bmake ([a-z]+)", README)) <= targets
    commands = set(get_command(app).commands)
    assert {"start", "claims"} <= commands
    assert set(re.findall(r"\blabs ([a-z]+)\b(?=[ `\n])", re.sub(r"/labs", " labs", README))) - {"command"} <= commands


def test_numbers_of_the_readme_are_those_of_the_course():
    assert f"makes {len(all_claims())} claims" in README
    assert "| nine exercises |" in README
    assert len(exercises_of(1)) == 9
    assert "| eleven exercises |" in README
    assert len(exercises_of(2)) == 11
    assert f"fills about {setup_plan.choose('cuda', 'Linux', '').needs_gb} GB of disk" in README


def card_row(name: str) -> list[str]:
    """The cells of a row of the model card, by its first cell."""
    return next(line.strip("| ").split(" | ") for line in CARD.splitlines() if line.startswith(f"| {name} |"))


def test_numbers_of_the_readme_about_the_models_are_those_of_the_card():
    shown = re.findall(r"^\| `(course-[a-z]+)`.*? \| ([\d,]+) \| ([\d,]+) \| ([\d.]+) \|$", README, re.MULTILINE)
    scores = card_row("3.11.7")
    assert [name for name, *_ in shown] == ["course-target", "course-draft", "course-mla"]  # the order of the card's columns
    for column, (name, parameters, kv_bytes, bits) in enumerate(shown, start=1):
        assert [parameters, kv_bytes] == [card_row(name)[1], card_row(name)[6]]
        assert bits == scores[column].partition(" ")[0]
    assert f"{len(modules('3.11'))} modules of Python 3.11.7's standard library" in README
    assert f"`xz -9` needs {scores[4]}" in README


def test_numbers_of_phase_1_about_the_models_are_those_of_the_card():
    words = re.sub(r"\n# ", " ", (ROOT / "solutions" / "phase1_roofline.py").read_text(encoding="utf-8"))
    target, draft = (int(card_row(name)[1].replace(",", "")) for name in ("course-target", "course-draft"))
    assert f"{target:,} weights of 4 bytes" in words
    assert f"{target / draft:.1f} times smaller" in words
    assert f"the numbers over {len(modules())} files" in words
    found = re.findall(
        r"^\| 3\.\d+\.\d+ \| \+([\d.]+) \[\+([\d.]+), \+([\d.]+)\] \|$", CARD.partition("## Draft")[2], re.MULTILINE
    )
    assert len(found) == 3
    for difference, low, high in ([float(number) for number in row] for row in found):
        assert (
            f"needs {difference:.2f} bits a byte more than its target, with a 95% interval from {low:.2f} to {high:.2f}" in words
        )


def test_every_picture_of_the_documents_is_shown_or_linked_somewhere():
    texts = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    shown = {name for text in texts for name in re.findall(r"\]\((?:docs/)?images/(\S+?\.png)\)", text)}
    assert {path.name for path in (ROOT / "docs" / "images").iterdir()} == shown


def test_points_for_speed_that_wait_on_another_gpu_are_as_many_as_the_readme_says():
    exercises = [exercise for phase in (1, 2) for exercise in exercises_of(phase)]
    waiting = sum(points for exercise in exercises for points, devices in exercise.bars() if devices == ("NVIDIA H200",))
    timed = sum(exercise.points("timed") for exercise in exercises)
    assert f"{waiting:g} of {timed:g} points for it wait for an H200" in README
