"""What training minimises: the next token's cross entropy, and for a draft the distance to its target's distribution.

The logits are made here and not in Decoder.forward, whose float32 copy of them would be the largest tensor of a step: compiled,
the bfloat16 logits are read twice and never widened in memory.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.model import Decoder
from course_lib.model.attend import attend_dense
from course_lib.model.layers import Step
from course_lib.model.positions import span_of
from course_lib.model.rope import inverse_frequencies, turns
from course_lib.model.span import Span

Loss = Callable[[Tensor, Tensor], Tensor]
"""(inputs, targets) [batch, length] int64 -> mean nats a token"""


def hidden(model: Decoder, tokens: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """What the head is applied to: [batch, length, hidden]. The body of Decoder.forward for whole windows, without a cache."""
    span = span_of(tokens, None, None, model.config.sliding_window)
    step = Step(span, cos, sin, None, attend_training, "explicit")
    x = model.embed(tokens)
    for layer in model.layers:
        x = layer(x, step)
    return model.final_norm(x)


def attend_training(q: Tensor, k: Tensor, v: Tensor, span: Span, scale: float) -> Tensor:
    """attend_dense; MLA's values, narrower than its keys, get zeros added, since the fused kernel wants equal widths."""
    missing = q.shape[-1] - v.shape[-1]
    out = attend_dense(q, k, F.pad(v, (0, missing)) if missing else v, span, scale)
    return out[..., : v.shape[-1]] if missing else out


def logits_of(model: Decoder, tokens: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """[batch, length, vocab] in the model's type."""
    head = model.embed.weight if model.head is None else model.head.weight
    return F.linear(hidden(model, tokens, cos, sin), head)


def rotary(model: Decoder, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos and sin of a window's positions, made once for a run."""
    return turns(torch.arange(length, device=device)[None], inverse_frequencies(model.config).to(device), model.dtype)


def next_token_loss(model: Decoder, length: int, device: torch.device) -> Loss:
    """Mean cross entropy, -log p(target)."""
    cos, sin = rotary(model, length, device)

    def loss(tokens: Tensor, targets: Tensor) -> Tensor:
        logits = logits_of(model, tokens, cos, sin)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())

    return loss


def distillation_loss(model: Decoder, teacher: Decoder, share: float, length: int, device: torch.device) -> Loss:
    """(1 - share) * cross entropy with the text + share * cross entropy with the teacher's distribution.

    The second differs from KL(teacher || model) by the teacher's entropy, which has no gradient.
    Source   Hinton, Vinyals and Dean, arXiv 1503.02531, at temperature 1.
    """
    cos, sin = rotary(model, length, device)
    teacher_cos, teacher_sin = rotary(teacher, length, device)

    def loss(tokens: Tensor, targets: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = logits_of(teacher, tokens, teacher_cos, teacher_sin).flatten(0, 1).float().softmax(-1)
        log_p = logits_of(model, tokens, cos, sin).flatten(0, 1).float().log_softmax(-1)
        of_text = F.nll_loss(log_p, targets.flatten())
        return (1 - share) * of_text - share * (wanted * log_p).sum(-1).mean()

    return loss


def flops_per_token(model: Decoder, length: int) -> float:
    """FLOPs of a training step a token: forward and twice that backward; causal attention counted with half its square."""
    config = model.config
    products = sum(w.numel() for name, w in model.named_parameters() if w.dim() == 2 and name != "embed.weight")
    products += config.vocab * config.hidden if config.tied else 0
    widths = (config.mla.nope_dim + config.mla.rope_dim + config.mla.v_dim) if config.mla else 2 * config.head_dim
    attention = 2 * config.heads * widths * (length / 2) * config.layers
    return 3 * (2 * products + attention)
