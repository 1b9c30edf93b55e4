"""Model shapes: parameters add up to what the published weights hold."""

import pytest

from course_lib.roofline.models import (
    DEEPSEEK_67B,
    DEEPSEEK_V2,
    DEEPSEEK_V3,
    FALCON_7B,
    LLAMA_2_7B,
    LLAMA_3_8B,
    LLAMA_3_70B,
    LLAMA_3_405B,
    MODELS,
    ModelShape,
)  # fmt: skip

PUBLISHED = [  # parameters of the released weights
    (LLAMA_2_7B, 6_738_415_616),
    (LLAMA_3_8B, 8_030_261_248),
    (LLAMA_3_70B, 70_553_706_496),
    (LLAMA_3_405B, 405_853_388_800),
    (FALCON_7B, 6_921_720_704),
]


@pytest.mark.parametrize(("model", "params"), PUBLISHED, ids=lambda v: getattr(v, "name", ""))
def test_parameters_equal_those_of_the_released_weights(model, params):
    assert model.params == params


def test_deepseek_67b_has_the_67_4_billion_of_its_name():
    assert round(DEEPSEEK_67B.params / 1e9, 1) == 67.4


def test_kinds_of_attention():
    kinds = {model.name: model.kind for model in MODELS}
    assert kinds == {
        "Llama-2-7B": "MHA", "Llama-3-8B": "GQA", "Llama-3-70B": "GQA", "Llama-3.1-405B": "GQA",
        "DeepSeek-67B": "GQA", "Falcon-7B": "MQA", "DeepSeek-V2": "MLA", "DeepSeek-V3": "MLA",
    }  # fmt: skip


def test_a_latent_is_512_values_and_a_rotary_key_of_64():
    assert DEEPSEEK_V2.latent_dim == DEEPSEEK_V3.latent_dim == 576


def test_the_numbers_of_a_shape_make_the_shape_again():
    assert ModelShape(name="Llama-3-8B", **LLAMA_3_8B.numbers()) == LLAMA_3_8B


def test_a_tied_head_is_stored_once():
    tied = ModelShape(name="tied", **LLAMA_3_8B.numbers(), tied_head=True)
    assert LLAMA_3_8B.params - tied.params == LLAMA_3_8B.head_params
