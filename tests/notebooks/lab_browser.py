"""JupyterLab in a real Chromium, used as a person does: look at a cell, edit it, run it, interrupt it, save.

A cell is named by its id, which for exercise cells is the grade id ("ex-1-1"). What has a key or a button is
done with it; JavaScript finds things, waits for them, and gives the commands that are reached through menus.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
WAIT_MS = 15_000  # for one thing to appear

_PANEL = "window.jupyterapp.shell.currentWidget"
_CELL = f"{_PANEL}.content.widgets.find(widget => widget.model.id === id)"
_KERNEL = f"{_PANEL}.sessionContext.session?.kernel"
_READY = f"{_PANEL}?.content?.widgets?.length > 1 && {_KERNEL}?.status === 'idle'"


@contextmanager
def lab_browser(shots: Path | None, failure: Path) -> Iterator["LabPage"]:
    """A page in a fresh Chromium; the test is skipped where there is none.

    shots    folder for a picture of each step, or None
    failure  file for a picture of the page when the block raises
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        pytest.skip(f"Playwright is missing ({error}); pip install playwright")
    chromium = next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)
    if chromium is None:
        pytest.skip(f"no Chromium on PATH (looked for {', '.join(CHROMIUM_NAMES)}); apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_OPTIONS)
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 1000})
            page.set_default_timeout(WAIT_MS)
            try:
                yield LabPage(page, shots)
            except BaseException as error:
                page.screenshot(path=failure)
                error.add_note(f"the page as it was then: {failure}")
                raise
        finally:
            browser.close()


