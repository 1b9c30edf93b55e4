"""Takes the pictures of docs/images again, from the course as it is built: `python tools/screenshots.py [NAME...]`.

lab          JupyterLab with a solved exercise and its verdict
roofline     the roofline explorer
verdict      a wrong answer's verdict
progress     the progress panel, with some exercises solved
trace-matmul `lab.trace` of a tiled matrix product

Everything is real: a learner's copy, JupyterLab in Chromium, answers from solutions/. A page is laid out for less than the 1400
pixels of its picture and enlarged, so that it can be read where a README shows it smaller. Run it after `labs build`, without a
GPU, in an environment that `make test` has set up.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
IMAGES = ROOT / "docs" / "images"
CHROMIUM = "/usr/bin/chromium"
PICTURE_PIXELS = 1400
LAB = "phase1_roofline/phase1_roofline.ipynb"
SOLVED = ("ex-1-1", "ex-1-2", "ex-1-4", "ex-1-6")  # answers that the learner of the pictures has given
SHOWN = "ex-1-4"  # the exercise of lab.png
SLIP = ("1e12", "1e9")  # in the answer to 1.1, by the learner of verdict.png
EXPLORER = "from course_lib.display.roofline_explorer import explore_roofline\nexplore_roofline(gpu='H200 SXM', batch=64)"


def main(names: list[str]) -> int:
    known: dict[str, Callable[[Any], None]] = {
        "trace-matmul": trace_matmul, "roofline": roofline, "lab": lab, "progress": progress, "verdict": verdict,
    }  # fmt: skip
    if unknown := set(names) - known.keys():
        print(f"no picture {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        return 1
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with tempfile.TemporaryDirectory() as folder, learners_page(Path(folder)) as page:
        for name in names or known:
            known[name](page)
            print(f"docs/images/{name}.png")
    return 0


class Page:
    """A browser and a Jupyter server on a copy with some answers in it."""

    def __init__(self, browser: Any, server: Any, copy: Path) -> None:
        self._browser, self._server, self.copy = browser, server, copy
        self._notebook: Any = None

    def sheet(self, width: int, height: int) -> Any:
        """An empty page, `width` wide in its own pixels, 1400 in a picture's."""
        page = self._browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=PICTURE_PIXELS / width)
        page.set_default_timeout(60_000)
        return page

    def lab(self, notebook: str, width: int = 1100, height: int = 800) -> Any:
        """The notebook in JupyterLab, without the side bar (a LabPage of the browser tests)."""
        from tests.notebooks.lab_browser import LabPage

        opened = LabPage(self.sheet(width, height), None)
        opened.open(self._server.address(notebook))
        if opened.page.locator("#jp-left-stack").is_visible():
            opened.command("application:toggle-left-area")
        return opened

    def solved(self) -> Any:
        """The lab, run to its end once."""
        if self._notebook is None:
            self._notebook = self.lab(LAB)
            self._notebook.page.set_default_timeout(300_000)
            self._notebook.run_all()
            wrong = [name for name, shown in self._notebook.outputs().items() for one in shown if one["output_type"] == "error"]
            assert not wrong, f"the lab stops with an error in {', '.join(wrong)}"
        return self._notebook


@contextmanager
def learners_page(folder: Path) -> Iterator[Page]:
    from playwright.sync_api import sync_playwright

    from tests.notebooks.jupyter_server import jupyter_server

    copy = folder / "work"
    os.environ["COURSE_HOME"] = str(copy)
    subprocess.run([sys.executable, "-m", "course_lib.cli", "start"], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    answer(copy / LAB)
    options = ["--LabApp.expose_app_in_browser=True"]
    with jupyter_server(copy, folder / "jupyter", options) as server, sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield Page(browser, server, copy)
        finally:
            browser.close()


def answer(notebook: Path) -> None:
    """Put the solutions' cells of SOLVED into the learner's notebook, without the marks around them."""
    import nbformat

    learners = nbformat.read(notebook, as_version=4)
    sources = {cell.id: cell.source for cell in nbformat.read(ROOT / "solutions" / LAB, as_version=4).cells}
    for cell in learners.cells:
        if cell.id in SOLVED or (cell.id.rpartition("-")[0] in SOLVED and cell.metadata.get("nbgrader", {}).get("solution")):
            cell.source = "\n".join(line for line in sources[cell.id].splitlines() if "### " not in line)
    nbformat.write(learners, notebook)


def clip(opened: Any, first: str, last: str, name: str) -> None:
    """The cells from `first` to `last`, as they stand on the page."""
    panel = "window.jupyterapp.shell.currentWidget.content"
    opened.page.set_viewport_size({"width": 1100, "height": 2400})  # so that JupyterLab draws them all
    opened.cell(first)
    opened.page.evaluate(f"{panel}.activeCellIndex = 0")
    top, end = opened.cell(first).bounding_box(), opened.cell(last).bounding_box()
    opened.page.screenshot(path=IMAGES / f"{name}.png", clip=top | {"height": end["y"] + end["height"] - top["y"]})
    opened.page.set_viewport_size({"width": 1100, "height": 800})


def lab(page: Page) -> None:
    opened = page.solved()
    opened.seen(f"{SHOWN}-check")
    opened.cell(f"{SHOWN}-check").evaluate("cell => cell.scrollIntoView({block: 'start'})")  # the answer stays a learner's own
    opened.page.wait_for_timeout(500)
    opened.page.screenshot(path=IMAGES / "lab.png")


def verdict(page: Page) -> None:
    opened = page.solved()
    right = opened.source("ex-1-1")
    assert SLIP[0] in right, f"1.1 is solved otherwise now; mend SLIP in {__file__}"
    opened.write("ex-1-1", right.replace(*SLIP))
    opened.run("ex-1-1")
    opened.run("ex-1-1-check")
    clip(opened, "ex-1-1", "ex-1-1-check", "verdict")


def progress(page: Page) -> None:
    opened = page.solved()
    (cell,) = [cell for cell in opened.outputs() if opened.source(cell).strip() == "lab.progress()"]
    opened.run(cell)
    clip(opened, cell, cell, "progress")


def roofline(page: Page) -> None:
    import nbformat

    cell = nbformat.v4.new_code_cell(EXPLORER, id="explorer")
    first = nbformat.v4.new_code_cell("from course_lib import lab", id="first")
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[first, cell], metadata=kernel), page.copy / "explorer.ipynb")
    opened = page.lab("explorer.ipynb", width=1250, height=1400)  # controls, picture and numbers in one view
    opened.run_all()
    area = opened.cell("explorer").locator(".jp-OutputArea-output").first
    area.wait_for()
    opened.page.wait_for_timeout(1500)
    area.screenshot(path=IMAGES / "roofline.png")


def trace_matmul(page: Page) -> None:
    import torch

    from course_lib import lab
    from tests.interpreter.kernels.matmul import matmul

    torch.manual_seed(0)
    made = lab.trace(matmul, torch.randn(512, 512).half(), torch.randn(512, 512).half(), bk=64)
    sheet = page.sheet(1100, 800)
    body = "margin: 16px; font: 13px/1.5 Arial, Helvetica, sans-serif; background: white"
    sheet.set_content(f'<body style="{body}">{made._repr_mimebundle_()["text/html"]}</body>')
    sheet.wait_for_timeout(500)
    sheet.screenshot(path=IMAGES / "trace-matmul.png", full_page=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
