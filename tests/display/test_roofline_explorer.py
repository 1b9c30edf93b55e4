"""The roofline explorer says what the roofline functions say, draws it without labels on each other, and follows its controls."""

import io
import random
import sys
from itertools import pairwise

import pytest

from course_lib.display import roofline_explorer
from course_lib.display.roofline_explorer import explore_roofline
from course_lib.display.roofline_explorer_controls import log_steps
from course_lib.display.roofline_explorer_figure import HEIGHT, WIDTH, ExplorerFigure
from course_lib.display.roofline_explorer_numbers import link_of, numbers_of
from course_lib.display.roofline_explorer_panel import panel_html, panel_text, room, rows_of
from course_lib.display.roofline_explorer_setting import DENSE, KV_BYTES, WEIGHT_BYTES, Setting
from course_lib.hardware import all_specs, spec
from course_lib.roofline import (
    LLAMA_3_8B,
    LLAMA_3_70B,
    chunk_step,
    context_limit,
    count_step,
    decode_step,
    intensity_limit,
    resident_bytes,
    step_floor_ms,
    token_threshold,
)

GPUS, MODELS = tuple(all_specs()), tuple(DENSE)


def any_setting(draw):
    return Setting(
        gpu=draw.choice(GPUS), model=draw.choice(MODELS), weights=draw.choice(tuple(WEIGHT_BYTES)),
        kv=draw.choice(tuple(KV_BYTES)), batch=draw.choice((1, 7, 32, 296, 1024)), context=draw.choice((0, 128, 2048, 131_072)),
        new_tokens=draw.choice((1, 1, 1, 512, 8192)), ranks=draw.choice((1, 1, 2, 8)),
    )  # fmt: skip


def test_the_first_setting_gives_the_golden_values():
    numbers = numbers_of(Setting())
    assert numbers.step.flops == pytest.approx(5.15e11, rel=1e-3)
    assert numbers.step.bytes_moved == pytest.approx(23.6e9, rel=2e-3)
    assert numbers.step.flops_per_byte == pytest.approx(21.8, rel=2e-3)
    pencil = decode_step(LLAMA_3_8B, 32, 2048).floor_seconds(989.4e12, 3350e9)  # without the residual stream: 7.05 ms
    assert 1e3 * pencil == pytest.approx(7.05, abs=5e-3)
    assert numbers.floor_ms == pytest.approx(1e3 * pencil, rel=2e-3)
    assert numbers.ridge == pytest.approx(295.34, abs=0.01)
    assert numbers.token_threshold == pytest.approx(295.34, abs=0.01)
    assert numbers.context_limit == pytest.approx(393, abs=0.5)
    assert (numbers.bound, numbers.fits, numbers.precision) == ("memory", True, "bf16")
    assert numbers.product_intensity == 32
    assert numbers.attention_intensity == pytest.approx(4)


def test_a_table_of_the_first_setting_reads_as_it_should():
    rows = {name: (value, made_of) for name, value, made_of in rows_of(numbers_of(Setting()))}
    assert rows["FLOPs"] == ("5.15 × 10¹¹", "products 93%, attention 6.7%")
    assert rows["Bytes"] == ("23.6 GB", "weights 15.0 GB, KV 8.59 GB, activations 33.6 MB")
    assert rows["Intensity"] == ("21.8 FLOP/byte", "ridge 295")
    assert rows["Time floor"] == ("7.06 ms", "arithmetic 0.520, memory 7.06 ms")
    assert rows["tokens/s"] == ("142 a user", "4\u202f535 a GPU")
    assert rows["Memory"] == ("24.7 GB", "of 80 GB")
    assert rows["s*"][0] == "393 tokens"


