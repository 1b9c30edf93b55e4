"""The outlier twin: the same function, and channels as loud as promised."""

import pytest
import torch

from course_lib.model.outliers import READERS, outlier_factors, outlier_twin

from .tiny import decoder, tokens


def loudness(model, ids):
    """Of each channel that a product reads: the largest size over the tokens, in units of the median channel's."""
    found = []
    hooks = [
        getattr(layer, norm).register_forward_hook(lambda m, a, out: found.append(out.abs().amax((0, 1))))
        for layer in model.layers for norm in READERS
    ]  # fmt: skip
    model(ids)
    for hook in hooks:
        hook.remove()
    return torch.stack([sizes / sizes.median() for sizes in found])


@pytest.mark.parametrize("kind", ["grouped", "qwen2.5", "mla", "mla, queries compressed", "multi-head, head apart"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_twin_is_the_same_function(kind, dtype):
    """Powers of two scale without rounding, so not even bf16 differs by more than a sum's order."""
    model, ids = decoder(kind).to(dtype), tokens(2, 9)
    expected = model(ids)
    twin = outlier_twin(model)
    torch.testing.assert_close(twin(ids), expected, rtol=0, atol=1e-4)
    assert torch.equal(model(ids), expected)  # the model itself is left as it was


def test_a_few_channels_are_tens_of_times_louder():
    model, ids = decoder(), tokens(2, 9)
    twin = outlier_twin(model, channels=3)
    loud = outlier_factors(64, 3) > 1
    assert loud.sum() == 3
    assert loudness(model, ids).max() < 10
    assert (loudness(twin, ids)[:, loud] > 4).all()
    assert loudness(twin, ids).amax(1).min() > 20
    assert (loudness(twin, ids)[:, ~loud] < 10).all()


def test_a_twin_whose_weights_are_not_divided_is_another_function():
    model, ids = decoder(), tokens(2, 9)
    twin = outlier_twin(model)
    twin.layers[0].gate.weight.mul_(outlier_factors(64, 6))
    assert (twin(ids) - model(ids)).abs().max() > 1


def test_channels_beyond_the_model_are_refused():
    for channels in (0, 65):
        with pytest.raises(ValueError, match=f"{channels} outlier channels; use 1 to 64"):
            outlier_twin(decoder(), channels)
