"""A scheduler that knows the roofline: each roof gives a step a budget, and a request is admitted when both will last.

A step with T tokens whose requests hold S tokens of KV takes max(T * ms_per_token, weights_ms + S * ms_per_kv_token): arithmetic
for every token, memory for the weights, once, and for all the keys and values. To keep a target,
    T <= target / ms_per_token                      tokens of a step: decodes, and chunks of prompts in what they leave
    S <= (target - weights_ms) / ms_per_kv_token    tokens of KV that all the requests of a step may hold
KV lies in a pool as well, so its blocks are the third budget. KV grows with each token, so a request is admitted by what it will
hold in the end. Source of chunks beside decodes: Agrawal et al., "Sarathi-Serve", arXiv 2403.02310.
"""

from .models import ModelShape
from .steps import BF16_BYTES, decode_step, prefill_step


def engine_numbers(model: ModelShape, peak_flops_per_s: float, hbm_bytes_per_s: float, ranks: int = 1) -> dict[str, float]:
    """-> {"weights_ms", "ms_per_token", "ms_per_kv_token"} of a bf16 model at these *reached* rates, all-reduces left out.

    2 FLOPs for every weight and token, the head's included. A prompt token needs no head, which makes up for attention's FLOPs.
    Llama-3-8B on an H100 at 60% of its peak and 85% of its bandwidth: 5.27 ms, 0.0253 ms, 0.000046 ms.
    """
    weights = model.linear_params + model.head_params
    return {
        "weights_ms": 1e3 * BF16_BYTES * weights / (ranks * hbm_bytes_per_s),
        "ms_per_token": 1e3 * 2 * weights / (ranks * peak_flops_per_s),
        "ms_per_kv_token": 1e3 * model.kv_bytes_per_token() / (ranks * hbm_bytes_per_s),
    }


def mixed_step_ms(
    model: ModelShape, batch: int, context: int, chunk: int, peak_flops_per_s: float, hbm_bytes_per_s: float
) -> float:
    """Milliseconds of a step with `batch` decodes and a chunk of a new prompt, by the full counts of FLOPs and bytes.

    The weights are read once for both. Llama-3-8B, 32 decodes with 2048 tokens each, one H100 at 60% of its peak and 85% of its
    bandwidth: 8.3 ms without a chunk, 8.3 with 256 tokens, 25.4 with 1024.
    """
    decode = decode_step(model, batch, context)
    flops, bytes_moved = decode.flops, decode.bytes_moved
    if chunk:
        flops += prefill_step(model, chunk).flops
        bytes_moved += chunk * model.kv_bytes_per_token()
    return 1e3 * max(flops / peak_flops_per_s, bytes_moved / hbm_bytes_per_s)


def step_ms(engine: dict[str, float], tokens: int, kv_tokens: int) -> float:
    """Milliseconds of a step with so many tokens, whose requests hold so many tokens of KV."""
    return max(tokens * engine["ms_per_token"], engine["weights_ms"] + kv_tokens * engine["ms_per_kv_token"])


def token_budget(engine: dict[str, float], itl_target_ms: float) -> int:
    """Most tokens of a step that keeps the target."""
    return int(itl_target_ms / engine["ms_per_token"])


def kv_budget_tokens(engine: dict[str, float], itl_target_ms: float) -> int:
    """Most tokens of KV that the requests of a step may hold, for it to keep the target."""
    return int((itl_target_ms - engine["weights_ms"]) / engine["ms_per_kv_token"])


def plan_step(state: dict) -> dict:
    """The plan of one step: everyone who runs gets a token, and prompts, in order of arrival, what is left of the budget.

    state  as `Engine.state` gives it (batching.py) -> {"decode": [id, ...], "prefill": [(id, tokens), ...]}

    A request that has begun is promised room for all that it may come to hold: kv_tokens + output_left when it runs,
    kv_tokens + prompt_left + max_output - 1 before (the KV of the last token is never written). Who does not fit beside the
    promises waits, and so does everyone behind.
    """
    engine, target = state["engine"], state["itl_target_ms"]

    def blocks(tokens: int) -> int:
        return -(-tokens // state["block_size"])

    decode = [request["id"] for request in state["running"]]
    promised = [request["kv_tokens"] + request["output_left"] for request in state["running"]]
    promised += [_end_tokens(request) for request in state["waiting"] if request["kv_tokens"]]
    left = token_budget(engine, target) - len(decode)
    tokens_left = kv_budget_tokens(engine, target) - sum(promised)
    blocks_left = state["total_blocks"] - sum(blocks(tokens) for tokens in promised)
    prefill = []
    for request in state["waiting"]:
        if not request["kv_tokens"]:
            end = _end_tokens(request)
            tokens_left, blocks_left = tokens_left - end, blocks_left - blocks(end)
        chunk = min(request["prompt_left"], left)
        if tokens_left < 0 or blocks_left < 0 or chunk < 1:
            break
        prefill.append((request["id"], chunk))
        left -= chunk
    return {"decode": decode, "prefill": prefill}


def _end_tokens(request: dict) -> int:
    """Tokens of KV that a waiting request holds when it makes its last token."""
    return request["kv_tokens"] + request["prompt_left"] + request["max_output"] - 1
