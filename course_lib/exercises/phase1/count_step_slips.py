"""Known slips of exercise 1.2: what each of them makes of a case, so that a wrong number gets a hint at its own mistake."""

from collections.abc import Iterator

from ...grading.criteria import Case


def _weights(case: Case, **other: int) -> tuple[int, int]:
    """(weights of the layers' products, of the head), with some numbers of the shape replaced."""
    from ...roofline import ModelShape

    model = ModelShape(name="", **{**case["shape"], **other})
    return model.linear_params, model.head_params


def linear_slips(case: Case) -> Iterator[tuple[str, float]]:
    """(hint, the linear FLOPs that this slip leads to)"""
    shape, batch, new = case["shape"], case["batch"], case["new_tokens"]
    tokens, (layers, head) = batch * new, _weights(case)
    per_layer, own_kv, hidden = shape["layers"] * shape["hidden"], _weights(case, kv_heads=shape["heads"])[0], shape["hidden"]
    wide, narrow = (shape[heads] * shape["head_dim"] for heads in ("heads", "kv_heads"))
    right = 2 * layers * tokens + 2 * head * batch
    yield "A multiplication and an addition are two operations.", right / 2
    yield "From the last hidden state to the logits there is one more product.", 2 * layers * tokens
    yield "Which tokens need logits to go on?", 2 * (layers + head) * tokens
    yield "How many sequences need logits?", 2 * layers * tokens + 2 * head
    yield "An embedding is looked up. Is that a product?", right + 2 * head * tokens
    yield "An embedding is looked up. Is that a product?", right + 2 * head * batch
    yield "How many heads of keys and of values does a layer have?", right + 2 * (own_kv - layers) * tokens
    yield "Which product puts the heads together again?", right - 2 * per_layer * wide * tokens
    yield "Queries, keys, values: how many products come before attention?", right - 2 * per_layer * narrow * tokens
    yield "Queries, keys, values: how many products come before attention?", right - 4 * per_layer * narrow * tokens
    yield "A gated MLP has three matrices.", right - 2 * per_layer * shape["mlp_hidden"] * tokens
    yield "What is in the cache has been through the layers already.", right + 2 * layers * batch * case["context"]
    yield "Are the heads together as wide as the residual stream?", right + 4 * per_layer * (hidden - wide) * tokens
    yield "A model has more than one layer.", 2 * layers / shape["layers"] * tokens + 2 * head * batch
    yield "Each sequence of the batch has tokens of its own.", 2 * layers * new + 2 * head * batch
    yield "How many tokens go through the layers in this step?", 2 * layers * new + 2 * head
    yield "How many tokens go through the layers in this step?", 2 * layers * batch + 2 * head * batch


def attention_slips(case: Case) -> Iterator[tuple[str, float]]:
    """(hint, the FLOPs of attention that this slip leads to)"""
    shape, new, context = case["shape"], case["new_tokens"], case["context"]
    pairs = new * context + new * (new + 1) // 2
    wide = shape["heads"] * shape["head_dim"]
    each = 4 * shape["layers"] * wide * case["batch"]
    whole = new * (context + new)
    half = "A pair of query and key costs two products, one for its score and one for its share of the values."
    if new == 1:  # here, half of each pair's arithmetic is also half of all the pairs
        half += " And the mask hides only what new tokens would do among themselves."
    yield half, each * pairs / 2
    yield "Does a token look at those that come after it?", each * whole
    yield "Half of a square is not the triangle: the diagonal belongs to it.", each * (new * context + new**2 / 2)
    yield "The mask halves only the part where new tokens look at new tokens.", each * whole / 2
    yield "Does a token look at itself?", each * (pairs - new)
    yield "What do the new tokens find in the cache?", each * new * (new + 1) / 2
    yield "What do the new tokens find among themselves?", each * new * context
    yield "Heads of keys are shared, but how many queries are there?", each * pairs * shape["kv_heads"] / shape["heads"]
    yield "Are the heads together as wide as the residual stream?", each * pairs * shape["hidden"] / wide
    yield "A model has more than one layer.", each * pairs / shape["layers"]
    yield "Each sequence of the batch has its own context.", each * pairs / case["batch"]
    yield "In a new token i, i runs from 1 to new_tokens.", each * new * (context + new + 1)


def bytes_slips(case: Case) -> Iterator[tuple[str, float]]:
    """(hint, the bytes that this slip leads to)"""
    from ...roofline import ModelShape

    shape, new, context, batch = case["shape"], case["new_tokens"], case["context"], case["batch"]
    (layers, head), model = _weights(case), ModelShape(name="", **shape)
    kv, weight_bytes = model.kv_bytes_per_token(case["kv_bytes"]), case["weight_bytes"]
    weights, cache = weight_bytes * layers + 2 * head, batch * (context + new) * kv
    residual = 8 * shape["hidden"] * shape["layers"] * batch * new
    right = weights + cache + residual
    others = cache + residual
    own_heads = cache * shape["heads"] / shape["kv_heads"]
    yield "Is a weight read again for each sequence?", batch * weights + others
    yield "Is a weight read again for each token?", batch * new * weights + others
    yield "The keys and values of the new tokens have to be written.", right - batch * new * kv
    yield "The keys and values of the context have to be read.", right - batch * context * kv
    yield "Each sequence of the batch has its own keys and values.", right - cache + cache / batch
    yield "How many bytes has a value of the cache?", weights + cache * 2 / case["kv_bytes"] + residual
    yield "How many bytes has a value of the cache?", weights + cache * weight_bytes / case["kv_bytes"] + residual
    yield "Keys and values: how many of each does a layer keep for one token?", weights + own_heads + residual
    yield "Keys and values are two.", right - cache / 2
    yield "How many bytes has a weight of the layers?", right + (2 - weight_bytes) * layers
    for whole in (0, 1) if weight_bytes < 1 else ():  # 0.515625, rounded down and up
        yield "A weight may have a part of a byte: no number here has to be whole.", right + (whole - weight_bytes) * layers
    yield "How many bytes has a weight of the layers?", right + (case["kv_bytes"] - weight_bytes) * layers
    yield "In which type does the head stay?", right + (weight_bytes - 2) * head
    yield "The head's weights are read as well.", right - 2 * head
    yield "Does a step read the whole embedding?", right + 2 * head
    yield "The residual stream moves too.", right - residual
    yield "In which type does the residual stream stay?", right - residual + residual * weight_bytes / 2
    half = "How many times is the residual stream read or written in a layer?"
    if shape["layers"] == 2:  # here, half of it may also be one layer's
        half += " And how many layers are there?"
    yield half, right - residual / 2
    yield "A model has more than one layer.", right - residual + residual / shape["layers"]
    yield "Do the new keys and values come from memory as well?", right + batch * new * kv
    yield "How many times is the residual stream read or written in a layer?", right - 3 * residual / 4
    yield "The tokens of the context are past: only new ones have a residual stream.", right + residual * context / new
    yield "How wide is the residual stream?", right - residual + residual * model.heads * model.head_dim / model.hidden
    yield "These are values. How many bytes has each?", right - residual + residual / 2


SLIPS = {"linear_flops": linear_slips, "attention_flops": attention_slips, "bytes": bytes_slips}
