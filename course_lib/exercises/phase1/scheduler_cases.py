"""Traces for exercise 1.8: what arrives at a simulated engine, and how much room there is (fields: workloads/batching.py).

Lengths and loads are drawn relative to the engine's two budgets, so that every seed brings the same trouble with other numbers.
"""

import random

from ...grading.criteria import Case

BLOCK_SIZE = 16
AMPLE_BLOCKS = 25_000  # 400,000 tokens, about what an H100 has room for beside the weights of an 8B model; never the limit here
_ENGINES = (("Llama-3-8B", "h100-sxm", 1), ("Llama-3-8B", "h200-sxm", 1), ("Llama-3-70B", "h100-sxm", 4))
REACHED_PEAK, REACHED_BANDWIDTH = 0.60, 0.85  # shares of the data sheet that a good engine reaches (inventory 10.12)


def plan_cases(seed: int) -> list[Case]:
    """Prompts of one token and of many, answers of one token, a step in which everybody comes at once, and an idle engine."""
    draw = random.Random(seed)
    return [_odd_lengths(draw), _steady(draw, "a light load", load=0.5, steps=30)]


def itl_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)
    return [_long_prompts(draw), _long_contexts(draw, "long contexts"), _long_contexts(draw, "other long contexts")]


def kv_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)
    return [_long_answers(draw), _short_requests(draw)]


def starvation_cases(seed: int) -> list[Case]:
    return [_one_large_request(random.Random(seed))]


def goodput_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)
    return [_steady(draw, "a steady load", load=0.65, steps=70), _burst(draw)]


def throughput_cases(seed: int) -> list[Case]:
    draw = random.Random(seed)
    return [_steady(draw, "more than it can do", load=1.6, steps=60), _many_short(draw)]


def example_trace(name: str, seed: int = 1) -> Case:
    """A trace to look at in a notebook: "steady", "burst", "long prompts", "long contexts", "small pool", "overload"."""
    draw = random.Random(seed)
    make = {
        "steady": lambda: _steady(draw, "a steady load", load=0.65, steps=70),
        "burst": lambda: _burst(draw),
        "long prompts": lambda: _long_prompts(draw),
        "long contexts": lambda: _long_contexts(draw, "long contexts"),
        "small pool": lambda: _long_answers(draw),
        "overload": lambda: _steady(draw, "more than it can do", load=1.6, steps=100),
    }
    if name not in make:
        raise ValueError(f"no example trace {name!r}; there are {', '.join(make)}")
    return make[name]()


def _trace(name: str, draw: random.Random, target_ms: float, steps: int, requests: list[dict], **others: object) -> Case:
    """A trace of `steps` targets' length, its requests in order of arrival, numbered by a draw (an id tells nothing)."""
    requests = sorted(requests, key=lambda request: request["arrived_ms"])
    for number, request in zip(draw.sample(range(10, 100 + 10 * len(requests)), len(requests)), requests, strict=True):
        request["id"] = number
    return {"name": name, "itl_target_ms": target_ms, "ttft_target_ms": 40 * target_ms, "until_ms": steps * target_ms,
            "block_size": BLOCK_SIZE, "total_blocks": AMPLE_BLOCKS, "requests": requests} | others  # fmt: skip


def _request(
    draw: random.Random, arrived_ms: float, prompt: int, output: int, *, running: bool = False, stops_early: bool = True
) -> dict:
    """One request. Most make fewer tokens than they may: how many, nobody knows before."""
    stops_after = draw.randint(max(1, round(0.7 * output)), output) if stops_early else output
    return {"arrived_ms": float(arrived_ms), "prompt_tokens": int(prompt), "max_output": int(output),
            "stops_after": int(stops_after), "running": running}  # fmt: skip


def _engine(draw: random.Random, among: int = len(_ENGINES)) -> dict[str, float]:
    from ...hardware import spec
    from ...roofline import LLAMA_3_8B, LLAMA_3_70B
    from ...roofline.scheduling import engine_numbers

    name, key, ranks = draw.choice(_ENGINES[:among])
    gpu, model = spec(key), {shape.name: shape for shape in (LLAMA_3_8B, LLAMA_3_70B)}[name]
    peak, bandwidth = REACHED_PEAK * gpu.bf16_tflops * 1e12, REACHED_BANDWIDTH * gpu.hbm_gb_per_s * 1e9
    return engine_numbers(model, peak, bandwidth, ranks)


def _tokens(engine: dict[str, float], target_ms: float) -> int:
    return int(target_ms / engine["ms_per_token"])


def _odd_lengths(draw: random.Random) -> Case:
    engine, target = _engine(draw), 40.0
    most = _tokens(engine, target)
    lengths = [(1, 1), (1, 5), (most, 3), (most + 1, 3), (2 * most, 1), (16, 17), (17, 16)]
    lengths += [(draw.randint(1, most), draw.randint(1, 20)) for _ in range(5)]
    draw.shuffle(lengths)
    late = 14 * target + 200.0  # long after everyone has left
    requests = [_request(draw, 0.0 if i < 8 else late, p, o, stops_early=False) for i, (p, o) in enumerate(lengths)]
    return _trace("odd lengths", draw, target, 30, requests, engine=engine)


