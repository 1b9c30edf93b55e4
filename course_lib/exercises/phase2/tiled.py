"""Exercise 2.3, attention in tiles: right, with its bytes predicted before the first load, and no tile read for nothing.

Everything is judged from the trace that the memory kept and from what was stored. Cases are in tiled_cases.py.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ...grading.criteria import Case, Correct
from ...grading.exercise import Exercise
from ...grading.outcome import Mistake
from .tiled_cases import causal_cases, head_cases, least, result_cases, traffic_cases

TOLERANCE = 1e-4  # float32 over at most 50 keys
EXPONENT = 1e-6  # of a score's size: it is rounded as a sum of products is, and exp makes a relative error of that
NAMES = {"q_bytes": "Q", "kv_bytes": "K and V", "stored_bytes": "what is stored"}
NO_KEY = "What is -inf - (-inf), and which queries see no key in a tile, or none at all?"
ZERO_BY_ZERO = "This row has no key: l is 0. What is 0 / 0?"
ROUNDED = "These are the right values, rounded to bfloat16. Store them as float32; the memory counts 2 bytes all the same."
AXES = {"out": "[query, head, d]", "lse": "[head, query]"}


def _check_values(case: Case, output: Any) -> Mistake | None:
    import torch

    from ...attention.reference import attention_reference
    from ...grading.compare import compare_tensor

    out, lse = attention_reference(case["q"][None], case["k"][None], case["v"][None], causal=case["causal"])
    stored = torch.zeros(lse[0].shape, dtype=torch.bool)
    for name, head, start, stop in output["trace"]:
        if name == "store" and 0 <= head < len(stored):
            stored[head, max(start, 0) : max(stop, 0)] = True
    if not stored.all():
        head, query = (int(i) for i in (~stored).nonzero()[0])
        words = f"{int((~stored).sum())} of {stored.numel()} rows of the output were not stored; first head {head}, query {query}"
        return Mistake(words, "memory.store takes each tile of the output, and its log-sum-exp.")
    within = TOLERANCE + EXPONENT * float(lse.nan_to_num(neginf=0.0).abs().max())
    for name, got, want in (("out", output["out"], out[0]), ("lse", output["lse"], lse[0])):
        if mistake := compare_tensor(got, want.float(), rtol=within, atol=within):
            hint = _why_nan(name, output, lse[0]) if got.isnan().any() else _known_slip(case, name, got, want)
            return Mistake(f"{name} {AXES[name]}: {mistake.reason}", hint or mistake.hint)
    return None


def _why_nan(name: str, output: Any, lse: Any) -> str:
    """0 / 0 where rows without a key, and they alone, have a NaN beside the right lse."""
    import torch

    if name == "lse":
        return NO_KEY
    rows = output["out"].isnan().any(2).T  # [head, query]
    return ZERO_BY_ZERO if ((lse[rows] == -torch.inf) & (output["lse"][rows] == -torch.inf)).all() else NO_KEY


def _known_slip(case: Case, name: str, got: Any, want: Any) -> str:
    from ...grading.compare import compare_tensor

    if compare_tensor(got, want.bfloat16().float(), rtol=2.0**-8, atol=TOLERANCE) is None and (got == got.bfloat16()).all():
        return ROUNDED
    for hint, (out, lse) in _slips(case):
        slip = out[0] if name == "out" else lse[0]
        if compare_tensor(got, slip.float(), rtol=TOLERANCE, atol=TOLERANCE) is None:
            return hint
    return ""


def _slips(case: Case) -> Iterator[tuple[str, Any]]:
    """(hint, what this slip leads to)"""
    import torch

    from ...attention.reference import attention_reference

    q, k, v = (case[name][None] for name in "qkv")
    causal, heads, kv_heads = case["causal"], q.shape[2], k.shape[2]
    for scale in (1.0, 1 / q.shape[3]):
        slip = attention_reference(q, k, v, causal=causal, scale=scale)
        yield "The scores are q k / sqrt(head_dim). Is the root there?", slip
    if causal:
        yield "Keys behind a query are seen. Where is the mask?", _without_mask(case)
        short = k.shape[1] < q.shape[1]
        yield "The last query sees the last key, whatever the lengths are: bottom-right.", _top_left(q, k, v, short)
    if kv_heads < heads:
        wrong = torch.arange(heads) % kv_heads
        slip = attention_reference(q, k[:, :, wrong], v[:, :, wrong])
        yield "Which KV head serves query head 1: the second, or still the first?", slip


def _without_mask(case: Case) -> Any:
    """Every query sees all the keys of the tiles that its walk loads."""
    import torch

    from ...attention.reference import attention_reference
    from ...attention.tiles import Tile, keys_read

    q, k, v = (case[name][None] for name in "qkv")
    tile, parts = Tile(case["tile_q"], case["tile_k"], 4, 1), []
    for row in range(0, q.shape[1], tile.query_rows):
        keys = keys_read(q.shape[1], k.shape[1], row, tile, causal=True)
        parts.append(attention_reference(q[:, row : row + tile.query_rows], k[:, :keys], v[:, :keys]))
    return torch.cat([out for out, _ in parts], 1), torch.cat([lse for _, lse in parts], 2)


def _top_left(q: Any, k: Any, v: Any, short: bool) -> Any:
    """Query i sees keys 0 .. i: the keys beyond the last query do not count."""
    import torch

    from ...attention.reference import attention_reference

    if not short:
        return attention_reference(q, k[:, : q.shape[1]], v[:, : q.shape[1]], causal=True)
    keys = k.shape[1]
    first, rest = (attention_reference(part, k, v, causal=i == 0) for i, part in enumerate((q[:, :keys], q[:, keys:])))
    return torch.cat([first[0], rest[0]], 1), torch.cat([first[1], rest[1]], 2)


def _counted(case: Case, output: Any) -> dict[str, int]:
    from ...workloads.tile_memory import traced_bytes

    return traced_bytes(output["trace"], case["q"].shape[2], case["q"].element_size())


def _check_prediction(case: Case, output: Any) -> Mistake | None:
    trace = output["trace"]
    predictions = [access for access in trace if access[0] == "predict"]
    if not predictions:
        return Mistake("nothing was predicted", "Call memory.predict(q_bytes, kv_bytes, stored_bytes) before the first load.")
    if trace[0] != predictions[0]:
        return Mistake("the prediction came after the first access", "It is to follow from the shape and the tiles alone.")
    if len(predictions) > 1:
        return Mistake(f"there are {len(predictions)} predictions", "Say it once.")
    counted = _counted(case, output)
    for (name, count), predicted in zip(counted.items(), predictions[0][1:], strict=True):
        if predicted != count:
            said = f"{NAMES[name]}: {predicted:,} bytes predicted, {count:,} counted"
            return Mistake(said, _slip_of_bytes(case, name, predicted, count))
    if not counted["kv_bytes"] or not counted["stored_bytes"]:
        return Mistake("nothing was loaded or stored, so there was nothing to predict")
    return None


def _slip_of_bytes(case: Case, name: str, predicted: int, count: int) -> str:
    (q_len, q_heads, head_dim), (kv_len, kv_heads, _) = case["q"].shape, case["k"].shape
    if predicted == least(case)[name]:
        beside = "do besides" if count > predicted else "leave out"
        return f"The prediction is what this walk takes. What does your walk {beside}?"
    if name == "stored_bytes":
        without_lse = predicted == count - 4 * q_heads * q_len
        return "lse is stored as well, 4 bytes for each query of each head." if without_lse else ""
    if predicted == 2 * count:
        return "How many bytes has an element? shape.element_bytes says it."
    if name == "kv_bytes":
        walks, tiles = -(-q_len // case["tile_q"]), -(-kv_len // case["tile_k"])
        each_key = walks * q_heads * 2 * head_dim * case["q"].element_size()
        hints = {
            count // 2: "A tile of K is followed by one of V.",
            count * kv_heads // q_heads: "Each query head walks by itself, heads that share keys too.",
            each_key * kv_len: "Tiles of keys that no query of a tile sees are not read.",
            each_key * tiles * case["tile_k"]: "The last tile is as long as there are keys.",
        }
        return hints.get(predicted, "") or _slip_of_reach(case, predicted)
    return ""


def _slip_of_reach(case: Case, predicted: int) -> str:
    """The keys that a walk reaches, with one of their bounds, or the whole tiles, forgotten."""
    (q_len, q_heads, head_dim), kv_len, tile_k = case["q"].shape, case["k"].shape[0], case["tile_k"]
    if not case["causal"]:
        return ""
    each_key = q_heads * 2 * head_dim * case["q"].element_size()
    seen = [min(row + case["tile_q"], q_len) + kv_len - q_len for row in range(0, q_len, case["tile_q"])]
    whole = [-(-keys // tile_k) * tile_k for keys in seen]
    hints = {  # of two that come to the same, the later one
        sum(whole): "How far does a walk reach at least, how far at most? From 0 to kv_len.",
        sum(max(keys, 0) for keys in whole): "The last tile is as long as there are keys: cut the reach off at kv_len.",
        sum(min(keys, kv_len) for keys in whole): "A tile of queries that sees no key reaches 0 keys, not fewer.",
        sum(max(keys, 0) for keys in seen): "A tile that the line cuts is read whole.",
    }
    return hints.get(predicted // each_key, "") if predicted % each_key == 0 else ""


def _check_traffic(case: Case, output: Any) -> Mistake | None:
    counted, wanted = _counted(case, output), least(case)
    for name, most in wanted.items():
        got = counted[name]
        less_will_do = name == "q_bytes"  # queries that see no key need not be read
        if got > most or (got < most and not less_will_do):
            said = f"{NAMES[name]}: {got:,} bytes moved, where this walk takes {most:,}"
            return Mistake(said, _hint_of_traffic(case, name, got, most))
    return None


def _hint_of_traffic(case: Case, name: str, got: int, most: int) -> str:
    if name == "q_bytes":
        return "A tile of queries is loaded once, before the walk over the keys."
    if name == "stored_bytes":
        return "A tile of the output is stored once, after the walk. Queries without a key have a result too."
    if got < most:
        cut = " Or read only in part? A tile that the line cuts is read whole." if case["causal"] else ""
        return f"Was a tile left out? Or kept for another tile of queries, or for another head? Nothing is kept.{cut}"
    return "Which tiles of keys does no query of the tile see?" if case["causal"] else "A tile of queries reads each key once."


def _correct(name: str, claim: str, points: float, cases: Any, check: Any = _check_values) -> Correct:
    return Correct(name=name, claim=claim, points=points, cases=cases, check=_whole(check), run="tiled_attention")


def _whole(check: Any) -> Any:
    """The check, for an output that has the shape of a runner's; accesses are lists of a name and three whole numbers."""

    def checked(case: Case, output: Any) -> Mistake | None:
        import torch

        good = isinstance(output, Mapping) and isinstance(output.get("trace"), list)
        good = good and all(isinstance(output.get(name), torch.Tensor) for name in ("out", "lse"))
        if not good or not all(_is_access(access) for access in output["trace"]):
            return Mistake("the accesses of the memory were not recorded as they should be")
        return check(case, output)

    return checked


def _is_access(access: Any) -> bool:
    return isinstance(access, list) and len(access) == 4 and all(type(number) is int for number in access[1:])


TILED = Exercise(
    id="2.3",
    title="Tiled attention: predict the bytes, then count them",
    entry="tiled_attention",
    params=("memory", "shape", "tile_q", "tile_k"),
    returns="memory.store takes the results",
    runner="phase2_tiled",
    criteria=(
        _correct("result", "tiles of any size give the output and the log-sum-exp of softmax", 2.0, result_cases),
        _correct("causal", "no query looks ahead, and those without a key get zeros", 1.5, causal_cases),
        _correct("heads", "every head reads the keys of its own KV head", 1.0, head_cases),
        _correct("prediction", "the bytes you predict are those that are counted", 1.5, traffic_cases, _check_prediction),
        _correct("traffic", "no tile is moved for nothing, and none is kept", 1.0, traffic_cases, _check_traffic),
    ),
)
