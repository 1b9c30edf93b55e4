"""Muon: singular values near 1 in the same directions, and the steps that torch's own Muon takes."""

import pytest
import torch

from tools.train.muon import Muon, is_for_muon, orthogonalise


@pytest.mark.parametrize("shape", [(64, 64), (128, 64), (64, 128), (96, 256)])
def test_singular_values_end_near_one_and_directions_stay(shape):
    torch.manual_seed(0)
    u, _, v = torch.linalg.svd(torch.randn(3, *shape), full_matrices=False)
    values = torch.logspace(0, -2, min(shape))  # a condition of 100, as gradients have
    made = orthogonalise(u * values @ v)
    found = torch.linalg.svdvals(made)
    # the quintic of the source does not converge: it moves values into about 0.7 to 1.2, and small ones into reach of it
    assert found.min() > 0.65
    assert found.max() < 1.25
    inner = u.mT @ made @ v.mT
    off = inner - torch.diag_embed(inner.diagonal(dim1=-2, dim2=-1))
    assert off.abs().max() < 1e-4  # float32 products: the same singular vectors


def test_the_size_of_a_gradient_does_not_matter():
    torch.manual_seed(1)
    gradient = torch.randn(1, 32, 48)
    torch.testing.assert_close(orthogonalise(gradient), orthogonalise(1000 * gradient), rtol=1e-4, atol=1e-4)
    assert orthogonalise(torch.zeros(1, 8, 8)).abs().max() == 0  # and no nan


@pytest.mark.parametrize("shape", [(48, 32), (32, 48), (32, 32)])
def test_steps_equal_those_of_torch(shape):
    torch_muon = pytest.importorskip("torch.optim").__dict__.get("Muon")
    if torch_muon is None:
        pytest.skip("this torch has no Muon")
    torch.manual_seed(2)
    start, gradients = torch.randn(shape), [torch.randn(shape) for _ in range(3)]
    theirs = torch.nn.Parameter(start.clone())
    ours = {"layers.0.q.weight": start.clone(), "layers.1.q.weight": start.clone()}
    peer = torch_muon([theirs], lr=0.02, momentum=0.95, weight_decay=0.01, nesterov=True, adjust_lr_fn="original")
    muon = Muon(ours, momentum=0.95, weight_decay=0.01)
    for gradient in gradients:
        theirs.grad = gradient.clone()
        peer.step()
        muon.step(dict.fromkeys(ours, gradient), 0.02)
    # torch makes its updates orthogonal in bfloat16 (8 bits): three updates of at most 0.02 * 1.2 each, 2% of which is rounding
    for weight in ours.values():
        torch.testing.assert_close(weight, theirs.detach(), rtol=0, atol=1.5e-3)
        assert (weight - start).abs().max() > 0.01


def test_stacks_keep_matrices_apart():
    torch.manual_seed(3)
    names = [f"layers.{n}.gate.weight" for n in range(3)]
    weights = {name: torch.zeros(16, 8) for name in names}
    gradients = {name: torch.randn(16, 8) for name in names}
    Muon(weights, weight_decay=0.0).step(gradients, 1.0)
    for name in names:
        alone = {name: torch.zeros(16, 8)}
        Muon(alone, weight_decay=0.0).step({name: gradients[name]}, 1.0)
        torch.testing.assert_close(weights[name], alone[name], rtol=1e-4, atol=1e-5)


def test_only_matrices_inside_the_layers_are_its_business():
    assert is_for_muon("layers.3.gate.weight", (704, 256))
    assert not is_for_muon("layers.3.mlp_norm.weight", (256,))
    assert not is_for_muon("embed.weight", (4096, 256))
    assert not is_for_muon("head.weight", (4096, 256))
    with pytest.raises(ValueError, match="Muon is for matrices"):
        Muon({"x": torch.zeros(3)})