@pytest.mark.parametrize("seed", range(12))
def test_numbers_are_those_of_the_roofline_functions(seed):
    setting = any_setting(random.Random(seed))
    n, model, gpu = numbers_of(setting), DENSE[setting.model], spec(setting.gpu)
    weight, kv = WEIGHT_BYTES[setting.weights], KV_BYTES[setting.kv]
    step = chunk_step(model, setting.new_tokens, setting.context, setting.batch, weight, kv_bytes=kv)
    assert n.step == step
    parts = n.weights_read_bytes + n.kv_moved_bytes + n.activation_bytes
    assert parts == pytest.approx(step.bytes_moved, rel=1e-12)
    assert n.weights_read_bytes == pytest.approx(weight * model.linear_params + 2 * model.head_params, rel=1e-9)
    assert n.product_flops + n.attention_flops == step.flops
    if model.mlp_matrices == 3:
        counted = count_step(model.numbers(), setting.new_tokens, setting.context, setting.batch, weight, kv)
        assert (n.product_flops, n.attention_flops) == (counted["linear_flops"], counted["attention_flops"])
    assert n.ridge == gpu.peak_tflops(n.precision) * 1e3 / gpu.hbm_gb_per_s
    assert n.token_threshold == token_threshold(n.ridge, weight)
    decodes = setting.new_tokens == 1 and setting.context > 0
    assert n.context_limit == (context_limit(model, n.ridge, kv) if decodes else None)
    assert n.intensity_limit == (intensity_limit(model, setting.context, kv) if decodes else None)
    tokens = setting.batch * (setting.context + setting.new_tokens)
    assert n.resident_bytes == resident_bytes(model, tokens, weight, kv_bytes=kv) / n.ranks
    assert n.trail[-1] == (setting.batch, step.flops_per_byte)
    assert max(n.arithmetic_ms, n.memory_ms) == pytest.approx(
        1e3 * step.floor_seconds(n.peak_tflops * 1e12, gpu.hbm_gb_per_s * 1e9, n.ranks)
    )


def test_ranks_add_the_all_reduces_of_section_6():
    import torch

    numbers = numbers_of(Setting(model="Llama-3-70B", ranks=4))
    step, gpu = chunk_step(LLAMA_3_70B, 1, 2048, 32), spec("h100-sxm")
    counts = {"flops": step.flops, "bytes": step.bytes_moved, "allreduce_bytes": step.allreduce_bytes}
    machine = {"peak_tflops": gpu.bf16_tflops, "hbm_gb_per_s": gpu.hbm_gb_per_s, "link_gb_per_s": 450.0, "alpha_us": 5.0}
    one = {name: torch.tensor([value], dtype=torch.float64) for name, value in (counts | machine).items()}
    floor = step_floor_ms(one, torch.tensor([80.0]), one, torch.tensor([4.0]))
    assert numbers.floor_ms == pytest.approx(floor.item(), rel=1e-12)
    assert 0 < numbers.allreduce_ms < numbers.memory_ms
    assert "all-reduces" in panel_text(numbers)


@pytest.mark.parametrize(("gpu", "ranks", "link"), [
    ("h100-sxm", 8, ("NVLink 4", 450)), ("h100-nvl", 2, ("NVLink 4 bridge, two cards", 300)),
    ("h100-nvl", 4, ("PCIe 5.0 x16", 64)), ("rtx-4090", 2, ("PCIe 4.0 x16", 32)),
])  # fmt: skip
def test_a_bridge_joins_two_cards_and_pcie_the_rest(gpu, ranks, link):
    assert link_of(spec(gpu), ranks) == link


@pytest.mark.parametrize(("gpu", "weights", "precision", "says"), [
    ("h100-sxm", "FP8", "fp8", "too low, never too high"), ("a100-sxm-80gb", "FP8", "bf16", "has no FP8 arithmetic"),
    ("h100-sxm", "INT4 g128", "bf16", "become bf16 before they are multiplied"), ("t4", "bf16", "fp16", "has no bf16"),
    ("t4", "INT4 g128", "fp16", "become fp16"), ("h100-sxm", "bf16", "bf16", None),
])  # fmt: skip
def test_the_peak_is_that_of_the_arithmetic_and_it_is_said(gpu, weights, precision, says):
    numbers = numbers_of(Setting(gpu=gpu, weights=weights))
    assert numbers.precision == precision
    assert numbers.peak_tflops == spec(gpu).peak_tflops(precision)
    assert says in " ".join(numbers.notes) if says else not numbers.notes


