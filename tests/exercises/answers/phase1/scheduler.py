"""Answers to exercise 1.8. Each function stands alone: its source is also judged in a process of its own."""

from ..spoiling import spoiled

PLANS, ITL, KV, STARVES, GOODPUT, THROUGHPUT = "plans", "ITL", "KV headroom", "nobody starves", "goodput", "throughput"
ALL = {PLANS, ITL, KV, STARVES, GOODPUT, THROUGHPUT}


def two_budgets(state):
    """Right: tokens from the arithmetic, tokens of KV from the memory, blocks from the pool; first come, first served."""
    engine, target, size = state["engine"], state["itl_target_ms"], state["block_size"]
    tokens = int(target / engine["ms_per_token"])
    room = (target - engine["weights_ms"]) / engine["ms_per_kv_token"]
    blocks = state["total_blocks"]
    decode = []
    for request in state["running"]:
        end = request["kv_tokens"] + request["output_left"]
        room -= end
        blocks -= (end + size - 1) // size
        decode.append(request["id"])
        tokens -= 1
    for request in state["waiting"]:
        if request["kv_tokens"] > 0:
            end = request["kv_tokens"] + request["prompt_left"] + request["max_output"] - 1
            room -= end
            blocks -= (end + size - 1) // size
    prefill = []
    for request in state["waiting"]:
        if request["kv_tokens"] == 0:
            end = request["prompt_left"] + request["max_output"] - 1
            room -= end
            blocks -= (end + size - 1) // size
            if room < 0 or blocks < 0:
                break
        chunk = min(request["prompt_left"], tokens)
        if chunk <= 0:
            break
        prefill.append((request["id"], chunk))
        tokens -= chunk
    return {"decode": decode, "prefill": prefill}


