"""The roofline explorer in a real JupyterLab: its slider is moved by key, a number is typed, and the numbers beside it follow."""

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from course_lib.course import workspace
from course_lib.display.roofline_explorer_numbers import numbers_of
from course_lib.display.roofline_explorer_panel import room, rows_of
from course_lib.display.roofline_explorer_setting import Setting

from .jupyter_server import jupyter_server
from .lab_browser import lab_browser
from .test_browser import READABLE, _screenshots, _troubles

SOURCE = "from course_lib.display.roofline_explorer import explore_roofline\n\nexplorer = explore_roofline()\nexplorer"


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_explorer_follows_its_controls_in_jupyterlab(tmp_path):
    copy = tmp_path / "work"
    workspace.start(copy)
    cells = [new_markdown_cell("The explorer"), new_code_cell(SOURCE, id="explorer")]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=cells, metadata=kernel), copy / "explorer.ipynb")
    with lab_browser(_screenshots(), tmp_path / "failure.png") as lab:
        with jupyter_server(copy, tmp_path / "jupyter", ["--LabApp.expose_app_in_browser=True"]) as server:
            lab.open(server.address("explorer.ipynb"))
            lab.run_all()
            cell = lab.cell("explorer")
            panel, picture = cell.locator(".course-explorer"), cell.locator("img")
            _says(panel, Setting())
            assert picture.count() == 1  # the widget's, not the one that is stored for exported pages
            lab.shot("explorer")

            first = picture.get_attribute("src")
            cell.locator(".widget-slider", has_text="Batch").locator(".noUi-handle").focus()
            for _ in range(4):  # 32, 40, 48, 56, 64
                lab.page.keyboard.press("ArrowRight")
            _says(panel, Setting(batch=64))
            assert picture.get_attribute("src") != first

            cell.locator("input[type=number]").nth(1).fill("16384")
            lab.page.keyboard.press("Enter")
            _says(panel, Setting(batch=64, context=16_384))
            assert lab.kernel_value("explorer.setting.context") == "16384"
            for theme in ("JupyterLab Dark", "JupyterLab Light"):
                lab.theme(theme)
                lab.cell("explorer")
                assert lab.contrast("explorer", ".course-explorer") >= READABLE, theme
                lab.shot(f"explorer-{theme.split()[-1].lower()}")

            (output,) = lab.outputs()["explorer"]
            assert "image/png" in output["data"]  # what GitHub shows of a saved notebook
            assert _troubles(lab) == []
            assert "Traceback" not in server.log.read_text(errors="replace")
        assert lab.errors == []


def _says(panel, setting):
    """The panel shows this setting's numbers, at once or soon."""
    numbers = numbers_of(setting)
    rows = {name: value for name, value, _ in rows_of(numbers)}
    panel.filter(has_text=rows["Time floor"]).filter(has_text=rows["Intensity"]).filter(has_text=room(numbers)).wait_for()
