"""Models and a tokenizer whose numbers are known on paper: bytes as tokens, the mark behind them."""

import math

import torch
from torch import nn

MARK = 256


class Bytes:
    """Byte b is token b; the mark is 256."""

    END = MARK

    def encode(self, text):
        return list(text.encode() if isinstance(text, str) else text)


class Uniform(nn.Module):
    """Every token is as likely as any other: log2(vocab) bits each. Remembers what it was shown."""

    def __init__(self, vocab=4096):
        super().__init__()
        self.vocab, self.seen = vocab, []

    def forward(self, tokens):
        self.seen.append(tokens.clone())
        return torch.zeros(*tokens.shape, self.vocab)


class Knows(nn.Module):
    """Gives the token after x the logit `sure`, all others 0; the text must go round an alphabet: a, b, c, a, ..."""

    def __init__(self, alphabet=b"abc", sure=100.0, vocab=300):
        super().__init__()
        self.sure, self.vocab = sure, vocab
        self.next = torch.zeros(vocab, dtype=torch.int64)
        for one, following in zip(alphabet, alphabet[1:] + alphabet[:1], strict=True):
            self.next[one] = following
        self.next[MARK] = alphabet[0]

    def forward(self, tokens):
        return self.sure * nn.functional.one_hot(self.next[tokens], self.vocab).float()


class Fixed(nn.Module):
    """The same distribution everywhere, given as probabilities of the first tokens."""

    def __init__(self, *probabilities):
        super().__init__()
        self.logits = torch.tensor([math.log(p) for p in probabilities], dtype=torch.float64)

    def forward(self, tokens):
        return self.logits.expand(*tokens.shape, -1)
