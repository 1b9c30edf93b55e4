"""The explorer's controls: lists, and for batch and context a slider in even ratios with a field for any number between."""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..hardware import GpuSpec, all_specs
from .roofline_explorer_setting import DENSE, KV_BYTES, MOST_BATCH, MOST_CONTEXT, RANKS, WEIGHT_BYTES, Setting

NEW_TOKENS = (1, 16, 64, 256, 512, 1024, 2048, 4096, 8192)


class Controls:
    """The widgets of a setting. `changed(setting)` is called once for each change of it, by hand or by `show`."""

    def __init__(self, ipywidgets: Any, setting: Setting, changed: Callable[[Setting], None]) -> None:
        self.setting, self._changed, self._moving = setting, changed, False
        self._ipywidgets = ipywidgets
        specs = sorted(all_specs().values(), key=_family)
        self._lists = {
            "gpu": self._list("GPU", {_gpu_words(gpu): gpu.key for gpu in specs}),
            "ranks": self._list("GPUs", {f"{n}, tensor parallel" if n > 1 else "1": n for n in RANKS}),
            "model": self._list("Model", {name: name for name in DENSE}),
            "new_tokens": self._list("New tokens", {"1: decode" if n == 1 else f"{n}": n for n in NEW_TOKENS}),
            "weights": self._list("Weights", {name: name for name in WEIGHT_BYTES}),
            "kv": self._list("KV cache", {name: name for name in KV_BYTES}),
        }
        self._sizes = {
            "batch": self._size("Batch", log_steps(1, MOST_BATCH), 1, MOST_BATCH),
            "context": self._size("Context", [0, *log_steps(128, MOST_CONTEXT)], 0, MOST_CONTEXT),
        }
        self._put(setting)
        for one in self._lists.values():
            one.observe(self._by_hand, "value")
        for slider, number in self._sizes.values():
            slider.observe(lambda change, number=number: self._slid(number, change["new"]), "value")
            number.observe(self._by_hand, "value")
        rows = [ipywidgets.HBox(list(pair)) for pair in self._sizes.values()]
        grid = ipywidgets.Layout(display="flex", flex_flow="row wrap")
        pairs = (("gpu", "ranks"), ("model", "new_tokens"), ("weights", "kv"))
        columns = [[self._lists[name] for name in pair] for pair in pairs]
        self.box = ipywidgets.VBox([
            ipywidgets.HBox([ipywidgets.VBox(column) for column in columns], layout=grid),
            ipywidgets.HBox(rows, layout=grid),
        ])  # fmt: skip

    def show(self, setting: Setting) -> None:
        """Put every control where the setting says, then draw once."""
        self._put(setting)
        self._by_hand(None)

    def _put(self, setting: Setting) -> None:
        self._moving = True
        try:
            for name, one in self._lists.items():
                value = getattr(setting, name)
                if value not in dict(one.options).values():  # a number of new tokens that the list lacks
                    one.options = (*one.options, (str(value), value))
                one.value = value
            for name, (slider, number) in self._sizes.items():
                number.value = getattr(setting, name)
                slider.value = _nearest(slider.options, number.value)
        finally:
            self._moving = False

    def _slid(self, number: Any, value: int) -> None:
        if not self._moving:
            number.value = value

    def _by_hand(self, _change: Any) -> None:
        if self._moving:
            return
        chosen = {name: one.value for name, one in self._lists.items()}
        chosen |= {name: number.value for name, (_, number) in self._sizes.items()}
        setting = replace(self.setting, **chosen)
        self._put(setting)  # the slider goes where the typed number is
        if setting != self.setting:
            self.setting = setting
            self._changed(setting)

    def _list(self, label: str, options: Mapping[str, Any]) -> Any:
        layout = self._ipywidgets.Layout(width="310px")
        return self._ipywidgets.Dropdown(description=label, options=list(options.items()), layout=layout)

    def _size(self, label: str, steps: Sequence[int], least: int, most: int) -> tuple[Any, Any]:
        """A slider in even ratios, and a field for any number between."""
        w = self._ipywidgets
        slider = w.SelectionSlider(description=label, options=list(steps), readout=False, layout=w.Layout(width="360px"))
        number = w.BoundedIntText(min=least, max=most, layout=w.Layout(width="86px"))
        return slider, number


def log_steps(least: int, most: int) -> list[int]:
    """Whole numbers in four even steps to a doubling: 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, ..."""
    octave, steps = least, {most}
    while octave < most:
        steps |= {octave * quarter // 4 for quarter in (4, 5, 6, 7)}
        octave *= 2
    return sorted(steps)


def _nearest(steps: Sequence[int], value: int) -> int:
    place = bisect_left(steps, value)
    return min(steps[max(place - 1, 0) : place + 1], key=lambda step: abs(step - value))


def _family(gpu: GpuSpec) -> tuple[bool, bool]:
    """NVIDIA's data centre cards first, then its cards for desktops, then AMD's; in the order of gpus.toml."""
    return gpu.capability.startswith("gfx"), gpu.key.startswith("rtx")


def _gpu_words(gpu: GpuSpec) -> str:
    amd, desktop = _family(gpu)
    return f"AMD {gpu.name}" if amd else f"{gpu.name} (consumer)" if desktop else gpu.name
