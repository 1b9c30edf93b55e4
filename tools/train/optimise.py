"""Masters in float32, the model's own weights in the type it computes in, and who updates what.

The model multiplies in bfloat16, whose 8 bits lose steps smaller than 1/256 of a weight; so each weight has a float32 master that
takes the steps, and after each step the model gets the rounded copy. That copy is also what is shipped in the end.
"""

import torch
from torch import Tensor, nn

from .muon import Muon, is_for_muon


class Optimiser:
    """Muon for the layers' matrices, AdamW for embedding, head and norms."""

    def __init__(self, model: nn.Module, *, muon_rate: float, adam_rate: float, weight_decay: float) -> None:
        self.model_weights = dict(model.named_parameters())
        self.masters: dict[str, Tensor] = {name: w.detach().float().clone() for name, w in self.model_weights.items()}
        self.muon_rate, self.adam_rate = muon_rate, adam_rate
        self.muon_names = [name for name, w in self.masters.items() if is_for_muon(name, w.shape)]
        self.adam_names = [name for name in self.masters if name not in set(self.muon_names)]
        self.muon = Muon({name: self.masters[name] for name in self.muon_names}, weight_decay=weight_decay)
        others = [self.masters[name] for name in self.adam_names]
        # fused: one kernel for all; the CPU has it too, but there the plain loop is as quick
        self.adam = torch.optim.AdamW(
            others, lr=adam_rate, betas=(0.9, 0.95), eps=1e-10, weight_decay=0.0, fused=others[0].is_cuda
        )

    @torch.no_grad()
    def step(self, factor: float) -> None:
        """Apply the model's gradients at `factor` of both peak rates, and clear them."""
        gradients = {name: weight.grad for name, weight in self.model_weights.items()}
        if missing := [name for name, gradient in gradients.items() if gradient is None]:
            raise RuntimeError(f"no gradient for {missing}; a training step has to use every weight")
        self.muon.step({name: gradients[name] for name in self.muon_names}, factor * self.muon_rate)
        for name in self.adam_names:
            self.masters[name].grad = gradients[name].float()
        for group in self.adam.param_groups:
            group["lr"] = factor * self.adam_rate
        self.adam.step()
        self.adam.zero_grad(set_to_none=True)
        for weight in self.model_weights.values():
            weight.grad = None
        self.copy_to_model()

    @torch.no_grad()
    def copy_to_model(self) -> None:
        torch._foreach_copy_(list(self.model_weights.values()), list(self.masters.values()))

    def state_dict(self) -> dict:
        return {"masters": self.masters, "muon": self.muon.state_dict(), "adam": self.adam.state_dict()}

    @torch.no_grad()
    def load_state_dict(self, state: dict) -> None:
        """Everything, or an error and nothing: names and shapes are compared first."""
        shapes = {name: tuple(master.shape) for name, master in self.masters.items()}
        if shapes != {name: tuple(master.shape) for name, master in state["masters"].items()}:
            raise ValueError("the checkpoint's weights have other names or shapes than the model; name another --out folder")
        self.muon.load_state_dict(state["muon"])
        self.adam.load_state_dict(state["adam"])
        for name, master in self.masters.items():
            master.copy_(state["masters"][name])
        self.copy_to_model()