class LabPage:
    """One page with one notebook. `errors` collects what a learner would find in the browser's console."""

    def __init__(self, page: Any, shots: Path | None):
        self.page = page
        self.errors: list[str] = []
        self._shots, self._taken = shots, 0
        page.on("console", lambda message: self._heard(message.type, message.text))
        page.on("pageerror", lambda error: self._heard("error", str(error)))

    def open(self, address: str) -> None:
        """Open a notebook and wait until its kernel is idle."""
        self.page.goto(address)
        self.page.wait_for_function(f"window.jupyterapp && {_READY}", timeout=2 * WAIT_MS)
        self._dismiss_news()

    def run_all(self) -> None:
        self.command("notebook:run-all-cells")
        self.wait_idle()

    def write(self, cell_id: str, source: str) -> None:
        """Put the cursor into the cell, select everything in it, and enter `source` instead."""
        cell = self.cell(cell_id)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(source)
        assert self.source(cell_id) == source

    def run(self, cell_id: str) -> None:
        """Run the cell with Ctrl-Enter and wait for its end."""
        count = self.start(cell_id)
        self.page.wait_for_function(
            f"([id, count]) => ![null, count].includes({_CELL}.model.executionCount)", arg=[cell_id, count]
        )
        self.wait_idle()

    def start(self, cell_id: str) -> int | None:
        """Run the cell with Ctrl-Enter and do not wait. -> its execution count before."""
        cell = self.cell(cell_id)
        count = self._ask(f"id => {_CELL}.model.executionCount", cell_id)
        cell.locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        return count

    def interrupt(self) -> None:
        self.command("notebook:interrupt-kernel")
        self.wait_idle()

    def save(self) -> None:
        self.page.keyboard.press("Control+s")
        self.page.wait_for_function(f"!{_PANEL}.context.model.dirty")

    def command(self, name: str, **arguments: Any) -> None:
        """Run a command of JupyterLab's palette, and wait until it says that it has ended."""
        run = "([name, given]) => window.jupyterapp.commands.execute(name, given).then(() => null)"
        self._ask(run, [name, arguments])

    def theme(self, name: str) -> None:
        self.command("apputils:change-theme", theme=name)
        self.page.wait_for_function("name => document.body.dataset.jpThemeName === name", arg=name)
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    def wait_idle(self) -> None:
        self.page.wait_for_function(f"{_KERNEL}.status === 'idle'")

    def cell(self, cell_id: str) -> Any:
        """The cell on the page, scrolled into view and drawn (JupyterLab leaves out what is far away)."""
        ids = self._ask(f"() => {_PANEL}.content.widgets.map(widget => widget.model.id)")
        assert cell_id in ids, f"no cell {cell_id!r}; there are {ids}"
        index = ids.index(cell_id)
        self._ask(f"index => {_PANEL}.content.scrollToItem(index, 'smart')", index)
        self.page.wait_for_function(f"id => ({_DRAWN})({_CELL}.node)", arg=cell_id)
        return self.page.locator(f'.jp-Notebook .jp-Cell[data-windowed-list-index="{index}"]')

    def source(self, cell_id: str) -> str:
        return self._ask(f"id => {_CELL}.model.sharedModel.getSource()", cell_id)

    def seen(self, cell_id: str) -> str:
        """The words in the cell's output as they stand on the page, runs of blanks made one. For a cell that has some."""
        area = self.cell(cell_id).locator(".jp-Cell-outputArea")
        area.filter(has_text=re.compile(r"\S")).wait_for(timeout=30_000)  # drawn a moment after the kernel is idle
        return re.sub(r"\s+", " ", area.inner_text()).strip()

    def outputs(self) -> dict[str, list[dict]]:
        """Cell id -> its outputs as the notebook stores them, for every code cell."""
        code = f"{_PANEL}.content.widgets.map(widget => widget.model).filter(model => model.type === 'code')"
        return dict(self._ask(f"() => {code}.map(model => [model.id, model.outputs.toJSON()])"))

    def kernel_name(self) -> str:
        return self._ask(f"() => {_KERNEL}.name")

    def kernel_value(self, expression: str) -> str:
        """The repr of an expression in the notebook's kernel."""
        request = f"{{code: '', silent: true, user_expressions: {{value: {expression!r}}}}}"
        done = f"{_KERNEL}.requestExecute({request}).done"
        reply = self._ask(f"() => {done}.then(reply => reply.content.user_expressions.value)")
        return reply["data"]["text/plain"]

    def contrast(self, cell_id: str, inside: str) -> float:
        """Least contrast (WCAG, 1 to 21) of any words within `inside` to what is behind them."""
        return self.cell(cell_id).locator(inside).first.evaluate(_CONTRAST)

    def shot(self, name: str, first: str = "", last: str = "") -> None:
        """A picture of the page as it is, or of the cells from `first` to `last`, when pictures are wanted."""
        self._taken += 1
        if not self._shots:
            return
        clip = None
        if first:
            self.cell(last or first)
            self._ask(f"() => {{ {_PANEL}.content.activeCellIndex = 0 }}")  # no frame, no tool buttons
            top, end = self.cell(first).bounding_box(), self.cell(last or first).bounding_box()
            clip = top | {"height": end["y"] + end["height"] - top["y"]}
        self.page.screenshot(path=self._shots / f"{self._taken:02}-{name}.png", clip=clip)

    def overlaps(self, cell_id: str, inside: str) -> list[str]:
        """Pairs of table cells within `inside` whose words lie on each other, as a list of their texts."""
        return self.cell(cell_id).locator(inside).first.evaluate(_OVERLAPS)

    def _heard(self, kind: str, text: str) -> None:
        if kind == "error":
            self.errors.append(text)

    def _ask(self, function: str, argument: Any = None) -> Any:
        return self.page.evaluate(function, argument)

    def _dismiss_news(self) -> None:
        """JupyterLab asks at its first start whether it may fetch news, in a box over the page's corner."""
        box = self.page.locator(".Toastify__toast", has_text="Jupyter news")
        if box.count():
            box.get_by_role("button", name="No", exact=True).click()


_DRAWN = """cell => [...cell.querySelectorAll('.cm-content, .jp-Cell-outputArea')].every(
    part => part.closest('.lm-mod-hidden') || part.checkVisibility({contentVisibilityAuto: true})
)"""

_CONTRAST = """root => {
    const linear = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
    const rgba = css => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = css;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const ground = element => {  // the first ancestor with a colour of its own
        for (; element; element = element.parentElement) {
            const colour = rgba(getComputedStyle(element).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255, 255];
    };
    const speaks = node => node.nodeType === 3 && node.textContent.trim();
    const elements = [root, ...root.querySelectorAll('*')].filter(e => [...e.childNodes].some(speaks));
    const ratios = elements.map(element => {
        const [a, b] = [rgba(getComputedStyle(element).color), ground(element)].map(luminance);
        return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    });
    return Math.min(...ratios);
}"""

_OVERLAPS = """root => {
    const words = [...root.querySelectorAll('td, th')].filter(cell => cell.innerText.trim()).map(cell => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return [cell.innerText, range.getBoundingClientRect()];
    });
    const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
    return words.flatMap(([text, box], i) =>
        words.slice(i + 1).filter(([, other]) => meet(box, other)).map(([other]) => `${text} / ${other}`));
}"""
