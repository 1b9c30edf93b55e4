"""Answers to exercise 1.2. Each function stands alone: its source is also judged in a process of its own."""

import math

import torch

from ..spoiling import spoiled

LINEAR, ATTENTION, BYTES, PRECISION, AWKWARD = "linear FLOPs", "attention FLOPs", "bytes", "precision", "awkward shapes"
ALL = {LINEAR, ATTENTION, BYTES, PRECISION, AWKWARD}
IN_LINEAR, IN_ATTENTION, IN_BYTES = {LINEAR, AWKWARD}, {ATTENTION, AWKWARD}, {BYTES, PRECISION, AWKWARD}


def on_paper(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    """Right: the formulas as the text has them."""
    layers, hidden, inner = shape["layers"], shape["hidden"], shape["mlp_hidden"]
    wide, narrow = shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
    qkv = hidden * wide + 2 * hidden * narrow
    out = wide * hidden
    mlp = 3 * hidden * inner
    weights = layers * (qkv + out + mlp)
    head = hidden * shape["vocab"]
    tokens = batch * new_tokens
    pairs = new_tokens * context + new_tokens * (new_tokens + 1) / 2
    kv = 2 * layers * narrow * kv_bytes
    weights_moved = weights * weight_bytes + head * 2
    cache_moved = batch * (context + new_tokens) * kv
    residual_moved = 8 * layers * hidden * tokens
    return {
        "linear_flops": 2 * weights * tokens + 2 * head * batch,
        "attention_flops": 4 * layers * wide * pairs * batch,
        "bytes": weights_moved + cache_moved + residual_moved,
    }


def token_by_token(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    """Right: every sequence, every token, one after the other."""
    s = shape
    matrices = [(s["hidden"], s["heads"] * s["head_dim"])] * 2 + [(s["hidden"], s["kv_heads"] * s["head_dim"])] * 2
    matrices += [(s["hidden"], s["mlp_hidden"])] * 3
    per_layer = sum(rows * columns for rows, columns in matrices)
    linear = attention = 0
    for _ in range(batch):
        for i in range(new_tokens):
            linear += 2 * per_layer * s["layers"]
            seen = context + i + 1
            attention += s["layers"] * s["heads"] * (2 * s["head_dim"] * seen + 2 * seen * s["head_dim"])
        linear += 2 * s["hidden"] * s["vocab"]
    moved = weight_bytes * per_layer * s["layers"] + 2 * s["hidden"] * s["vocab"]
    for _ in range(batch):
        values = s["kv_heads"] * s["head_dim"] * s["layers"]
        moved += (context + new_tokens) * values * kv_bytes  # keys
        moved += (context + new_tokens) * values * kv_bytes  # values
        moved += new_tokens * s["hidden"] * s["layers"] * 4 * 2
    return {"bytes": moved, "attention_flops": attention, "linear_flops": linear}


def whole_square_less_what_the_mask_hides(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    """Right: a layer at a time, attention as all pairs less the masked ones, everything in floats."""
    h, f, d = float(shape["hidden"]), float(shape["mlp_hidden"]), float(shape["head_dim"])
    q, g = shape["heads"], shape["kv_heads"]
    layer = h * d * (2 * q + 2 * g) + 3 * h * f
    head = h * shape["vocab"]
    length = context + new_tokens
    hidden_pairs = new_tokens * (new_tokens - 1) / 2
    answer = {"bytes": 2 * head}
    answer["linear_flops"] = batch * 2 * (shape["layers"] * layer * new_tokens + head)
    answer["attention_flops"] = shape["layers"] * batch * q * 4 * d * (new_tokens * length - hidden_pairs)
    for _ in range(shape["layers"]):
        answer["bytes"] += layer * weight_bytes
        answer["bytes"] += batch * length * 2 * g * d * kv_bytes + batch * new_tokens * h * 8
    return answer


def mask_made_of_a_tensor(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    """Right: counts the pairs in a mask, and the weights in a tensor of sizes."""
    length = context + new_tokens
    seen = torch.ones(new_tokens, length, dtype=torch.bool).tril(diagonal=context)
    wide, narrow, h = shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"], shape["hidden"]
    sizes = torch.tensor([wide, narrow, narrow, wide] + 3 * [shape["mlp_hidden"]], dtype=torch.float64)
    weights = math.prod((float(sizes.sum()), h, shape["layers"]))
    return {
        "attention_flops": int(seen.sum()) * 4 * wide * shape["layers"] * batch,
        "linear_flops": 2 * batch * (weights * new_tokens + shape["vocab"] * h),
        "bytes": weight_bytes * weights + 2 * shape["vocab"] * h
        + shape["layers"] * batch * (2 * kv_bytes * narrow * length + 8 * h * new_tokens),
    }  # fmt: skip


def a_class_of_matrices(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    """Right: a class for a matrix, which knows its FLOPs and its bytes; a prefix sum for the keys that each query sees."""
    from itertools import accumulate, repeat

    class Matrix:
        def __init__(self, rows, columns, size):
            self.values, self.size = rows * columns, size

        def flops(self, tokens):
            return 2 * tokens * self.values

        def bytes(self):
            return self.values * self.size

    def heads(count):
        return count * shape["head_dim"]

    h = shape["hidden"]
    widths = [heads(shape["heads"]), heads(shape["kv_heads"]), heads(shape["kv_heads"])]
    layer = [Matrix(h, wide, weight_bytes) for wide in widths] + [Matrix(widths[0], h, weight_bytes)]
    layer += [Matrix(h, shape["mlp_hidden"], weight_bytes) for _ in ("gate", "up", "down")]
    head = Matrix(h, shape["vocab"], 2)
    seen = sum(accumulate(repeat(1, new_tokens), initial=context)) - context
    result = dict.fromkeys(("linear_flops", "attention_flops", "bytes"), 0)
    for _layer in range(shape["layers"]):
        result["linear_flops"] += sum(matrix.flops(batch * new_tokens) for matrix in layer)
        result["attention_flops"] += 2 * 2 * batch * seen * widths[0]
        result["bytes"] += sum(matrix.bytes() for matrix in layer)
        result["bytes"] += batch * (context + new_tokens) * 2 * widths[1] * kv_bytes
        result["bytes"] += batch * new_tokens * (2 + 2) * h * 2
    result["linear_flops"] += head.flops(batch)
    result["bytes"] += head.bytes()
    return result


def with_numpy(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    """Right: sizes as arrays, the mask as a triangle of ones, one dot product for each count."""
    import numpy as np

    layers, h, d = shape["layers"], shape["hidden"], shape["head_dim"]
    query, cached = np.array([shape["heads"], shape["kv_heads"]], dtype=np.int64) * d
    columns = np.array([query, cached, cached, query, *[shape["mlp_hidden"]] * 3], dtype=np.int64)
    weights = np.array([layers * h * columns.sum(), h * shape["vocab"]], dtype=np.int64)
    pairs = np.tri(new_tokens, context + new_tokens, k=context, dtype=np.int64).sum()
    moved = np.array([weights[0], weights[1], batch * (context + new_tokens) * layers * cached, batch * new_tokens * layers * h])
    return {
        "linear_flops": int(2 * batch * weights @ np.array([new_tokens, 1])),
        "attention_flops": int(4 * layers * query * batch * pairs),
        "bytes": float(moved @ np.array([weight_bytes, 2, 2 * kv_bytes, 8])),
    }


def zeros(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    return {"linear_flops": 0, "attention_flops": 0, "bytes": 0}


def the_input(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    return shape


def a_tuple(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    return 1.0, 2.0, 3.0


def not_numbers(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    return {"linear_flops": float("nan"), "attention_flops": float("inf"), "bytes": 10**400}


def truth_for_numbers(shape, new_tokens, context, batch, weight_bytes, kv_bytes):
    return {"linear_flops": True, "attention_flops": "1e9", "bytes": None}


def slip(name, *changes):
    return spoiled(on_paper, name, *changes)


HEAD, CACHE, RESIDUAL = " + 2 * head * batch", "(context + new_tokens) * kv", "8 * layers * hidden * tokens"
PAIRS, TOKENS = "new_tokens * context + new_tokens * (new_tokens + 1) / 2", "2 * weights * tokens"
ANSWER, WEIGHTS = "bytes\": weights_moved", "weights * weight_bytes + head * 2"
MLP, QKV = "mlp = 3 *", "qkv = hidden * wide + 2 * hidden * narrow"
WEIGHTS_WRONG = ALL - {ATTENTION}

WRONG = [
    (zeros, ALL),
    (the_input, ALL),
    (a_tuple, ALL),
    (not_numbers, ALL),
    (truth_for_numbers, ALL),
    (slip("changes_its_input", ("    head = hidden", '    shape["layers"] = 1\n    head = hidden')), ALL),
    (slip("gives_only_bytes", ('"linear_flops"', '"flops"')), IN_LINEAR),
    # linear
    (slip("no_head", (HEAD, "")), IN_LINEAR),
    (slip("head_on_every_token", (HEAD, " + 2 * head * tokens")), IN_LINEAR),
    (slip("head_once_for_the_batch", (HEAD, " + 2 * head")), IN_LINEAR),
    (slip("embedding_as_a_product", (HEAD, " + 2 * head * batch + 2 * head * tokens")), IN_LINEAR),
    (slip("every_parameter_twice", (TOKENS + HEAD, "2 * (weights + 2 * head) * tokens")), IN_LINEAR),
    (slip("multiply_and_add_as_one", (TOKENS + HEAD, "weights * tokens + head * batch")), IN_LINEAR),
    (slip("context_again", (TOKENS, "2 * weights * batch * (new_tokens + context)")), IN_LINEAR),
    (slip("batch_forgotten_in_the_layers", (TOKENS, "2 * weights * new_tokens")), IN_LINEAR),
    (slip("one_token_for_each_sequence", (TOKENS, "2 * weights * batch")), IN_LINEAR),
    (slip("one_layer", ("weights = layers * (qkv", "weights = 1 * (qkv")), WEIGHTS_WRONG),
    (slip("plain_mlp", (MLP, "mlp = 2 *")), WEIGHTS_WRONG),
    (slip("mlp_of_four_hidden", ("* inner\n", "* 4 * hidden\n")), WEIGHTS_WRONG),
    (slip("no_output_projection", ("qkv + out + mlp", "qkv + mlp")), WEIGHTS_WRONG),
    (slip("weights_of_own_kv_heads", (QKV, "qkv = 3 * hidden * wide")), WEIGHTS_WRONG),
    (slip("one_of_keys_and_values", (QKV, "qkv = hidden * wide + hidden * narrow")), WEIGHTS_WRONG),
    (slip("square_projections", ("out = wide * hidden", "out = hidden * hidden")), {AWKWARD}),
    (slip("hidden_for_the_heads", ('wide, narrow = shape["heads"] * shape["head_dim"], ', "wide, narrow = hidden, ")), {AWKWARD}),
    (slip("head_dim_from_hidden", ('shape["kv_heads"] * shape["head_dim"]', 'shape["kv_heads"] * hidden // shape["heads"]')),
     {AWKWARD}),
    # attention
    (slip("no_mask", (PAIRS, "new_tokens * (context + new_tokens)")), IN_ATTENTION),
    (slip("half_of_a_square", (PAIRS, "new_tokens * context + new_tokens**2 / 2")), IN_ATTENTION),
    (slip("half_of_everything", (PAIRS, "new_tokens * (context + new_tokens) / 2")), IN_ATTENTION),
    (slip("not_itself", (PAIRS, "new_tokens * context + new_tokens * (new_tokens - 1) / 2")), IN_ATTENTION),
    (slip("decode_sees_the_context_only", (PAIRS, "context if new_tokens == 1 else " + PAIRS)), {ATTENTION, AWKWARD}),
    (slip("context_not_seen", (PAIRS, "new_tokens * (new_tokens + 1) / 2")), IN_ATTENTION),
    (slip("nothing_but_the_context", (PAIRS, "new_tokens * context")), IN_ATTENTION),
    (slip("scores_alone", ("4 * layers * wide", "2 * layers * wide")), IN_ATTENTION),
    (slip("queries_shared_as_keys_are", ("4 * layers * wide", "4 * layers * narrow")), IN_ATTENTION),
    (slip("attention_of_one_layer", ("4 * layers * wide", "4 * wide")), IN_ATTENTION),
    (slip("attention_of_one_sequence", ("* pairs * batch", "* pairs")), IN_ATTENTION),
    (slip("attention_as_wide_as_the_stream", ("4 * layers * wide", "4 * layers * hidden")), {AWKWARD}),
    # bytes
    (slip("weights_for_each_sequence", (WEIGHTS, "batch * (weights * weight_bytes + head * 2)")), IN_BYTES),
    (slip("weights_for_each_token", (WEIGHTS, "tokens * (weights * weight_bytes + head * 2)")), IN_BYTES),
    (slip("no_weights", (ANSWER, "bytes\": 0")), IN_BYTES),
    (slip("head_not_read", (" + head * 2", "")), IN_BYTES),
    (slip("embedding_read", (" + head * 2", " + head * 4")), IN_BYTES),
    (slip("new_tokens_not_written", (CACHE, "context * kv")), IN_BYTES),
    (slip("context_not_read", (CACHE, "new_tokens * kv")), IN_BYTES),
    (slip("new_tokens_written_and_read", (CACHE, "(context + 2 * new_tokens) * kv")), IN_BYTES),
    (slip("kv_of_one_sequence", ("batch * (context", "(context")), IN_BYTES),
    (slip("kv_of_every_head", ("2 * layers * narrow", "2 * layers * wide")), IN_BYTES),
    (slip("keys_alone", ("2 * layers * narrow", "layers * narrow")), IN_BYTES),
    (slip("no_residual_stream", (RESIDUAL, "0")), IN_BYTES),
    (slip("residual_around_attention_alone", (RESIDUAL, "4 * layers * hidden * tokens")), IN_BYTES),
    (slip("residual_of_the_context", (RESIDUAL, "8 * layers * hidden * batch * (context + new_tokens)")), IN_BYTES),
    (slip("residual_of_one_layer", (RESIDUAL, "8 * hidden * tokens")), IN_BYTES),
    (slip("residual_as_wide_as_the_heads", (RESIDUAL, "8 * layers * wide * tokens")), {AWKWARD}),
    (slip("kv_always_bf16", ("narrow * kv_bytes", "narrow * 2")), {PRECISION}),
    (slip("kv_like_the_weights", ("narrow * kv_bytes", "narrow * weight_bytes")), {PRECISION}),
    (slip("weights_always_bf16", ("weights * weight_bytes", "weights * 2")), {PRECISION}),
    (slip("weights_like_the_kv", ("weights * weight_bytes", "weights * kv_bytes")), {PRECISION}),
    (slip("head_like_the_weights", ("head * 2", "head * weight_bytes")), {PRECISION}),
    (slip("residual_like_the_weights", (RESIDUAL, "4 * weight_bytes * layers * hidden * tokens")), {PRECISION}),
    (slip("whole_bytes", ("weights * weight_bytes", "weights * math.ceil(weight_bytes)")), {PRECISION}),
]  # fmt: skip
RIGHT = [
    on_paper, token_by_token, whole_square_less_what_the_mask_hides, mask_made_of_a_tensor, a_class_of_matrices, with_numpy,
]  # fmt: skip
