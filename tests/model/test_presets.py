"""Shapes: parameters add up to published totals, and the course's three models keep what was promised of them."""

import re

import pytest
import torch

from course_lib.model import PRESETS, ModelConfig, preset
from course_lib.model.load import empty
from course_lib.model.presets import COURSE
from course_lib.roofline.launches import QWEN3_0_6B
from course_lib.roofline.models import DEEPSEEK_V3, LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B

from .tiny import KINDS, config

PUBLISHED = {  # of the released weights; a tied head counts once
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-2-7b": 6_738_415_616,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "mistral-7b": 7_241_732_096,
}


@pytest.mark.parametrize(("name", "params"), PUBLISHED.items())
def test_parameters_equal_those_of_the_released_weights(name, params):
    assert preset(name).params == params


def test_deepseek_v3_has_671_billion_when_its_experts_are_added():
    """arXiv 2412.19437, section 4.2: 3 dense layers, 58 with 1 shared and 256 routed experts of 2048, a router with a bias."""
    v3 = preset("deepseek-v3")
    outside_mlp = v3.params - v3.layers * 3 * v3.hidden * v3.mlp_hidden
    experts = 58 * (257 * 3 * v3.hidden * 2048 + 256 * v3.hidden + 256)
    assert round((outside_mlp + 3 * 3 * v3.hidden * v3.mlp_hidden + experts) / 1e9, 1) == 671.0


@pytest.mark.parametrize("name", PRESETS)
def test_the_count_is_that_of_the_model_built(name):
    model = empty(preset(name))
    assert sum(weight.numel() for weight in model.parameters()) == preset(name).params


@pytest.mark.parametrize("kind", KINDS)
def test_so_it_is_for_every_kind(kind):
    assert sum(weight.numel() for weight in empty(config(kind)).parameters()) == config(kind).params


@pytest.mark.parametrize("shape", [LLAMA_2_7B, LLAMA_3_8B, LLAMA_3_70B, QWEN3_0_6B], ids=lambda s: s.name)
def test_the_roofline_counts_the_same(shape):
    ours = preset(shape.name.lower())
    assert ours.kv_bytes_per_token() == shape.kv_bytes_per_token()
    head_norms = 2 * ours.layers * ours.head_dim if ours.qk_norm else 0  # the roofline leaves these out
    assert ours.params - head_norms == shape.params
    assert preset("deepseek-v3").kv_bytes_per_token() == DEEPSEEK_V3.kv_bytes_per_token() == 70_272


def test_course_models_fit_git_and_quantise_in_groups_of_128():
    target, draft, mla = COURSE
    assert 2 * sum(model.params for model in COURSE) < 25 * 2**20 - 100_000  # headers of the three files
    assert 5.5e6 < target.params < 6.5e6
    assert 1.0e6 < draft.params < 1.3e6
    assert abs(mla.params / target.params - 1) < 0.02
    assert mla.kv_bytes_per_token() == 0.375 * target.kv_bytes_per_token()
    assert target.heads > target.kv_heads > 1
    for model in COURSE:
        for name, weight in empty(model).named_parameters():
            if weight.dim() == 2 and name != "embed.weight":
                out, summed = weight.shape
                assert summed % 128 == 0, name
                assert out % 64 == 0, name


@pytest.mark.parametrize("kind", KINDS)
def test_a_config_survives_plain_data(kind):
    assert ModelConfig.from_dict(config(kind).to_dict()) == config(kind)


@pytest.mark.parametrize(("more", "words"), [
    ({"kv_heads": 3}, "4 heads do not share 3 KV heads; use one of [1, 2, 4]"),
    ({"layers": 0}, "layers is 0; use at least 1"),
    ({"head_dim": 15}, "15 values are no pairs"),
    ({"sliding_window": 0}, "sliding_window is 0"),
])  # fmt: skip
def test_a_shape_that_cannot_be_is_refused(more, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        config(**more)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="no preset 'llama-9'; there are: course-target"):
        preset("llama-9")
    with pytest.raises(ValueError, match=r"unknown fields \['experts'\]"):
        ModelConfig.from_dict(config().to_dict() | {"experts": 8})


def test_an_empty_model_takes_no_memory():
    assert all(weight.device == torch.device("meta") for weight in empty(preset("llama-3-70b")).parameters())