def test_products_cross_the_ridge_at_m_star_and_decode_attention_never_does():
    """The three answers of the section: 296 sequences, 7156 tokens of context, and what an FP8 cache changes."""
    crossing = [numbers_of(Setting(batch=batch)) for batch in (295, 296)]
    assert [n.product_intensity > n.ridge for n in crossing] == [False, True]
    assert {round(numbers_of(Setting(batch=b, context=8192)).attention_intensity, 9) for b in (1, 37, 1024)} == {4}
    half = numbers_of(Setting(batch=16, context=7156))
    assert half.kv_moved_bytes == half.weights_read_bytes == 15_009_316_864
    plain, fp8 = numbers_of(Setting()), numbers_of(Setting(kv="FP8"))
    assert fp8.kv_moved_bytes == plain.kv_moved_bytes / 2
    assert (fp8.token_threshold, fp8.product_intensity) == (plain.token_threshold, plain.product_intensity)
    assert fp8.attention_intensity == pytest.approx(8)


def test_what_does_not_fit_is_said_in_red():
    fits, too_much = (numbers_of(Setting(batch=batch)) for batch in (238, 239))
    assert fits.fits
    assert fits.most_batch == too_much.most_batch == 238
    assert room(fits).startswith("Fits: up to 238 sequences")
    assert room(too_much) == "Does not fit: 238 sequences of this length fit on this GPU, not 239."
    assert "#c62828" in panel_html(too_much)
    assert "#c62828" not in panel_html(fits)
    assert "the weights and one sequence" in room(numbers_of(Setting(model="Llama-3.1-405B")))


def test_attention_that_reaches_the_ridge_by_itself_leaves_no_limit():
    """71 query heads on one KV head of FP8: 142 FLOP/byte, right of the ridge of an RTX 3090."""
    text = repr(explore_roofline(gpu="rtx-3090", model="Falcon-7B", kv="FP8", batch=1024, context=131_072))
    assert "no limit" in text
    assert "inf" not in text.split()


def test_heads_that_do_not_split_are_shown_on_one_gpu():
    numbers = numbers_of(Setting(model="Falcon-7B", ranks=2))
    assert numbers.ranks == 1
    assert numbers.allreduce_ms == 0
    assert "71 query heads of Falcon-7B do not split over 2 GPUs" in panel_text(numbers)


@pytest.mark.parametrize(("wrong", "message"), [
    ({"batch": 0}, "batch is 0; use a whole number from 1 to 1024"), ({"model": "DeepSeek-V3"}, "use one of Llama-2-7B"),
    ({"weights": "fp4"}, "use one of bf16, FP8, INT4"), ({"gpu": "H300"}, "is not known"),
    ({"ranks": 3}, "use one of 1, 2, 4, 8"),
])  # fmt: skip
def test_a_setting_it_does_not_know_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        explore_roofline(**wrong)


def test_words_in_the_picture_lie_neither_on_each_other_nor_outside():
    figure, draw = ExplorerFigure(), random.Random(3)
    renderer = figure.figure.canvas.get_renderer()
    for setting in [Setting(), *(any_setting(draw) for _ in range(60))]:
        figure.draw(numbers_of(setting))
        words = [one for one in figure._moving if hasattr(one, "get_text")]
        boxes = [(one.get_text(), _Box(one, renderer)) for one in words]
        for place, (text, box) in enumerate(boxes):
            assert box.inside(WIDTH, HEIGHT), f"{text!r} leaves the picture for {setting}"
            for other, its in boxes[place + 1 :]:
                assert not box.meets(its), f"{text!r} lies on {other!r} for {setting}"


