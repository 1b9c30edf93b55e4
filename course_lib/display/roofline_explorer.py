"""The roofline explorer: choose a GPU, a model, precisions and sizes, and see at once where the step lies and what it costs.

In a live notebook it is a widget. Where nobody can move a slider (papermill, an exported page) it is the picture and the numbers
of the setting it starts with. A live cell stores that picture beside the widget, so that a saved notebook shows it on GitHub; a
front end shows one of the two, never both.

Dragging needs no timer: a front end has one change of a widget under way at a time, and sends the newest when it is done.
"""

from dataclasses import replace
from typing import Any

from .front_end import someone_can_click
from .roofline_explorer_controls import Controls
from .roofline_explorer_figure import HEIGHT, WIDTH, ExplorerFigure, alt_text
from .roofline_explorer_numbers import Numbers, numbers_of
from .roofline_explorer_panel import panel_html, panel_text
from .roofline_explorer_setting import Setting

STILL = "A picture of one setting. In a live notebook there are controls above it."


def explore_roofline(**setting: Any) -> "Explorer":
    """The explorer, as the last line of a cell. Where it starts: `explore_roofline(gpu="H200 SXM", batch=256)`.

    gpu, model, weights, kv, batch, context, new_tokens, ranks: see Setting; ValueError for what it does not know.
    """
    return Explorer(Setting(**setting))


class Explorer:
    """The value of an explorer's cell. `numbers` follow its controls; `set(batch=64)` moves them."""

    def __init__(self, setting: Setting) -> None:
        self.numbers: Numbers = numbers_of(setting)
        self._figure: ExplorerFigure | None = None
        self._controls: Controls | None = None

    @property
    def setting(self) -> Setting:
        return self.numbers.setting

    def set(self, **changes: Any) -> None:
        """Move controls; a picture on the page is drawn again, once."""
        setting = replace(self.setting, **changes)
        if self._controls is None:
            self.numbers = numbers_of(setting)
        else:
            self._controls.show(setting)

    def png(self) -> bytes:
        self._figure = self._figure or ExplorerFigure()
        return self._figure.png(self.numbers)

    def __repr__(self) -> str:
        return panel_text(self.numbers)

    def _ipython_display_(self) -> None:
        from IPython.display import HTML, Image, display

        box = self.widget() if someone_can_click() else None
        if box is not None:
            display(box)
            return
        display(Image(self.png(), format="png", width=WIDTH, height=HEIGHT, alt=alt_text(self.numbers)))
        display(_Both(panel_text(self.numbers), HTML(panel_html(self.numbers, below=True, foot=STILL))))

    def widget(self) -> Any:
        """Controls, picture and panel in one box; None where ipywidgets is missing."""
        try:
            import ipywidgets
        except ImportError:
            return None
        explorer = self

        class Box(ipywidgets.VBox):
            def _repr_mimebundle_(self, **kwargs: Any) -> Any:
                still = {"text/plain": repr(explorer), "image/png": explorer.png()}
                return (super()._repr_mimebundle_(**kwargs) or {}) | still

        fixed = ipywidgets.Layout(width=f"{WIDTH}px", height=f"{HEIGHT}px", flex="0 0 auto")
        picture = ipywidgets.Image(value=self.png(), format="png", width=WIDTH, height=HEIGHT, layout=fixed)
        panel = ipywidgets.HTML(panel_html(self.numbers), layout=ipywidgets.Layout(flex="1 1 280px", margin="0 0 0 12px"))

        def changed(setting: Setting) -> None:
            self.numbers = numbers_of(setting)
            picture.value, panel.value = self.png(), panel_html(self.numbers)

        self._controls = Controls(ipywidgets, self.setting, changed)
        below = ipywidgets.HBox([picture, panel], layout=ipywidgets.Layout(flex_flow="row wrap"))
        return Box([self._controls.box, below])


class _Both:
    """HTML with a text of our own beside it, for a terminal."""

    def __init__(self, text: str, html: Any) -> None:
        self._text, self._html = text, html

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html.data
