"""How alike two models are on a text: what speculation lives on, and what quantisation and KV compression must not lose.

top1_agreement      share of positions where both would pick the same token, on a given text (teacher-forced)
roll_out_agreement  the same on the target's own greedy text; tiny models loop there, which makes it higher: report both
acceptance          mean of sum_x min(p(x), q(x)): the chance that speculative sampling keeps a drafted token
next_token_kl       mean KL(p || q) in nats, p the first model: 0 for equal models, and it sees changes that top-1 does not

Source of the acceptance: Leviathan et al., arXiv 2211.17192, section 3.3, theorem 3.5 and corollary 3.6.
All by the windows of windows.py, each with a bootstrap interval over documents. Both models need one vocabulary.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from .interval import Estimate, share
from .windows import WINDOW, Texts, as_many_logits, device_of, encoded, mark_of, scored_windows

PROMPTS, PROMPT_TOKENS, NEW_TOKENS = 32, 96, 128
ROWS = 1024  # positions at once in float64: 34 MB for a vocabulary of 4096


def top1_agreement(target: nn.Module, draft: nn.Module, tokenizer, texts: Texts, *, window: int = WINDOW) -> Estimate:
    """Share of the text's positions where the two models' most likely tokens are equal."""
    return _mean([target, draft], tokenizer, texts, window, lambda p, q: (p.argmax(-1) == q.argmax(-1)).double())


def acceptance(
    target: nn.Module, draft: nn.Module, tokenizer, texts: Texts, *, temperature: float = 1.0, window: int = WINDOW
) -> Estimate:
    """Mean over the text's positions of sum_x min(p(x), q(x)), both distributions at this temperature."""
    if not temperature > 0:
        raise ValueError(f"temperature is {temperature}; use more than 0, or top1_agreement for greedy decoding")

    def overlap(p: Tensor, q: Tensor) -> Tensor:
        return torch.minimum((p.double() / temperature).softmax(-1), (q.double() / temperature).softmax(-1)).sum(-1)

    return _mean([target, draft], tokenizer, texts, window, overlap)


def next_token_kl(model: nn.Module, other: nn.Module, tokenizer, texts: Texts, *, window: int = WINDOW) -> Estimate:
    """Mean over the text's positions of KL(model || other) in nats; never negative."""
    return _mean([model, other], tokenizer, texts, window, kl_of_logits)


def kl_of_logits(p: Tensor, q: Tensor) -> Tensor:
    """KL(softmax(p) || softmax(q)) in nats of each row. p, q: [rows, vocab] -> [rows] float64.

    The terms p log(p / q) have both signs and nearly cancel when the models are close: float32 rounding, 1e-7, would hide the KL
    of a good quantisation, 1e-5 and less. p log(p / q) - p + q is never negative and sums to the same, since p and q both sum
    to 1; so nothing cancels. Where p is 0 that term is q.
    """
    log_p, log_q = p.double().log_softmax(-1), q.double().log_softmax(-1)
    above_zero = log_p > -700  # exp(-700) is 1e-304, near float64's smallest number
    difference = torch.where(above_zero, log_q - log_p, 0.0)
    return torch.where(above_zero, log_p.exp() * (torch.expm1(difference) - difference), log_q.exp()).sum(-1)


def roll_out_agreement(
    target: nn.Module, draft: nn.Module, tokenizer, texts: Texts, *,
    prompts: int = PROMPTS, prompt_tokens: int = PROMPT_TOKENS, new_tokens: int = NEW_TOKENS,
) -> Estimate:  # fmt: skip
    """The target goes on greedily from `prompts` pieces of the texts; share of its tokens that the draft would pick too."""
    for name, count in (("prompts", prompts), ("prompt_tokens", prompt_tokens), ("new_tokens", new_tokens)):
        if count < 1:
            raise ValueError(f"{name} is {count}; use at least 1")
    documents, _ = encoded(tokenizer, texts)
    starts = prompts_of(documents, prompts, prompt_tokens, mark_of(tokenizer))
    with torch.inference_mode():
        rows = torch.tensor(starts, device=device_of(target))
        written = greedy(target, rows, new_tokens)
        guesses = draft(written[:, :-1])[:, prompt_tokens - 1 :].argmax(-1)
        alike = (guesses == written[:, prompt_tokens:]).sum(-1).tolist()
    return share(alike, [new_tokens] * len(starts))


def prompts_of(documents: Sequence[Sequence[int]], prompts: int, prompt_tokens: int, mark: int) -> list[list[int]]:
    """The first piece of every document behind its mark, then every document's second one, and so on, until there are enough."""
    marked = [[mark, *ids] for ids in documents]
    found: list[list[int]] = []
    for start in range(0, max(map(len, marked)), prompt_tokens):
        for ids in marked:
            if len(found) < prompts and len(ids) >= start + prompt_tokens:
                found.append(ids[start : start + prompt_tokens])
    if len(found) < prompts:
        raise ValueError(f"the texts hold {len(found)} pieces of {prompt_tokens} tokens, {prompts} are asked for; give more text")
    return found


def greedy(model: nn.Module, tokens: Tensor, new_tokens: int) -> Tensor:
    """tokens [batch, length] and `new_tokens` most likely ones behind them: [batch, length + new_tokens]. Stops for nothing."""
    cache = model.new_cache(tokens.shape[0], tokens.shape[1] + new_tokens)
    step = tokens
    for _ in range(new_tokens):
        step = model(step, cache, last=True)[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat((tokens, step), dim=1)
    return tokens


def _mean(
    models: Sequence[nn.Module], tokenizer, texts: Texts, window: int, measure: Callable[[Tensor, Tensor], Tensor]
) -> Estimate:
    """Mean over all scored positions of measure(p, q), logits [rows, vocab] each -> [rows]."""
    documents, _ = encoded(tokenizer, texts)
    sums = [0.0] * len(documents)
    for piece in scored_windows(models, documents, mark=mark_of(tokenizer), window=window):
        p, q = piece.logits
        if p.shape[-1] != q.shape[-1]:
            raise ValueError(f"vocabularies of {p.shape[-1]} and {q.shape[-1]}; the two models need the same tokenizer")
        rows = as_many_logits(ROWS, p.shape[-1])
        for first in range(0, len(p), rows):
            sums[piece.document] += float(measure(p[first : first + rows], q[first : first + rows]).sum())
    return share(sums, [len(ids) for ids in documents])