class _Box:
    """Where the words stand, in pixels, without the space above and below letters."""

    def __init__(self, text, renderer):
        box = text.get_window_extent(renderer)
        self.x, self.y = (box.x0 + 1, box.x1 - 1), (box.y0 + 2, box.y1 - 2)

    def meets(self, other):
        return all(a[0] < b[1] and b[0] < a[1] for a, b in ((self.x, other.x), (self.y, other.y)))

    def inside(self, width, height):
        return self.x[0] >= 0 and self.y[0] >= 0 and self.x[1] <= width and self.y[1] <= height


def test_the_picture_depends_on_the_setting_alone():
    from PIL import Image

    figure = ExplorerFigure()
    first, other = figure.png(numbers_of(Setting())), figure.png(numbers_of(Setting(batch=256)))
    assert first != other
    assert figure.png(numbers_of(Setting())) == first == ExplorerFigure().png(numbers_of(Setting()))
    assert Image.open(io.BytesIO(first)).size == (WIDTH, HEIGHT)


def test_a_slider_steps_in_even_ratios():
    steps = log_steps(1, 1024)
    assert steps[:12] == [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16]
    assert steps[-1] == 1024
    assert all(later / step <= 1.26 for step, later in pairwise(steps[3:]))


@pytest.fixture
def shown(monkeypatch):
    outputs = []
    monkeypatch.setattr("IPython.display.display", outputs.append)
    return outputs


def test_where_nobody_can_click_there_is_a_picture_and_its_numbers(shown, capsys):
    explore_roofline()._ipython_display_()
    picture, panel = shown
    assert picture.data.startswith(b"\x89PNG")
    assert "ridge at 295" in picture.alt
    assert "7.06 ms" in panel._repr_html_()
    assert repr(panel) == repr(explore_roofline())
    assert capsys.readouterr() == ("", "")


def test_without_ipywidgets_a_live_notebook_shows_the_same(shown, monkeypatch):
    monkeypatch.setattr(roofline_explorer, "someone_can_click", lambda: True)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    explore_roofline()._ipython_display_()
    assert len(shown) == 2


def test_a_live_notebook_stores_the_picture_in_the_widget_s_own_output(shown, monkeypatch):
    monkeypatch.setattr(roofline_explorer, "someone_can_click", lambda: True)
    explorer = explore_roofline()
    explorer._ipython_display_()
    (box,) = shown
    bundle = box._repr_mimebundle_()
    assert sorted(bundle) == ["application/vnd.jupyter.widget-view+json", "image/png", "text/plain"]
    assert bundle["image/png"] == explorer.png()


def test_each_change_of_a_control_is_drawn_once(shown, monkeypatch, capsys):
    explorer = explore_roofline()
    box = explorer.widget()
    picture, panel = box.children[1].children
    drawn = []
    monkeypatch.setattr(explorer, "png", lambda: drawn.append(explorer.setting) or b"picture")
    slider, number = explorer._controls._sizes["batch"]
    slider.value = 64
    assert number.value == 64
    number.value = 296
    assert slider.value == 320  # the step nearest to what was typed
    explorer._controls._lists["gpu"].value = "h200-sxm"
    explorer.set(model="Llama-3-70B", batch=100, context=700, new_tokens=300, ranks=8, weights="FP8")
    assert [(setting.batch, setting.gpu, setting.model) for setting in drawn] == [
        (64, "h100-sxm", "Llama-3-8B"), (296, "h100-sxm", "Llama-3-8B"), (296, "h200-sxm", "Llama-3-8B"),
        (100, "h200-sxm", "Llama-3-70B"),
    ]  # fmt: skip
    assert explorer._controls._lists["new_tokens"].value == 300
    assert explorer.numbers == numbers_of(explorer.setting)
    assert panel.value == panel_html(explorer.numbers)
    assert picture.value == b"picture"
    assert capsys.readouterr() == ("", "")


def test_set_works_before_anything_is_shown():
    explorer = explore_roofline(batch=8)
    explorer.set(gpu="H200", batch=16)
    assert (explorer.setting.gpu, explorer.setting.batch) == ("h200-sxm", 16)
    assert "H200 SXM" in repr(explorer)
