"""Answers to exercise 2.5. Each function stands alone: its source is also judged in a process of its own."""

import math

from ..spoiling import from_notebook, spoiled

HOPPER, AMPERE, REGISTERS, TRAFFIC, UNITS, REFUSED, PROGRAMS = (
    "shared, Hopper", "shared, Ampere", "registers", "traffic", "units", "refused", "programs",
)  # fmt: skip
ALL = {HOPPER, AMPERE, REGISTERS, TRAFFIC, UNITS, REFUSED, PROGRAMS}


def line_by_line(tile, gpu):
    """Right."""
    width = 16
    while width < tile.head_dim:
        width *= 2
    threads = 32 * tile.warps
    buffers = tile.stages if gpu.products_read_shared else tile.stages - 1
    elements = tile.block_q * width + buffers * 2 * tile.block_k * width
    if not gpu.products_read_shared and tile.block_q < width:
        elements += tile.block_q * tile.block_k
    shared = elements * tile.element_bytes
    numbers = tile.block_q * tile.block_k + tile.block_q * width
    registers = math.ceil(numbers / threads)
    limit = min(255, 65536 // threads)
    flops = 2 * 2 * tile.block_q * tile.block_k * width
    refused = []
    if math.log2(tile.block_q) % 1:
        refused.append("block_q")
    if math.log2(tile.block_k) % 1:
        refused.append("block_k")
    if shared > gpu.shared_block_bytes:
        refused.append("shared memory")
    by_shared = gpu.shared_sm_bytes // (shared + 1024)
    by_registers = 65536 // (threads * min(registers, limit))
    by_threads = gpu.threads_sm // threads
    programs = min(by_shared, by_registers, by_threads)
    if refused:
        programs = 0
    return {
        "shared_bytes": shared,
        "registers": registers,
        "register_limit": limit,
        "must_spill": registers > limit,
        "flops_per_byte": 2 * tile.block_q / tile.element_bytes,
        "product_cycles": flops / gpu.flops_per_cycle * tile.element_bytes / 2,
        "exp_cycles": tile.block_q * tile.block_k / gpu.exps_per_cycle,
        "refused": refused,
        "programs": programs,
    }


def from_bytes(tile, gpu):
    """Right: everything in bytes, limits in a table, programs counted one by one."""
    d = next(power for power in (16, 32, 64, 128, 256, 512) if power >= tile.head_dim)
    e, threads = tile.element_bytes, tile.warps * 32
    q, kv = tile.block_q * d * e, 2 * tile.block_k * d * e
    need = q + kv * tile.stages
    if not gpu.products_read_shared:
        need -= kv
        need += tile.block_q * tile.block_k * e if d > tile.block_q else 0
    on_chip = 4 * tile.block_q * (tile.block_k + d)
    each = -(-on_chip // (4 * threads))
    most = 255 if threads <= 256 else 65536 // threads
    tests = {
        "block_q": bin(tile.block_q).count("1") != 1,
        "block_k": bin(tile.block_k).count("1") != 1,
        "shared memory": need > gpu.shared_block_bytes,
    }
    count = 0
    while not any(tests.values()):
        n = count + 1
        room = n * (need + 1024) <= gpu.shared_sm_bytes and n * threads <= gpu.threads_sm
        if not room or n * threads * min(each, most) > 65536:
            break
        count = n
    rate = gpu.flops_per_cycle if e == 2 else 2 * gpu.flops_per_cycle
    scores = tile.block_q * tile.block_k
    return {
        "shared_bytes": need, "registers": each, "register_limit": most, "must_spill": bool(each > most),
        "flops_per_byte": 4 * scores * tile.head_dim / (2 * tile.block_k * tile.head_dim * e),
        "product_cycles": 4 * scores * d / rate, "exp_cycles": scores / gpu.exps_per_cycle,
        "refused": [name for name, broken in tests.items() if broken], "programs": count,
    }  # fmt: skip


def unpacked(tile, gpu):
    """Right: the tuples taken apart, floats where whole numbers come out, names in another order."""
    rows, keys, dim, stages, warps, size = tile
    _, _, async_products, block, sm, most_threads, rate, exps = gpu
    dim = 2 ** math.ceil(math.log2(dim))
    pairs = stages - (not async_products)
    passing = rows * keys if rows < dim and not async_products else 0
    shared = float(size * (dim * (rows + 2 * pairs * keys) + passing))
    lanes = warps * 32
    need = math.ceil(rows * keys / lanes + rows * dim / lanes)
    have = int(min(255, 2**16 / lanes))
    why = ["shared memory"] * (shared > block)
    why += [name for name, n in (("block_k", keys), ("block_q", rows)) if n & n - 1]
    return {
        "programs": 0 if why else int(min(sm // (shared + 1024), most_threads // lanes, 2**16 // (min(need, have) * lanes))),
        "refused": tuple(why), "exp_cycles": keys / exps * rows, "product_cycles": 2 * size * rows * keys * dim / rate,
        "flops_per_byte": 2 * rows / size, "must_spill": not need <= have, "register_limit": have, "registers": need,
        "shared_bytes": shared,
    }  # fmt: skip


def with_helpers(tile, gpu):
    """Right: small functions, and cases of the kind of GPU apart."""

    def power(n):
        return 1 if n <= 1 else 2 * power((n + 1) // 2)

    def is_power(n):
        return power(n) == n

    def shared():
        d = power(tile.head_dim)
        tile_of_keys = tile.block_k * d
        if gpu.products_read_shared:
            return (tile.block_q * d + tile.stages * 2 * tile_of_keys) * tile.element_bytes
        base = tile.block_q * d + (tile.stages - 1) * 2 * tile_of_keys
        return (base if tile.block_q >= d else base + tile.block_q * tile.block_k) * tile.element_bytes

    threads = tile.warps << 5
    total = tile.block_q * tile.block_k + tile.block_q * power(tile.head_dim)
    registers = total // threads + (1 if total % threads else 0)
    register_limit = sorted((255, 65536 // threads))[0]
    refused = [] if is_power(tile.block_q) else ["block_q"]
    refused += [] if is_power(tile.block_k) else ["block_k"]
    refused += [] if shared() <= gpu.shared_block_bytes else ["shared memory"]
    limits = [gpu.shared_sm_bytes // (1024 + shared()), gpu.threads_sm // threads]
    limits.append(65536 // threads // min(registers, register_limit))
    flops = 4 * tile.block_q * tile.block_k * power(tile.head_dim)
    return {
        "shared_bytes": shared(), "registers": registers, "register_limit": register_limit,
        "must_spill": registers >= register_limit + 1, "flops_per_byte": tile.block_q * 2 / tile.element_bytes,
        "product_cycles": flops / (gpu.flops_per_cycle * (2 / tile.element_bytes)),
        "exp_cycles": tile.block_q * tile.block_k / gpu.exps_per_cycle, "refused": refused,
        "programs": min(limits) if refused == [] else 0,
    }  # fmt: skip


def change(name, *changes):
    return spoiled(line_by_line, name, *changes)


def zeros(tile, gpu):
    names = ("shared_bytes", "registers", "register_limit", "must_spill", "flops_per_byte", "product_cycles", "exp_cycles")
    return dict.fromkeys(names, 0) | {"refused": [], "programs": 0}


def a_list(tile, gpu):
    return [tile.block_q * tile.block_k]


SHARED = "elements = tile.block_q * width + buffers * 2 * tile.block_k * width"
PAD = "width = 16\n    while width < tile.head_dim:\n        width *= 2"
WRONG = [
    (zeros, ALL),
    (a_list, ALL),
    (change("forgets_q", (SHARED, "elements = buffers * 2 * tile.block_k * width")), {HOPPER, AMPERE}),
    (change("forgets_v", (SHARED, SHARED.replace("2 * ", ""))), {HOPPER, AMPERE}),
    (change("stages_everywhere", ("tile.stages if gpu.products_read_shared else tile.stages - 1", "tile.stages")),
     {AMPERE}),
    (change("one_less_everywhere", ("tile.stages if gpu.products_read_shared else tile.stages - 1", "tile.stages - 1")),
     {HOPPER}),
    (change("no_weights", ("elements += tile.block_q * tile.block_k", "pass")), {AMPERE}),
    (change("weights_on_hopper", ("if not gpu.products_read_shared and tile.block_q < width", "if tile.block_q < width")),
     {HOPPER}),
    (change("weights_at_the_edge", ("tile.block_q < width:", "tile.block_q <= width:")), {AMPERE}),
    (change("not_padded", (PAD, "width = tile.head_dim")),
     {HOPPER, AMPERE, REGISTERS, UNITS}),
    (change("always_two_bytes", ("elements * tile.element_bytes", "elements * 2")), {HOPPER, AMPERE}),
    (change("kibibytes", ("shared = elements * tile.element_bytes", "shared = elements * tile.element_bytes / 1024")),
     {HOPPER, AMPERE}),
    (change("scores_only", (" + tile.block_q * width\n    registers", "\n    registers")), {REGISTERS}),
    (change("accumulator_only", ("numbers = tile.block_q * tile.block_k + ", "numbers = ")), {REGISTERS}),
    (change("rounded_down", ("math.ceil(numbers / threads)", "numbers // threads")), {REGISTERS}),
    (change("half_registers", ("math.ceil(numbers / threads)", "math.ceil(numbers * tile.element_bytes / 4 / threads)")),
     {REGISTERS}),
    (change("always_255", ("min(255, 65536 // threads)", "255")), {REGISTERS}),
    (change("never_255", ("min(255, 65536 // threads)", "65536 // threads")), {REGISTERS}),
    (change("spills_at_the_limit", ("registers > limit", "registers >= limit")), {REGISTERS}),
    (change("keys_for_queries", ('"flops_per_byte": 2 * tile.block_q', '"flops_per_byte": 2 * tile.block_k')), {TRAFFIC}),
    (change("block_q_in_any_type", ("2 * tile.block_q / tile.element_bytes", "tile.block_q")), {TRAFFIC}),
    (change("one_product", ("flops = 2 * 2 *", "flops = 2 *")), {UNITS}),
    (change("rate_of_two_bytes", (" * tile.element_bytes / 2,", ",")), {UNITS}),
    (change("sixteen_by_heart", ("tile.block_k / gpu.exps_per_cycle", "tile.block_k / 16")), {UNITS}),
    (change("an_h200_by_heart", ("shared > gpu.shared_block_bytes", "shared > 232448")), {REFUSED}),
    (change("refused_at_the_limit", ("shared > gpu.shared_block_bytes", "shared >= gpu.shared_block_bytes")), {REFUSED}),
    (change("the_sm_s_limit", ("shared > gpu.shared_block_bytes", "shared > gpu.shared_sm_bytes")), {REFUSED}),
    (change("spills_are_refused", ("    by_shared =", "    refused += ['registers'] * (registers > limit)\n    by_shared =")),
     {REFUSED}),
    (change("multiples_of_16", ("math.log2(tile.block_q) % 1", "tile.block_q % 16"),
            ("math.log2(tile.block_k) % 1", "tile.block_k % 16")), {REFUSED}),
    (change("first_reason_only", ("    by_shared =", "    refused = refused[:1]\n    by_shared =")), {REFUSED}),
    (change("nothing_reserved", ("(shared + 1024)", "shared")), {PROGRAMS}),
    (change("of_a_block", ("gpu.shared_sm_bytes //", "gpu.shared_block_bytes //")), {PROGRAMS}),
    (change("without_registers", ("min(by_shared, by_registers, by_threads)", "min(by_shared, by_threads)")), {PROGRAMS}),
    (change("without_threads", ("min(by_shared, by_registers, by_threads)", "min(by_shared, by_registers)")), {PROGRAMS}),
    (change("one_at_least", ("programs = 0", "programs = max(programs, 1)")), {PROGRAMS}),
    (change("registers_without_limit", ("min(registers, limit)", "registers")), {PROGRAMS}),
    # a constant for what the other answers are judged by
    (change("never_launched", ("programs = min(by_shared, by_registers, by_threads)", "refused = ['shared memory']")),
     {REFUSED, PROGRAMS}),
    (change("needs_a_gigabyte", ('"shared_bytes": shared', '"shared_bytes": 10**9'), ('"programs": programs', '"programs": 0')),
     {HOPPER, AMPERE, REFUSED, PROGRAMS}),
    (change("in_bits", ("shared = elements * tile.element_bytes", "shared = 8 * elements * tile.element_bytes"),
            ('"programs": programs', '"programs": 0')), {HOPPER, AMPERE, PROGRAMS}),
    # right on most tiles
    (change("two_bytes_on_ampere", ("elements * tile.element_bytes",
            "elements * (tile.element_bytes if gpu.products_read_shared else 2)")), {AMPERE}),
    (change("weights_of_two_bytes", ("shared = elements * tile.element_bytes", """shared = elements * tile.element_bytes
    if not gpu.products_read_shared and tile.block_q < width:
        shared += tile.block_q * tile.block_k * (2 - tile.element_bytes)""")), {AMPERE}),
    (change("multiples_of_64", (PAD, "width = -(-tile.head_dim // 64) * 64")), {HOPPER, AMPERE, REGISTERS, UNITS}),
    (change("of_64_or_128", (PAD, "width = 64 if tile.head_dim <= 64 else 128")), {HOPPER, AMPERE, REGISTERS, UNITS}),
    (change("pads_80_and_96_only", (PAD, "width = 128 if tile.head_dim in (80, 96) else tile.head_dim")),
     {HOPPER, AMPERE, REGISTERS, UNITS}),
    (change("padded_twice", (PAD, "width = 1 << tile.head_dim.bit_length()")), {HOPPER, AMPERE, REGISTERS, UNITS}),
    (change("weights_below_head_dim", ("tile.block_q < width:", "tile.block_q < tile.head_dim:")), {AMPERE}),
    (change("weights_below_128", ("tile.block_q < width:", "tile.block_q < 128:")), {AMPERE}),
    (change("weights_of_64_queries", ("tile.block_q < width:", "tile.block_q == 64:")), {AMPERE}),
    (change("product_cycles_rounded", ('"product_cycles": flops / gpu.flops_per_cycle * tile.element_bytes / 2',
            '"product_cycles": flops // (gpu.flops_per_cycle * 2 // tile.element_bytes)')), {UNITS}),
    (change("exp_cycles_rounded", ("tile.block_k / gpu.exps_per_cycle", "tile.block_k // gpu.exps_per_cycle")), {UNITS}),
    (change("half_the_exponentials", ("tile.block_k / gpu.exps_per_cycle",
            "tile.block_k / gpu.exps_per_cycle * tile.element_bytes / 2")), {UNITS}),
    (change("as_many_cycles_again", ("* tile.element_bytes / 2,", "/ tile.element_bytes,")), {UNITS}),
    (change("what_is_reserved_counts", ("shared > gpu.shared_block_bytes", "shared + 1024 > gpu.shared_sm_bytes")), {REFUSED}),
    (change("threads_by_heart", ("gpu.threads_sm // threads", "2048 // threads")), {PROGRAMS}),
    (change("by_the_limit", ("min(registers, limit)", "limit")), {PROGRAMS}),
    (change("with_what_is_reserved", ("    numbers =", "    shared += 1024\n    numbers =")), {HOPPER, AMPERE}),
    (change("one_pair", ("buffers = tile.stages if gpu.products_read_shared else tile.stages - 1", "buffers = 1")),
     {HOPPER, AMPERE}),
    (change("weights_of_head_dim", ("elements += tile.block_q * tile.block_k", "elements += tile.block_q * width")), {AMPERE}),
    (change("queries_in_stages", (SHARED, SHARED.replace("= tile", "= buffers * tile"))), {HOPPER, AMPERE}),
    (change("flops_padded_bytes_not", ("2 * tile.block_q / tile.element_bytes",
            "2 * tile.block_q / tile.element_bytes * width / tile.head_dim")), {TRAFFIC}),
    (change("rounded_apart", ("math.ceil(numbers / threads)",
            "math.ceil(tile.block_q * tile.block_k / threads) + math.ceil(tile.block_q * width / threads)")), {REGISTERS}),
    (change("as_many_registers_as_bytes", ("math.ceil(numbers / threads)", "math.ceil(numbers * tile.element_bytes / threads)")),
     {REGISTERS}),
]  # fmt: skip
RIGHT = [line_by_line, from_bytes, unpacked, with_helpers, from_notebook("2.5", "tile_needs_of_the_notebook", __name__)]
