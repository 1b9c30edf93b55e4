"""Cases of exercise 1.2: steps of small decoders with real proportions, small enough to be run and counted on the meta device.

Ordinary shapes have GQA and heads * head_dim == hidden; what hides behind that equality has a criterion of its own.
"""

from typing import Any

from ...grading.criteria import Case

BF16, FP8, INT4 = 2, 1, 0.515625  # bytes of a value; 4.125 bits: 4, and an fp16 scale for each group of 128


def _draw(seed: int) -> Any:
    import random

    return random.Random(seed)


def ordinary_shape(draw: Any) -> dict[str, int]:
    kv_heads, head_dim = draw.choice((2, 4, 8)), draw.choice((64, 128))
    heads = kv_heads * draw.choice((2, 4, 7))
    shape = {"layers": draw.choice((2, 3, 5, 7)), "hidden": heads * head_dim, "mlp_hidden": 128 * draw.randrange(9, 40)}
    return shape | {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "vocab": draw.randrange(2000, 9000)}


def _case(
    name: str, shape: dict[str, int], new_tokens: int, context: int, batch: int, weight_bytes: float = BF16, kv_bytes: int = BF16
) -> Case:
    step = {"new_tokens": new_tokens, "context": context, "batch": batch}
    return {"name": name, "shape": shape, **step, "weight_bytes": weight_bytes, "kv_bytes": kv_bytes}


def step_cases(seed: int) -> list[Case]:
    """A decode step, a prefill, a chunk and the very first token, in bf16."""
    draw = _draw(seed)
    long, many = draw.randrange(100, 3000), draw.randrange(3, 40)
    return [
        _case("decode of several sequences", ordinary_shape(draw), 1, long, many),
        _case("prefill of one prompt", ordinary_shape(draw), draw.randrange(20, 300), 0, 1),
        _case("prefill of several prompts", ordinary_shape(draw), draw.randrange(20, 300), 0, draw.randrange(2, 9)),
        _case("a chunk over a context", ordinary_shape(draw), draw.randrange(20, 300), long, draw.randrange(2, 5)),
        _case("a first token alone", ordinary_shape(draw), 1, 0, 1),
    ]


def precision_cases(seed: int) -> list[Case]:
    """Weights, keys and values of fewer bytes than bf16, each alone and all together."""
    draw = _draw(seed)
    long, many = draw.randrange(100, 3000), draw.randrange(3, 40)
    return [
        _case("FP8 keys and values", ordinary_shape(draw), 1, long, many, BF16, FP8),
        _case("FP8 weights", ordinary_shape(draw), draw.randrange(20, 300), 0, 2, FP8, BF16),
        _case("4.125-bit weights", ordinary_shape(draw), 1, long, 1, INT4, BF16),
        _case("4.125-bit weights, FP8 keys and values, a chunk", ordinary_shape(draw), 64, long, many, INT4, FP8),
    ]


def awkward_cases(seed: int) -> list[Case]:
    """One KV head, as many KV heads as queries, odd heads, and attention wider or narrower than the residual stream.

    One of the models has a single layer, never all of them: a count of one layer would pass.
    """
    draw = _draw(seed)
    layers = iter(draw.sample((1, 2, 2, 3), 4))

    def shape(heads: int, kv_heads: int, head_dim: int, hidden: int) -> dict[str, int]:
        sizes = {"layers": next(layers), "hidden": hidden, "mlp_hidden": draw.randrange(100, 900)}
        return sizes | {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, "vocab": draw.randrange(50, 900)}

    wider, narrower = shape(16, 4, 128, 8 * draw.randrange(90, 200)), shape(15, 5, 48, 8 * draw.randrange(100, 200))
    one_head = shape(7, 1, 80, 8 * draw.randrange(20, 65))
    own_heads = shape(9, 9, 40, 8 * draw.randrange(50, 90))
    tokens, long = draw.randrange(20, 200), draw.randrange(20, 200)
    return [
        _case("heads wider than the residual stream", wider, 1, long, 3),
        _case("heads narrower than the residual stream", narrower, tokens, long, 2),
        _case("one KV head for all", one_head, tokens, 0, 1),
        _case("a KV head for each head", own_heads, tokens, long, 1),
    ]
