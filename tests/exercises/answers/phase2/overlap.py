"""Answers to exercise 2.10. Each function stands alone: its source is also judged in a process of its own."""

from ..spoiling import spoiled

PACES, FP8, RULES, ONE, TWO, STAGES, MEMORY = (
    "paces", "FP8", "rules", "short, one group", "short, two groups", "kernel: stages", "kernel: memory",
)  # fmt: skip
ALL = {PACES, FP8, RULES, ONE, TWO, STAGES, MEMORY}


def in_turns():
    """Right: a list of products in the order of turns, each started as soon as it can."""

    def paces(cycles):
        load, qk, softmax, pv = cycles["load"], cycles["qk"], cycles["softmax"], cycles["pv"]
        slowest = max(load, 2 * (qk + pv), 2 * softmax)
        eight = max(load / 2, qk + pv, 2 * softmax)
        return {
            "in turn": load + 2 * (qk + softmax + pv),
            "loads hidden": max(load, 2 * (qk + softmax + pv)),
            "two groups": slowest,
            "two tiles": max(load, 2 * (qk + max(softmax, pv))),
            "both": slowest,
            "fp8 gain": slowest / eight,
        }

    def timeline(tiles, groups, alive, stages, cycles):
        jobs, end = [], {}
        free = {"copy": 0, "tensor": 0, "exp": 0}

        def run(job, group, tile, unit, after):
            start = max([free[unit]] + [end.get(other, 0) for other in after])
            jobs.append((job, group, tile, start))
            free[unit] = end[job, group, tile] = start + cycles[job]

        for tile in range(tiles + 1):
            for group in range(groups):
                turn = ["pv", "qk"] if alive == 1 else ["qk", "pv"]
                for job in turn:
                    if job == "pv" and tile > 0:
                        before = [("softmax", group, tile - 1), ("pv", group, tile - 2)]
                        run("pv", group, tile - 1, "tensor", before)
                    if job == "qk" and tile < tiles:
                        if group == 0:
                            place = [("pv", other, tile - stages) for other in range(groups)]
                            run("load", None, tile, "copy", place)
                        before = [("load", None, tile), ("softmax", group, tile - 1), ("pv", group, tile - alive)]
                        run("qk", group, tile, "tensor", before)
                if tile < tiles:
                    run("softmax", group, tile, "exp", [("qk", group, tile)])
        return jobs

    def kernel_facts(tile, head_dim, kv_len):
        dims = 1
        while dims < head_dim:
            dims *= 2
        count = -(-kv_len // tile.keys)
        keys = tile.keys * dims * 2
        queries = tile.warpgroups * tile.rows * dims * 2
        consumer = {2: 240, 3: 160}[tile.warpgroups]
        return {
            "stage_bytes": [keys] + [2 * keys] * (count - 1) + [keys],
            "full_parity": [use // tile.stages % 2 for use in range(count + 1)],
            "empty_arrivals": tile.warpgroups,
            "shared_bytes": queries * (2 if tile.out_apart else 1) + 2 * tile.stages * keys,
            "thread_registers": tile.rows * (tile.keys + dims) // 128 + tile.rows * tile.keys // 256,
            "block_registers": [consumer, 24, 128 * (tile.warpgroups * consumer + 24)],
        }

    return paces, timeline, kernel_facts


def by_events():
    """Right: a clock that jumps from event to event; a unit that is free takes what is ready, by a rank."""

    def paces(c):
        two = {job: 2 * n for job, n in c.items() if job != "load"}
        units = [c["load"], two["qk"] + two["pv"], two["softmax"]]
        eight = [c["load"] / 2, c["qk"] + c["pv"], two["softmax"]]
        chain = two["qk"] + two["softmax"] + two["pv"]
        answer = {"in turn": chain + c["load"], "loads hidden": chain if chain > c["load"] else c["load"]}
        answer["two tiles"] = max(c["load"], two["qk"] + two["pv"], two["qk"] + two["softmax"])
        answer.update({name: max(units) for name in ("two groups", "both")})
        return {**answer, "fp8 gain": max(units) / max(eight)}

    def timeline(tiles, groups, alive, stages, cycles):
        unit = {"load": 0, "qk": 1, "pv": 1, "softmax": 2}
        todo = {("load", 0, t) for t in range(tiles)}
        todo |= {(job, g, t) for job in ("qk", "softmax", "pv") for g in range(groups) for t in range(tiles)}

        def needs(job, g, t):
            if job == "load":
                return [("pv", other, t - stages) for other in range(groups)]
            if job == "qk":
                return [("load", 0, t), ("softmax", g, t - 1), ("pv", g, t - alive)]
            return [("qk", g, t)] if job == "softmax" else [("softmax", g, t), ("pv", g, t - 1)]

        def rank(job):
            name, g, t = job
            turn = t + 1 if name == "pv" else t
            return turn, g, (name == "pv") == (alive == 2)

        clock, over, free, out = 0, {}, [0, 0, 0], []
        while todo:
            for place in range(3):
                here = sorted((job for job in todo if unit[job[0]] == place), key=rank)
                if not here or free[place] > clock:
                    continue
                job = here[0]
                before = [other for other in needs(*job) if other[2] >= 0]
                if all(over.get(other, clock + 1) <= clock for other in before):
                    todo.remove(job)
                    out.append([job[0], job[1], job[2], clock])
                    over[job] = free[place] = clock + cycles[job[0]]
            later = [time for time in over.values() if time > clock]
            clock = min(later) if later else clock
        return out

    def kernel_facts(tile, head_dim, kv_len):
        dims = min(d for d in (64, 128, 256) if d >= head_dim)
        tiles_of_keys = (kv_len + tile.keys - 1) // tile.keys
        size = 2 * dims
        sizes, parity = [], []
        for use in range(tiles_of_keys + 1):
            with_keys, with_values = use < tiles_of_keys, use > 0
            sizes.append((with_keys + with_values) * tile.keys * size)
            parity.append(int(use % (2 * tile.stages) >= tile.stages))
        rows = tile.rows * tile.warpgroups
        shared = rows * size + 2 * tile.keys * size * tile.stages
        if tile.out_apart:
            shared += rows * size
        bits = 32 * tile.rows * dims + 32 * tile.rows * tile.keys + 16 * tile.rows * tile.keys
        return {
            "stage_bytes": tuple(sizes), "full_parity": tuple(parity), "empty_arrivals": float(tile.warpgroups),
            "shared_bytes": float(shared), "thread_registers": bits / 32 / 128,
            "block_registers": [480 / tile.warpgroups, 24.0, 64512],
        }  # fmt: skip

    return paces, timeline, kernel_facts


def a_walk_at_a_time():
    """Right: until nothing changes, every job is moved to the earliest start that its unit's order and the rules leave."""

    def paces(cycles):
        load, qk, s, pv = (cycles[name] for name in ("load", "qk", "softmax", "pv"))

        def both(load, qk, pv):
            return max(load, 2 * qk + 2 * pv, s + s)

        one = qk + s + pv
        return {
            "fp8 gain": both(load, qk, pv) / both(load / 2, qk / 2, pv / 2), "both": both(load, qk, pv),
            "two groups": both(load, qk, pv), "two tiles": max(load, 2 * qk + 2 * s, 2 * qk + 2 * pv),
            "in turn": load + one + one, "loads hidden": max(load, one + one),
        }  # fmt: skip

    def timeline(tiles, groups, alive, stages, cycles):
        products = []
        for tile in range(tiles + 1):
            for group in range(groups):
                turn = [("pv", group, tile - 1), ("qk", group, tile)]
                products += turn if alive == 1 else reversed(turn)
        products = [job for job in products if 0 <= job[2] < tiles]
        lines = [
            [("load", "all", tile) for tile in range(tiles)], products,
            [("softmax", group, tile) for tile in range(tiles) for group in range(groups)],
        ]  # fmt: skip
        before = {}
        for line in lines:
            for earlier, job in zip([None, *line], line, strict=False):
                name, group, tile = job
                needs = [earlier] if earlier else []
                if name == "load":
                    needs += [("pv", g, tile - stages) for g in range(groups)]
                elif name == "qk":
                    needs += [("load", "all", tile), ("softmax", group, tile - 1), ("pv", group, tile - alive)]
                elif name == "softmax":
                    needs += [("qk", group, tile)]
                else:
                    needs += [("softmax", group, tile)]
                before[job] = [other for other in needs if other[2] >= 0]
        start = dict.fromkeys(before, 0.0)
        moved = True
        while moved:
            moved = False
            for job, needs in before.items():
                at = max((start[other] + cycles[other[0]] for other in needs), default=0.0)
                if at > start[job]:
                    start[job], moved = at, True
        return [(*job, at) for job, at in start.items()]

    def kernel_facts(tile, head_dim, kv_len):
        import math

        groups, rows, keys, stages, apart = tile
        d = 2 ** math.ceil(math.log2(head_dim))
        n = math.ceil(kv_len / keys)
        bring = [keys * d * 4] * (n + 1)
        bring[0] = bring[-1] = keys * d * 2
        return {
            "stage_bytes": bring, "full_parity": [(i // stages) & 1 for i in range(len(bring))], "empty_arrivals": groups,
            "shared_bytes": d * 2 * (groups * rows * (1 + apart) + 2 * stages * keys),
            "thread_registers": rows * (1.5 * keys + d) / 128,
            "block_registers": (480 // groups, 24, 128 * 480 + 4 * 32 * 24),
        }  # fmt: skip

    return paces, timeline, kernel_facts


def two_at_a_time():
    """Right: a group starts again from what it has, written as a generator for each group; the tensor cores go round."""

    def paces(cycles):
        job = dict(cycles)
        rest = 2 * (job["qk"] + job["softmax"] + job["pv"])
        unit = sorted((job["load"], 2 * job["qk"] + 2 * job["pv"], 2 * job["softmax"]))[-1]
        fast = sorted((job["load"] / 2, job["qk"] + job["pv"], 2 * job["softmax"]))[-1]
        tiles = 2 * job["qk"] + 2 * (job["pv"] if job["pv"] > job["softmax"] else job["softmax"])
        return {
            "in turn": rest + job["load"], "loads hidden": max(rest, job["load"]), "two groups": unit,
            "two tiles": max(tiles, job["load"]), "both": unit, "fp8 gain": unit / fast,
        }  # fmt: skip

    def timeline(tiles, groups, alive, stages, cycles):
        done, jobs = {}, []
        copy = tensor = exps = 0

        def add(job, group, tile, start):
            jobs.append((job, group, tile, start))
            done[job, group, tile] = start + cycles[job]
            return start + cycles[job]

        def scores(group, tile):
            nonlocal copy, tensor
            if group == 0:
                copy = add("load", 0, tile, max([copy, *(done.get(("pv", g, tile - stages), 0) for g in range(groups))]))
            last = [done.get(("softmax", group, tile - 1), 0), done.get(("pv", group, tile - alive), 0)]
            ready = max(done["load", 0, tile], *last)
            tensor = add("qk", group, tile, max(tensor, ready))

        def values(group, tile):
            nonlocal tensor
            tensor = add("pv", group, tile, max(tensor, done["softmax", group, tile]))

        def walk(group):
            nonlocal exps
            scores(group, 0)
            exps = add("softmax", group, 0, max(exps, done["qk", group, 0]))
            yield
            for tile in range(1, tiles):
                if alive == 2:
                    scores(group, tile)
                    values(group, tile - 1)
                else:
                    values(group, tile - 1)
                    scores(group, tile)
                exps = add("softmax", group, tile, max(exps, done["qk", group, tile]))
                yield
            values(group, tiles - 1)
            yield

        walks = [walk(group) for group in range(groups)]
        for _ in range(tiles + 1):
            for one in walks:
                next(one)
        return jobs

    def kernel_facts(tile, head_dim, kv_len):
        d = {64: 64, 80: 128, 96: 128, 128: 128, 256: 256}[head_dim]
        full, rest = divmod(kv_len, tile.keys)
        n = full + (rest > 0)
        pair = 2 * tile.keys * d * 2
        return {
            "stage_bytes": [pair // 2, *(pair for _ in range(n - 1)), pair // 2],
            "full_parity": [0 if (i // tile.stages) % 2 == 0 else 1 for i in range(n + 1)],
            "empty_arrivals": tile.warpgroups,
            "shared_bytes": tile.stages * pair + (1 + bool(tile.out_apart)) * tile.warpgroups * tile.rows * 2 * d,
            "thread_registers": (2 * tile.rows * (tile.keys + d) + tile.rows * tile.keys) // 256,
            "block_registers": [240 if tile.warpgroups == 2 else 160, 24, 65536 - 1024],
        }

    return paces, timeline, kernel_facts


def change(name, *changes):
    return spoiled(in_turns, name, *changes)


def zeros():
    names = ("in turn", "loads hidden", "two groups", "two tiles", "both", "fp8 gain")
    facts = ("stage_bytes", "full_parity", "empty_arrivals", "shared_bytes", "thread_registers", "block_registers")
    return lambda cycles: dict.fromkeys(names, 0), lambda *shape: [], lambda *tile: dict.fromkeys(facts, 0)


def one_function():
    return lambda cycles: cycles


LOADS = 'place = [("pv", other, tile - stages) for other in range(groups)]'
BEFORE_PV = 'before = [("softmax", group, tile - 1), ("pv", group, tile - 2)]'
SOFTMAX = 'run("softmax", group, tile, "exp", [("qk", group, tile)])'
IN_STEP = 'free["tensor"] = max(free["tensor"], free["exp"]) if alive == 1 else free["tensor"]'
BEHIND_PRODUCTS = 'free["exp"] = max(free["exp"], free["tensor"] if groups == 1 else 0)'
FIRST_COME = """    def first_come(tiles, groups, alive, stages, cycles):
        programs = [[("load", 0, tile) for tile in range(tiles)]]
        for g in range(groups):
            jobs = [("qk", g, 0), ("softmax", g, 0)]
            for t in range(1, tiles):
                two = [("qk", g, t), ("pv", g, t - 1)] if alive == 2 else [("pv", g, t - 1), ("qk", g, t)]
                jobs += [*two, ("softmax", g, t)]
            programs.append([*jobs, ("pv", g, tiles - 1)])
        unit, free, over, out = {"load": 0, "qk": 1, "pv": 1, "softmax": 2}, [0, 0, 0], {}, []
        while any(programs):
            ready = []
            for place, program in enumerate(programs):
                if program:
                    job, g, t = program[0]
                    needs = [("softmax", g, t), ("pv", g, t - 1)] if job == "pv" else [("qk", g, t)]
                    if job == "load":
                        needs = [("pv", other, t - stages) for other in range(groups)]
                    elif job == "qk":
                        needs = [("load", 0, t), ("softmax", g, t - 1), ("pv", g, t - alive)]
                    needs = [other for other in needs if other[2] >= 0]
                    if all(other in over for other in needs):
                        ready.append((max([free[unit[job]]] + [over[other] for other in needs]), place))
            start, place = min(ready)
            job = programs[place].pop(0)
            free[unit[job[0]]] = over[job] = start + cycles[job[0]]
            out.append((*job, start))
        return out

"""
WRONG = [
    (zeros, ALL),
    (one_function, ALL),
    # paces
    (change("one_group", ("load + 2 * (qk + softmax + pv),", "load + qk + softmax + pv,")), {PACES}),
    (change("a_load_each", ('"in turn": load', '"in turn": 2 * load')), {PACES}),
    (change("loads_never_longest", ('max(load, 2 * (qk + softmax + pv))', '2 * (qk + softmax + pv)')), {PACES}),
    (change("units_of_one_group", ("slowest = max(load, 2 * (qk + pv), 2 * softmax)", "slowest = max(load, qk + pv, softmax)")),
     {PACES, FP8}),
    (change("products_side_by_side", ('"two groups": slowest', '"two groups": max(load, 2 * qk, 2 * softmax, 2 * pv)')), {PACES}),
    (change("never_exponentials", ("slowest = max(load, 2 * (qk + pv), 2 * softmax)", "slowest = max(load, 2 * (qk + pv))")),
     {PACES, FP8}),
    (change("softmax_beside_all", ("2 * (qk + max(softmax, pv))", "2 * max(qk + pv, softmax)")), {PACES}),
    (change("softmax_beside_scores", ("2 * (qk + max(softmax, pv))", "2 * (pv + max(softmax, qk))")), {PACES}),
    (change("fp8_exponentials_too", ("eight = max(load / 2, qk + pv, 2 * softmax)", "eight = slowest / 2")), {FP8}),
    (change("fp8_same_loads", ("eight = max(load / 2,", "eight = max(load,")), {FP8}),
    (change("fp8_upside_down", ("slowest / eight", "eight / slowest")), {FP8}),
    (change("fp8_whole_cycles", ("eight = max(load / 2, qk + pv,", "eight = max(load // 2, 2 * (qk // 2 + pv // 2),")), {FP8}),
    (change("fp8_whole_loads", ("eight = max(load / 2,", "eight = max(load // 2,")), {FP8}),
    (change("fp8_rounded", ("slowest / eight", "round(slowest / eight, 2)")), {FP8}),
    (change("fp8_of_two_tiles", ('"fp8 gain": slowest / eight', '"fp8 gain": max(load, 2 * (qk + max(softmax, pv)))'
            ' / max(load / 2, qk + max(2 * softmax, pv))')), {FP8}),
    (change("both_as_two_tiles", ('"both": slowest', '"both": max(load, 2 * (qk + max(softmax, pv)))')), {PACES}),
    # timeline
    (change("groups_from_one", ("jobs.append((job, group, tile, start))", "jobs.append((job, (group or 0) + 1, tile, start))")),
     {RULES, ONE, TWO}),
    (change("half_tiles", ("jobs.append((job, group, tile, start))", "jobs.append((job, group, tile + 0.5, start))")),
     {RULES, ONE, TWO}),
    (change("before_the_beginning", ("jobs.append((job, group, tile, start))", "jobs.append((job, group, tile, start - 10))")),
     {RULES, ONE, TWO}),
    (change("last_values_missing", ("for tile in range(tiles + 1)", "for tile in range(tiles)")), {RULES, ONE, TWO}),
    (change("a_load_for_each_group", ("if group == 0:\n", "if True:\n"), ('run("load", None, tile', 'run("load", group, tile'),
            ('[("load", None, tile), ("softmax"', '[("load", group, tile), ("softmax"')), {RULES, TWO}),
    (change("units_are_free", ("start = max([free[unit]] +", "start = max([0] +")), {RULES, ONE, TWO}),
    (change("scores_before_keys", ('[("load", None, tile), ("softmax"', '[("softmax"')), {RULES, ONE, TWO}),
    (change("weights_before_softmax", (BEFORE_PV, BEFORE_PV.replace('("softmax"', '("qk"'))), {RULES, ONE, TWO}),
    (change("stages_for_ever", (LOADS, "place = []")), {RULES, ONE, TWO}),
    (change("one_stage_more", (LOADS, LOADS.replace("tile - stages", "tile - stages - 1"))), {RULES, ONE, TWO}),
    (change("place_of_one_group", (LOADS, LOADS.replace("range(groups)", "range(1)"))), {RULES, TWO}),
    (change("keys_only", (LOADS, LOADS.replace('"pv"', '"qk"'))), {RULES, ONE, TWO}),
    (change("registers_for_ever", ('turn = ["pv", "qk"] if alive == 1 else ["qk", "pv"]', 'turn = ["qk", "pv"]'),
            (', ("pv", group, tile - alive)]', "]")), {RULES, ONE, TWO}),
    (change("one_thing_at_a_time", ("start = max([free[unit]] +", "start = max(list(free.values()) +")), {ONE, TWO}),
    (change("no_load_ahead", (LOADS, LOADS.replace("tile - stages", "tile - (1 if alive == 1 else stages)"))), {ONE, TWO}),
    (change("values_first", ('turn = ["pv", "qk"] if alive == 1 else ["qk", "pv"]', 'turn = ["pv", "qk"]')), {ONE}),
    (change("in_step", (SOFTMAX, f"{SOFTMAX}\n                    {IN_STEP}")), {TWO}),
    (change("one_after_another", (SOFTMAX, f"{BEHIND_PRODUCTS}\n                    {SOFTMAX}")), {ONE}),
    (change("whoever_can_first", ("for tile in range(tiles + 1):", "return first_come(tiles, groups, alive, stages, cycles)\n"
            "        for tile in range(0):"), ("    def kernel_facts", FIRST_COME + "    def kernel_facts")), {TWO}),
    (change("late_by_one", ('run("qk", group, tile, "tensor", before)', 'run("qk", group, tile, "tensor", before)\n'
            '                        jobs[-1] = (*jobs[-1][:3], jobs[-1][3] - 1)')), {RULES, ONE, TWO}),
    # kernel
    (change("pairs_of_one_tile", ("[keys] + [2 * keys] * (count - 1) + [keys]", "[2 * keys] * count")), {STAGES}),
    (change("no_first_stage", ("[keys] + [2 * keys] * (count - 1) + [keys]", "[2 * keys] * count + [keys]")), {STAGES}),
    (change("one_tile_more", ("count = -(-kv_len // tile.keys)", "count = kv_len // tile.keys + 1")), {STAGES}),
    (change("always_128_columns", ("while dims < head_dim:\n            dims *= 2", "dims = max(128, head_dim)")),
     {STAGES, MEMORY}),
    (change("rows_of_all", ("queries = tile.warpgroups * tile.rows", "queries = tile.rows")), {MEMORY}),
    (change("all_stages_alike", ("[keys] + [2 * keys] * (count - 1) + [keys]", "[2 * keys] * (count + 1)")), {STAGES}),
    (change("place_for_parity", ("use // tile.stages % 2", "use % tile.stages")), {STAGES}),
    (change("producer_s_parity", ("use // tile.stages % 2", "1 - use // tile.stages % 2")), {STAGES}),
    (change("one_arrival", ('"empty_arrivals": tile.warpgroups', '"empty_arrivals": 1')), {STAGES}),
    (change("always_two", ('"empty_arrivals": tile.warpgroups', '"empty_arrivals": 2')), {STAGES}),
    (change("not_padded", ("while dims < head_dim:\n            dims *= 2", "dims = head_dim")), {STAGES, MEMORY}),
    (change("rounded_down", ("count = -(-kv_len // tile.keys)", "count = max(kv_len // tile.keys, 1)")), {STAGES}),
    (change("result_for_nothing", ("queries * (2 if tile.out_apart else 1)", "queries")), {MEMORY}),
    (change("result_always", ("queries * (2 if tile.out_apart else 1)", "queries * 2")), {MEMORY}),
    (change("one_ring", ("+ 2 * tile.stages * keys", "+ tile.stages * keys")), {MEMORY}),
    (change("no_weights", (" + tile.rows * tile.keys // 256", "")), {MEMORY}),
    (change("one_warp", ("128 * (tile.warpgroups * consumer + 24)", "128 * tile.warpgroups * consumer + 32 * 24")), {MEMORY}),
    (change("two_by_heart", ("consumer = {2: 240, 3: 160}[tile.warpgroups]", "consumer = 240")), {MEMORY}),
]  # fmt: skip
RIGHT = [in_turns, by_events, a_walk_at_a_time, two_at_a_time]