def _steady(draw: random.Random, name: str, load: float, steps: int) -> Case:
    """Arrivals at random whose prompts need `load` of the arithmetic that the target leaves."""
    engine, target, now, requests = _engine(draw), 40.0, 0.0, []
    most = _tokens(engine, target)
    while now < steps * target:
        requests.append(_request(draw, now, draw.uniform(0.3, 1.5) * most, draw.randint(40, 120)))
        now += draw.uniform(0.2, 1.8) * 0.9 * target / load  # prompts are 0.9 of a step's tokens on average
    return _trace(name, draw, target, steps, requests, engine=engine, ttft_target_ms=10 * target)


def _many_short(draw: random.Random) -> Case:
    """Short prompts, more and more of them: the batch may grow to hundreds, for the weights are read once for all."""
    engine, target = _engine(draw), 40.0
    each_ms = engine["weights_ms"] / 12  # a dozen arrive in the time of the smallest step
    requests = [_request(draw, i * each_ms, draw.randint(5, 20), draw.randint(60, 100)) for i in range(240)]
    trace = _trace("many short requests", draw, target, 0, requests, engine=engine)
    return trace | {"until_ms": 60 * engine["weights_ms"]}


def _burst(draw: random.Random) -> Case:
    """A light load, and a dozen long prompts at one moment."""
    engine, target, now, requests = _engine(draw), 40.0, 0.0, []
    most = _tokens(engine, target)
    while now < 60 * target:
        requests.append(_request(draw, now, draw.uniform(0.1, 0.6) * most, draw.randint(20, 60)))
        now += draw.uniform(1.0, 3.0) * target
    moment = draw.uniform(12, 18) * target
    requests += [_request(draw, moment, draw.uniform(1.2, 2.0) * most, draw.randint(10, 40)) for _ in range(12)]
    return _trace("a burst of long prompts", draw, target, 60, requests, engine=engine, ttft_target_ms=30 * target)


def _long_prompts(draw: random.Random) -> Case:
    """A dozen answers are being written when prompts of several steps' tokens arrive."""
    engine, target = _engine(draw), draw.choice([30.0, 40.0, 50.0])
    most = _tokens(engine, target)
    requests = [_request(draw, 0.0, draw.randint(200, 2000), 400, running=True) for _ in range(12)]
    for i in range(6):
        requests.append(_request(draw, (2 + 10 * i + draw.uniform(0, 5)) * target, draw.uniform(2.5, 5) * most, 40))
    return _trace("long prompts beside running answers", draw, target, 80, requests, engine=engine)


def _long_contexts(draw: random.Random, name: str) -> Case:
    """Contexts so long that reading their KV takes most of a tight target: room in the pool, none in the step."""
    engine = _engine(draw)
    target = engine["weights_ms"] * draw.uniform(1.8, 2.2)
    most_kv = (target - engine["weights_ms"]) / engine["ms_per_kv_token"]
    prefill_steps = int(0.09 * most_kv / _tokens(engine, target)) + 1  # of one of those who come
    requests = []
    for i in range(6):  # they hold nearly all, and stay until three others could have been let in
        held, left = draw.uniform(0.140, 0.147) * most_kv, int(3.3 * prefill_steps) + 15 * i
        requests.append(_request(draw, 0.0, held, left, running=True, stops_early=False))
    for i in range(6):
        prompt, output = draw.uniform(0.085, 0.09) * most_kv, draw.randint(150, 200)
        requests.append(_request(draw, (1 + 3 * i) * target, prompt, output, stops_early=False))
    steps, pool = int(4.5 * prefill_steps) + 60, int(3 * most_kv / BLOCK_SIZE)
    return _trace(name, draw, target, steps, requests, engine=engine, total_blocks=pool)


def _long_answers(draw: random.Random) -> Case:
    """Short prompts, long answers, and a pool that holds half a dozen of them in the end: it is full long after it was not."""
    engine, target = _engine(draw), 40.0
    each_ms = 3 * engine["weights_ms"]
    requests = [_request(draw, i * each_ms, draw.randint(40, 120), draw.randint(150, 250), stops_early=False) for i in range(24)]
    trace = _trace("long answers in a small pool", draw, target, 0, requests, engine=engine, total_blocks=6 * 24)
    return trace | {"until_ms": 300 * engine["weights_ms"]}


def _short_requests(draw: random.Random) -> Case:
    """Requests of a few blocks, the last of which is never full: whoever forgets it in counting runs out."""
    engine, target = _engine(draw), 40.0
    requests = []
    for i in range(40):
        end = BLOCK_SIZE * draw.choice([1, 2]) + draw.randint(2, 9)  # two or three blocks, the last one begun
        output = draw.randint(8, 12)
        requests.append(_request(draw, i * target / 20, end + 1 - output, output, stops_early=False))
    return _trace("short requests in a small pool", draw, target, 40, requests, engine=engine, total_blocks=20)


def _one_large_request(draw: random.Random) -> Case:
    """Small requests come all the time; a large one, of nearly a step's tokens, fits only when most of them have left."""
    engine, target, requests = _engine(draw, among=2), 40.0, []
    each_ms = 8 * engine["weights_ms"]
    for i in range(66):
        requests.append(_request(draw, i * each_ms, draw.randint(40, 80), draw.randint(36, 48), stops_early=False))
    blocks = (_tokens(engine, target) - 80) // BLOCK_SIZE
    requests.append(_request(draw, 14.5 * each_ms, blocks * BLOCK_SIZE + draw.randint(1, 5), 10, stops_early=False))
    trace = _trace("one large request", draw, target, 0, requests, engine=engine, total_blocks=blocks + 1 + 7)
    return trace | {"until_ms": 66 * each_ms}