def by_bisection(state):
    """Right: a function for the time of a step, and a chunk found by halving."""
    engine, size = state["engine"], state["block_size"]

    def keeps_target(tokens, kv_tokens):
        arithmetic = tokens * engine["ms_per_token"]
        memory = engine["weights_ms"] + kv_tokens * engine["ms_per_kv_token"]
        return max(arithmetic, memory) <= state["itl_target_ms"]

    def at_the_end(request):
        coming = request["output_left"] if "output_left" in request else request["prompt_left"] + request["max_output"] - 1
        return request["kv_tokens"] + coming

    begun = state["running"] + [r for r in state["waiting"] if r["kv_tokens"]]
    ends = [at_the_end(r) for r in begun]
    plan = {"decode": [r["id"] for r in state["running"]], "prefill": []}
    used = len(plan["decode"])
    for request in state["waiting"]:
        if not request["kv_tokens"]:
            with_it = [*ends, at_the_end(request)]
            if not keeps_target(used, sum(with_it)) or sum(-(-end // size) for end in with_it) > state["total_blocks"]:
                break
            ends = with_it
        low, high = 0, request["prompt_left"]
        while low < high:
            middle = (low + high + 1) // 2
            if keeps_target(used + middle, sum(ends)):
                low = middle
            else:
                high = middle - 1
        if low == 0:
            break
        plan["prefill"].append([request["id"], low])
        used += low
    return plan


def heap_by_deadline(state):
    """Right: a heap of deadlines, nine tenths of the target as a margin, chunks in multiples of 16 where they are cut."""
    import heapq

    target, numbers = 0.9 * state["itl_target_ms"], state["engine"]
    budget = int(target // numbers["ms_per_token"]) - len(state["running"])
    kv_left = (target - numbers["weights_ms"]) / numbers["ms_per_kv_token"]
    pool = state["total_blocks"]
    queue = []
    for r in state["running"]:
        most = r["kv_tokens"] + r["output_left"]
        kv_left, pool = kv_left - most, pool - (most - 1) // state["block_size"] - 1
    for place, r in enumerate(state["waiting"]):
        most = r["kv_tokens"] + r["prompt_left"] + r["max_output"]
        if r["kv_tokens"]:
            kv_left, pool = kv_left - most, pool - (most - 1) // state["block_size"] - 1
        heapq.heappush(queue, (r["arrived_ms"] + state["ttft_target_ms"], place, most, r))
    prefill = []
    while queue and budget >= 16:
        _, _, most, r = heapq.heappop(queue)
        if not r["kv_tokens"]:
            kv_left, pool = kv_left - most, pool - (most - 1) // state["block_size"] - 1
            if kv_left < 0 or pool < 0:
                break
        tokens = r["prompt_left"] if r["prompt_left"] <= budget else budget // 16 * 16
        prefill.append((r["id"], tokens))
        budget -= tokens
    return {"prefill": prefill, "decode": [r["id"] for r in state["running"]]}


def greedy_fill_in_small_steps(state):
    """Right: prompt tokens are dealt out 32 at a time, never more than 512 in a step."""
    e, size = state["engine"], state["block_size"]
    started = [r for r in state["waiting"] if r["kv_tokens"] > 0]
    fresh = [r for r in state["waiting"] if r["kv_tokens"] == 0]
    held = {r["id"]: r["kv_tokens"] + r["output_left"] for r in state["running"]}
    for r in started:
        held[r["id"]] = r["kv_tokens"] + r["prompt_left"] + r["max_output"] - 1
    allowed = list(started)
    for r in fresh:
        trial = dict(held)
        trial[r["id"]] = r["prompt_left"] + r["max_output"] - 1
        fits = sum((n + size - 1) // size for n in trial.values()) <= state["total_blocks"]
        quick = e["weights_ms"] + sum(trial.values()) * e["ms_per_kv_token"] <= state["itl_target_ms"]
        if not (fits and quick):
            break
        held = trial
        allowed.append(r)
    share = {}
    used = len(state["running"])
    dealt = 0
    for r in allowed:
        while dealt < 512 and share.get(r["id"], 0) < r["prompt_left"]:
            piece = min(32, r["prompt_left"] - share.get(r["id"], 0), 512 - dealt)
            while piece and (used + piece) * e["ms_per_token"] > state["itl_target_ms"]:
                piece -= 1
            if not piece:
                break
            share[r["id"]] = share.get(r["id"], 0) + piece
            used += piece
            dealt += piece
    return {"decode": [r["id"] for r in state["running"]], "prefill": list(share.items())}


def admitted_by_the_future_peak(state):
    """Right: admits when the most that is ever held at one time fits, as those who finish give their blocks back."""
    size, numbers, target = state["block_size"], state["engine"], state["itl_target_ms"]
    most_kv = (target - numbers["weights_ms"]) / numbers["ms_per_kv_token"]

    def holds(requests):
        """requests: [(tokens held, steps to go)]; everyone grows by a token in each step and then leaves."""
        for moment in sorted({steps for _, steps in requests}):
            alive = [held + moment for held, steps in requests if steps >= moment]
            if sum(alive) > most_kv or sum(-(-tokens // size) for tokens in alive) > state["total_blocks"]:
                return False
        return True

    def prefilled(request):
        """As if the prompt were done now: it holds all of it, and has its output before it."""
        return request["kv_tokens"] + request["prompt_left"], request["max_output"]

    begun = [(r["kv_tokens"], r["output_left"]) for r in state["running"]]
    begun += [prefilled(r) for r in state["waiting"] if r["kv_tokens"]]
    left, prefill = int(target / numbers["ms_per_token"]) - len(state["running"]), []
    for r in state["waiting"]:
        if not r["kv_tokens"]:
            # those who run may finish before a long prompt is done, or stay: only what is certain counts
            if not holds([*begun, prefilled(r)]) or sum(held for held, _ in [*begun, prefilled(r)]) > most_kv:
                break
            begun.append(prefilled(r))
        chunk = min(left, r["prompt_left"])
        if chunk < 1:
            break
        left -= chunk
        prefill.append((r["id"], chunk))
    return {"decode": [r["id"] for r in state["running"]], "prefill": prefill}


def running_sums(state):
    """Right: who may begin and who gets how much are two running sums over the queue; no loop keeps a budget."""
    from itertools import accumulate, pairwise

    engine, size = state["engine"], state["block_size"]
    held = [(r["kv_tokens"] + r["output_left"], True) for r in state["running"]]
    queue = [(r["kv_tokens"] + r["prompt_left"] + r["max_output"] - 1, r["kv_tokens"] > 0) for r in state["waiting"]]
    promised_tokens = sum(end for end, begun in held + queue if begun)
    promised_blocks = sum((end + size - 1) // size for end, begun in held + queue if begun)
    tokens = list(accumulate((0 if begun else end for end, begun in queue), initial=promised_tokens))[1:]
    blocks = list(accumulate((0 if begun else (end + size - 1) // size for end, begun in queue), initial=promised_blocks))[1:]
    room = (state["itl_target_ms"] - engine["weights_ms"]) / engine["ms_per_kv_token"]
    fits = [t <= room and b <= state["total_blocks"] for t, b in zip(tokens, blocks, strict=True)]
    admitted = [r for r, (_, begun), fit in zip(state["waiting"], queue, fits, strict=True) if begun or fit]

    budget = int(state["itl_target_ms"] / engine["ms_per_token"] * (1 + 1e-12)) - len(state["running"])
    wanted = list(accumulate((r["prompt_left"] for r in admitted), initial=0))
    given = [min(max(budget, 0), total) for total in wanted]
    shares = [after - before for before, after in pairwise(given)]
    chunks = [(r["id"], share) for r, share in zip(admitted, shares, strict=True) if share > 0]
    return {"decode": [r["id"] for r in state["running"]], "prefill": chunks}


def roadmap(state):
    """The roadmap's: up to 128 whole prompts a step, and a batch that grows until an intensity that never changes passes 0.2."""
    context = max([r["kv_tokens"] for r in state["running"]], default=1)
    batch = 1
    while batch < 128:
        flops, moved = 0.17e12 * batch, 33e9 * batch
        if flops / moved >= 0.2 or context < 0:
            break
        batch += 1
    prompts = state["waiting"][:128]
    return {
        "decode": [r["id"] for r in state["running"][:batch]],
        "prefill": [(r["id"], r["prompt_left"]) for r in prompts],
    }


def prefill_first(state):
    """Whole prompts go before everything else."""
    if state["waiting"]:
        return {"decode": [], "prefill": [(state["waiting"][0]["id"], state["waiting"][0]["prompt_left"])]}
    return {"decode": [r["id"] for r in state["running"]], "prefill": []}


def nothing(state):
    return {"decode": [], "prefill": []}


def only_lists(state):
    return [r["id"] for r in state["running"]], [(r["id"], 1) for r in state["waiting"]]


def slip(name, *changes):
    """`two_budgets` with a change."""
    return spoiled(two_budgets, name, *changes)


def first(line):
    """The same, and a line before any prompt is looked at."""
    return START, f"{START}    {line}\n"


FITS = "if room < 0 or blocks < 0:"
BUDGET = 'tokens = int(target / engine["ms_per_token"])'
CHUNK = 'chunk = min(request["prompt_left"], tokens)'
START = "    prefill = []\n"
RUNNING = 'end = request["kv_tokens"] + request["output_left"]'
BEGUN = 'end = request["kv_tokens"] + request["prompt_left"] + request["max_output"] - 1'
NEW = 'end = request["prompt_left"] + request["max_output"] - 1'
NEXT = FITS + "\n                break"
PASS_OVER = FITS + "\n                room += end\n                blocks += (end + size - 1) // size\n                continue"
FREE = '(request["prompt_left"] + size - 1) // size > state["free_blocks"]'
DECODE = '        decode.append(request["id"])\n'
DECODE_IF_FREE = f'        if request["kv_tokens"] % size or state["free_blocks"] > len(decode):\n    {DECODE}'
AT_MOST = "min({most} - sum(n for _, n in prefill), request['prompt_left'], tokens)"
CARRY_ON = 'return {"decode": decode, "prefill": []}'

WRONG = [
    (roadmap, ALL - {PLANS}),
    (prefill_first, ALL - {PLANS}),
    (nothing, ALL),
    (slip("whole_prompts", (CHUNK, 'chunk = request["prompt_left"]')), {ITL, GOODPUT}),
    (slip("capped_by_requests", (BUDGET, "tokens = 10**9"), first('state["waiting"] = state["waiting"][:128]')), {ITL, GOODPUT}),
    (slip("decodes_not_counted", ("        tokens -= 1\n", "")), {ITL, GOODPUT}),
    (slip("static_batch_32", first(f"if decode: {CARRY_ON}"), ('in state["waiting"]:\n        if request["kv_tokens"] == 0',
          'in state["waiting"][:32]:\n        if request["kv_tokens"] == 0')), {GOODPUT, THROUGHPUT}),
    (slip("always_64", (CHUNK, f"chunk = {AT_MOST.format(most=64)}")), {GOODPUT, THROUGHPUT}),
    (slip("at_most_32_running", first(f"if len(decode) >= 32: {CARRY_ON}")), {THROUGHPUT}),
    (slip("one_prompt_a_step", ("        tokens -= chunk\n", "        break\n")), {THROUGHPUT}),
    (slip("pool_ignored", (FITS, "if room < 0:")), {KV, STARVES}),
    (slip("answers_forgotten", (NEW, 'end = request["prompt_left"]'), (RUNNING, 'end = request["kv_tokens"]')), {KV}),
    (slip("last_block_forgotten", *((old, f"{old} - size + 1") for old in (RUNNING, BEGUN, NEW))), {KV}),
    (slip("context_ignored", (FITS, "if blocks < 0:")), {ITL}),
    (slip("begun_not_promised", ('if request["kv_tokens"] > 0:', "if False:")), {ITL}),
    (slip("large_ones_passed_over", (NEXT, PASS_OVER)), {STARVES}),
    (slip("the_waiting_decode", first('decode += [r["id"] for r in state["waiting"]]')), {PLANS}),
]  # fmt: skip
MORE_WRONG = [  # near kin of those above, tried in tests/exercises/test_scheduler.py
    (only_lists, ALL),
    (slip("watermark", (FITS, f"if room < 0 or {FREE} - 2:")), {KV}),
    (slip("context_of_now", (f"{RUNNING}\n        room -= end", f'{RUNNING}\n        room -= request["kv_tokens"]'),
          (f"{NEW}\n            room -= end", NEW)), {ITL}),
    (slip("an_entry_of_no_tokens", ("        if chunk <= 0:\n            break\n", "")), {PLANS}),
    (slip("another_engines_budget", (BUDGET, "tokens = 8192")), {ITL, GOODPUT}),
    (slip("batch_of_one", ('decode.append(request["id"])', 'decode = decode or [request["id"]]')), ALL - {PLANS}),
    (slip("decode_before_prompts", first(f"if decode: {CARRY_ON}")), {GOODPUT, THROUGHPUT}),
    (slip("room_for_the_prompt", (FITS, f"if room < 0 or {FREE}:")), {KV}),
    (slip("whoever_fits_decodes", (FITS, f"if room < 0 or prefill or {FREE} - len(decode):"), (DECODE, DECODE_IF_FREE)),
     {KV, THROUGHPUT}),
    (slip("half_of_each_answer", (NEW, 'end = request["prompt_left"] + request["max_output"] // 2'),
          (RUNNING, 'end = request["kv_tokens"] + request["output_left"] // 2')), {KV}),
    (slip("weights_ignored", ('(target - engine["weights_ms"])', "target")), {ITL}),
    (slip("shortest_first", first('state["waiting"].sort(key=lambda r: r["prompt_left"])')), {STARVES}),
    (slip("newest_first", first('state["waiting"].reverse()')), {STARVES}),
    (slip("everyone_twice", ('"decode": decode', '"decode": decode + decode')), {PLANS}),
    (slip("one_token_too_many", (CHUNK, 'chunk = min(request["prompt_left"] + 1, tokens)')), ALL - {ITL}),
]  # fmt: skip
RIGHT = [two_budgets, by_bisection, heap_by_deadline, greedy_fill_in_small_steps, admitted_by_the_future_peak, running_sums]
