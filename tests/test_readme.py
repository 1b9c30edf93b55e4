"""What the documents point at is there: files, pictures, make targets, `labs` commands."""

import re
import sys
from pathlib import Path

import pytest
from typer.main import get_command

from course_lib.claims import all_claims
from course_lib.cli import app
from course_lib.exercises.registry import exercises_of

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import setup_plan  # noqa: E402

DOCUMENTS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "docs/no-gpu.md", "docs/binder.md")]
README = DOCUMENTS[0].read_text(encoding="utf-8")
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
    assert f"fills about {setup_plan.choose('cuda', 'Linux', '').needs_gb} GB of disk" in README


def test_every_picture_of_the_documents_is_shown_or_linked_somewhere():
    texts = [document.read_text(encoding="utf-8") for document in DOCUMENTS]
    shown = {name for text in texts for name in re.findall(r"\]\((?:docs/)?images/(\S+?\.png)\)", text)}
    assert {path.name for path in (ROOT / "docs" / "images").iterdir()} == shown
