"""Make a page of an executed notebook: python tools/publish_page.py EXECUTED.ipynb docs/NAME.html

The page begins with where and when the notebook ran and what it earned, read from its own verdicts. Pictures get the texts that
their figures carry (nbconvert's template leaves them out). A notebook with a failed or waiting point is refused.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from bs4 import BeautifulSoup
from nbconvert import HTMLExporter

from course_lib.grading.verdict import MIME as VERDICT

WITHOUT_TEXT = "No description has been provided for this image"  # what nbconvert writes in its place


def outputs(notebook: Any) -> Iterator[Any]:
    return (output for cell in notebook.cells for output in cell.get("outputs", []) if "data" in output)


def heading(notebook: Any) -> str:
    """Markdown for the top of the page. Raises ValueError when a point is missing or nothing was timed on a device."""
    verdicts = [output.data[VERDICT] for output in outputs(notebook) if VERDICT in output.data]
    most = sum(cell.metadata.get("nbgrader", {}).get("points", 0) for cell in notebook.cells)
    points = sum(v["score"] for v in verdicts)
    if not verdicts or points < most:
        short = [v["exercise"] for v in verdicts if v["score"] < v["max_points"]]
        where = ", ".join(short) or "check cells that show no verdict"
        raise ValueError(f"{points:g} of {most:g} points, short in {where}; publish a run that earned them all")
    evidence = [o["evidence"] for v in verdicts for o in v["outcomes"] if o.get("evidence")]
    devices = {str(e["device"]) for e in evidence if "device" in e}
    if len(devices) != 1:
        raise ValueError(f"timed on {sorted(devices) or 'no device'}; publish a run on one")
    ended = notebook.metadata.papermill.end_time[:10]
    version = notebook.metadata.course.lab_version
    return (
        f"*This is the solved notebook (version {version}), executed with papermill on one {devices.pop()} on {ended}: "
        f'{points:g} of {most:g} points. Figures that say "recorded" show results kept with the course; the others were '
        "measured in this run. Widgets need a live kernel; their pictures stand in their place.*"
    )


def page(notebook: Any) -> str:
    """HTML of the whole notebook, with its heading and the texts of its pictures."""
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(heading(notebook), id="published"))
    texts = [o.metadata.get("image/png", {}).get("alt", "") for o in outputs(notebook) if "image/png" in o.data]
    exporter = HTMLExporter(template_name="lab", exclude_input_prompt=True, exclude_output_prompt=True)
    body, _ = exporter.from_notebook_node(notebook)
    soup = BeautifulSoup(body, "html.parser")
    pictures = soup.select(f".jp-OutputArea-output img[alt='{WITHOUT_TEXT}']")
    if len(pictures) != len(texts) or not all(texts):
        raise ValueError(f"{len(pictures)} pictures on the page, {sum(map(bool, texts))} texts for {len(texts)} of them")
    for picture, text in zip(pictures, texts, strict=True):
        picture["alt"] = text
    return str(soup)


def main() -> int:
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    source, target = map(Path, sys.argv[1:])
    target.write_text(page(nbformat.read(source, as_version=4)), encoding="utf-8")
    print(f"{target}: {target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
