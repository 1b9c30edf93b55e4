"""Type the beginning of a program and watch a model go on with it, token by token.

In a live notebook it is a widget. Where nobody can press a button (papermill, an exported page) it is the continuation of the
text it starts with, in the same look. A live cell stores that beside the widget, for pages that show no widgets.
"""

import time
from typing import Any

from .continuation import Run
from .continuation_view import continuation_html, continuation_text
from .front_end import someone_can_click

PREFIX = "class Stack:\n    def __init__(self):\n        self.items = []\n\n    def push(self, item):"
REDRAW_SECONDS = 0.05  # a front end gets no more pictures than it can show


def continue_text(
    model: Any, tokenizer: Any = None, prefix: str = PREFIX, *, new_tokens: int = 32, temperature: float = 0.0, seed: int = 0
) -> "ContinueView":
    """The widget, as the last line of a cell: `continue_text(load("course-target"))`.

    model        a course_lib.model.Decoder
    tokenizer    None: the model's own
    prefix       blanks and line breaks at its end are left to the model (continuation.Run says why)
    new_tokens   of the continuation it starts with, and of each press of Continue
    seed         of the draws at a temperature above 0; each press of Start again takes the next one
    ValueError for a text that is too long for the model, or a setting out of range.
    """
    if new_tokens < 1:
        raise ValueError(f"new_tokens is {new_tokens}; use at least 1")
    tokenizer = model.tokenizer() if tokenizer is None else tokenizer
    return ContinueView(model, tokenizer, prefix, new_tokens, temperature, seed)


class ContinueView:
    """The value of a cell. `text` is what is shown: the prefix and what the model added."""

    def __init__(self, model: Any, tokenizer: Any, prefix: str, new_tokens: int, temperature: float, seed: int) -> None:
        self._model, self._tokenizer, self._seed = model, tokenizer, seed
        self.new_tokens = new_tokens
        self.start(prefix, temperature)
        self.go_on(new_tokens)

    @property
    def text(self) -> str:
        return self._run.continuation.prefix + self._run.continuation.text

    def start(self, prefix: str, temperature: float) -> None:
        """Another text, or the same anew, from its beginning."""
        self._run = Run(self._model, self._tokenizer, prefix, temperature, self._seed)
        self._setting = (prefix, temperature)

    def go_on(self, count: int) -> None:
        """Up to `count` tokens more."""
        for _ in range(count):
            if not self._run.advance():
                return

    def html(self, problem: str = "") -> str:
        return continuation_html(self._run.continuation, problem)

    def __repr__(self) -> str:
        return continuation_text(self._run.continuation)

    def _ipython_display_(self) -> None:
        from IPython.display import display

        box = self.widget() if someone_can_click() else None
        display(_Still(self) if box is None else box)

    def widget(self) -> Any:
        """Text field, buttons and picture in one box; None where ipywidgets is missing."""
        try:
            import ipywidgets
        except ImportError:
            return None
        view = self

        class Box(ipywidgets.VBox):
            def _repr_mimebundle_(self, **kwargs: Any) -> Any:
                still = {"text/plain": repr(view), "text/html": view.html()}
                return (super()._repr_mimebundle_(**kwargs) or {}) | still

        w = ipywidgets
        prefix, temperature = self._setting
        field = w.Textarea(value=prefix, rows=6, layout=w.Layout(width="100%", max_width="980px"))
        field.add_class("jp-mod-monospace")
        buttons = {
            "one": w.Button(description="One token", tooltip="Read all weights once"),
            "many": w.Button(description=f"Continue ({self.new_tokens})", tooltip="So many tokens more"),
            "again": w.Button(description="Start again", tooltip="Forget what the model added, and draw anew"),
        }
        heat = w.FloatSlider(value=temperature, min=0, max=max(1.5, temperature), step=0.1, description="Temperature",
                             style={"description_width": "initial"}, layout=w.Layout(width="330px"))  # fmt: skip
        picture = w.HTML(self.html())

        def pressed(count: int, again: bool = False) -> None:
            for button in buttons.values():
                button.disabled = True
            problem = ""
            try:
                self._seed += again
                if again or (field.value, heat.value) != self._setting:
                    self.start(field.value, heat.value)
                self._watch(picture, count)
            except ValueError as error:
                problem = str(error)
            finally:
                picture.value = self.html(problem)
                for button in buttons.values():
                    button.disabled = False

        buttons["one"].on_click(lambda _: pressed(1))
        buttons["many"].on_click(lambda _: pressed(self.new_tokens))
        buttons["again"].on_click(lambda _: pressed(0, again=True))
        row = w.HBox([*buttons.values(), heat], layout=w.Layout(flex_flow="row wrap"))
        return Box([field, row, picture])

    def _watch(self, picture: Any, count: int) -> None:
        """Go on, and let the page see it happen."""
        shown = 0.0
        for _ in range(count):
            goes_on = self._run.advance()
            if time.monotonic() - shown > REDRAW_SECONDS:
                picture.value, shown = self.html(), time.monotonic()
            if not goes_on:
                return


class _Still:
    """What an exported page shows."""

    def __init__(self, view: ContinueView) -> None:
        self._view = view

    def __repr__(self) -> str:
        return repr(self._view)

    def _repr_html_(self) -> str:
        return self._view.html()
