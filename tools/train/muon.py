"""Muon: momentum, made orthogonal before it is applied, for the weight matrices inside the layers.

A gradient matrix has a few large singular values and many small ones, so a plain step moves along a few directions only. Muon
keeps the directions and sets all singular values to about 1. Five Newton-Schulz steps do that with matrix products alone.

Source   Keller Jordan et al., "Muon: An optimizer for hidden layers in neural networks", https://kellerjordan.github.io/posts/muon/
         (2024): coefficients, Nesterov momentum, and the scale sqrt(max(1, rows / columns)).
Here     matrices of one shape are one stack [n, rows, columns], so a step is a few dozen batched kernels and not hundreds.
         Embeddings, output heads and vectors do not belong here: optimise.py gives them to AdamW.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

A, B, C = 3.4445, -4.7750, 2.0315  # the quintic a x + b x^3 + c x^5 sends (0, 1] near 1 quickly; it ends between 0.7 and 1.2
STEPS = 5


def orthogonalise(matrices: Tensor, steps: int = STEPS) -> Tensor:
    """U V^T, nearly, for each matrix U S V^T of the stack [n, rows, columns]; bfloat16 on a GPU, float32 on a CPU."""
    x = matrices.to(torch.bfloat16 if matrices.is_cuda else torch.float32)
    wide = x if x.shape[-2] <= x.shape[-1] else x.mT  # the small side squared is the smaller product
    wide = wide / (wide.norm(dim=(-2, -1), keepdim=True) + 1e-7)  # the largest singular value is at most 1
    for _ in range(steps):
        gram = wide @ wide.mT
        wide = A * wide + torch.baddbmm(gram, gram, gram, beta=B, alpha=C) @ wide
    return wide if x.shape[-2] <= x.shape[-1] else wide.mT


class Muon:
    """Updates float32 matrices in place. weights: {name: matrix}; a resumed run has to give the same in the same order."""

    def __init__(self, weights: dict[str, Tensor], *, momentum: float = 0.95, weight_decay: float = 0.01) -> None:
        self.momentum, self.weight_decay = momentum, weight_decay
        shapes = sorted({tuple(weight.shape) for weight in weights.values()})
        if bad := [shape for shape in shapes if len(shape) != 2]:
            raise ValueError(f"Muon is for matrices, got shapes {bad}; give the others to AdamW")
        self.groups = [[name for name, weight in weights.items() if tuple(weight.shape) == shape] for shape in shapes]
        self.weights = weights
        self.moments = [torch.stack([torch.zeros_like(weights[name]) for name in group]) for group in self.groups]

    @torch.no_grad()
    def step(self, gradients: dict[str, Tensor], rate: float) -> None:
        """One update with this learning rate. gradients: by name, any float type."""
        for group, moment in zip(self.groups, self.moments, strict=True):
            gradient = torch.stack([gradients[name] for name in group]).float()
            moment.lerp_(gradient, 1 - self.momentum)
            direction = gradient.lerp(moment, self.momentum)  # Nesterov: the moment after one more step like this
            rows, columns = moment.shape[1:]
            update = orthogonalise(direction).float()
            masters = [self.weights[name] for name in group]
            torch._foreach_mul_(masters, 1 - rate * self.weight_decay)
            torch._foreach_add_(masters, list(update.unbind()), alpha=-rate * max(1.0, rows / columns) ** 0.5)

    def state_dict(self) -> dict[str, Tensor]:
        """{"rows x columns": the stack of moments}"""
        return {f"{m.shape[1]}x{m.shape[2]}": m for m in self.moments}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        own = self.state_dict()
        if own.keys() != state.keys():
            raise ValueError(f"a Muon state of shapes {sorted(state)} for a model of {sorted(own)}; it belongs to another model")
        for key, moment in own.items():
            moment.copy_(state[key])


def is_for_muon(name: str, shape: Sequence[int]) -> bool:
    """Matrices inside the layers. An embedding or head is a table whose rows are used one by one."""
    return len(shape) == 2 and name.startswith("layers.")
