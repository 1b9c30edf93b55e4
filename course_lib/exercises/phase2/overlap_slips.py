"""Slips of exercise 2.10 that a hint can name: each is computed, and stands when it gives the number that came."""

from collections.abc import Iterator
from typing import Any

from ...grading.criteria import Case
from ...workloads.hopper_tile import TileShape
from .overlap_numbers import WAYS, expected_facts, expected_paces

Slips = Iterator[tuple[str, Any]]


def pace_slips(case: Case, key: str) -> Slips:
    load, qk, softmax, pv = (case["cycles"][job] for job in ("load", "qk", "softmax", "pv"))
    right = expected_paces(case)
    if key in WAYS:
        yield "cycles are those of one group, and two groups have work with each tile.", right[key] / 2
    if key == "in turn":
        yield "cycles are those of one group; only the load serves both.", load + qk + softmax + pv
        yield "One load brings a tile for both groups.", 2 * (load + qk + softmax + pv)
        yield "The load is in turn, too.", 2 * (qk + softmax + pv)
    if key == "loads hidden":
        yield "A load that is longer than all the rest cannot hide behind it.", 2 * (qk + softmax + pv)
        yield "What is hidden takes no time of its own.", right["in turn"]
        yield "cycles are those of one group; only the load serves both.", max(load, qk + softmax + pv)
    if key in ("two groups", "both"):
        yield "Whose work does one unit have to do? Of both groups.", max(load, qk + pv, softmax)
        yield "Whose work does one unit have to do? Of both groups.", max(load, qk + softmax + pv)
        yield "A load can be the longest of all.", 2 * max(qk + pv, softmax)
        yield "While one group does its softmax, the other one's products can run, scores or values.", right["two tiles"]
        yield "One group's softmax runs beside the other's products. Which unit has the most to do?", right["loads hidden"]
        yield "Three units, and the slowest one sets the pace. When are exponentials the slowest?", max(load, 2 * (qk + pv))
        yield "Both groups multiply on the same tensor cores, one after the other.", max(load, 2 * qk, 2 * softmax, 2 * pv)
    if key == "two tiles":
        yield "A softmax ends before the next scores are asked for. What runs beside it?", max(load, 2 * max(qk + pv, softmax))
        yield (
            "Which product runs beside the softmax of a tile: that of its scores, or of the values before?",
            (max(load, 2 * (pv + max(qk, softmax)))),
        )
        yield "A load can be the longest of all.", 2 * (qk + max(softmax, pv))
        yield "Values are multiplied beside the next softmax. Which of the two is longer?", max(load, 2 * (qk + softmax))
        yield "Values are multiplied beside the next softmax. Which of the two is longer?", max(load, 2 * (qk + pv))
        yield "Values are multiplied beside the next softmax.", right["loads hidden"]
    if key == "fp8 gain":
        yield "Exponentials are no faster in FP8. Which unit is the slowest then?", 2.0
        odd = "Half of an odd number of cycles is not a whole number."
        yield odd, right["both"] / max(load // 2, 2 * (qk // 2 + pv // 2), 2 * softmax)
        yield odd, right["both"] / max(load // 2, qk + pv, 2 * softmax)
        for digits in range(5):
            yield "Do not round.", round(right[key], digits)
        eight = max(load / 2, qk + max(2 * softmax, pv))
        yield 'The gain is that of "both".', right["two tiles"] / eight
        yield "How many times faster: the old time over the new one.", 1 / right[key]
        yield (
            "Elements of one byte are half as many bytes to load.",
            (max(load, 2 * (qk + pv), 2 * softmax) / max(load, qk + pv, 2 * softmax)),
        )
        yield "In bf16, too, exponentials can be the slowest.", max(load, 2 * (qk + pv)) / max(load / 2, qk + pv, 2 * softmax)
        yield "In FP8, too, exponentials can be the slowest.", right["both"] / max(load / 2, qk + pv)
        yield 'One thing in turn is not "both".', right["in turn"] / (load / 2 + qk + pv + 2 * softmax)
        yield "Can loads be what both are waiting for?", max(2 * (qk + pv), 2 * softmax) / max(qk + pv, 2 * softmax)


def fact_slips(case: Case, key: str) -> Slips:
    tile, head_dim, kv_len = TileShape(*case["tile"]), case["head_dim"], case["kv_len"]
    dims, right = 1 << (head_dim - 1).bit_length(), expected_facts(case)[key]
    count, block = -(-kv_len // tile.keys), tile.keys * dims * 2
    queries = tile.warpgroups * tile.rows * dims * 2
    padding = "A block of a descriptor is a power of two wide, and what lies outside the tensor arrives as zeros."
    wide = f"head_dim {head_dim} is a power of two: it takes {head_dim} columns."
    if key == "stage_bytes":
        if head_dim < 128 and head_dim == dims:
            yield wide, [each * 128 // dims for each in right]
        if kv_len % tile.keys == 0:
            yield _no_more(kv_len, tile.keys), [block, *[2 * block] * count, block]
        if count > 1:
            yield "hopper_producer.py: what is in the first stage of a walk?", [*[2 * block] * count, block]
        yield "hopper_producer.py: which values are in the stage of a tile's keys?", [2 * block] * count
        yield "hopper_producer.py: what is in the first stage of a walk, and what in the last?", [2 * block] * (count + 1)
        yield "hopper_producer.py: what is in the last stage of a walk?", [block, *[2 * block] * count]
        yield "hopper_producer.py: keys of a tile and values of the one before come together.", [block] * (2 * count)
        yield padding, [each * head_dim // dims for each in right]
        yield "In bytes, of elements of two bytes.", [each // 2 for each in right]
        yield "A tile that is not full is a tile.", [block, *[2 * block] * (kv_len // tile.keys - 1), block]
    if key == "full_parity":
        turns = range(count + 1)
        if kv_len % tile.keys == 0:
            yield _no_more(kv_len, tile.keys), [use // tile.stages & 1 for use in range(count + 2)]
        yield "That is the place in the ring. The parity changes when the ring begins anew.", [use % tile.stages for use in turns]
        yield "The parity changes when the ring begins anew.", [use & 1 for use in turns]
        yield "A parity is 0 or 1.", [use // tile.stages for use in turns]
        yield "That is what the producer waits for, on `empty`.", [1 - parity for parity in right]
        yield "One stage more than there are tiles of keys.", right[:-1]
    if key == "empty_arrivals":
        yield "hopper_kernel.py: with which count is `empty` made, and who arrives there?", 1
        yield "A warpgroup arrives once, not each of its threads.", 128 * tile.warpgroups
        yield "The producer waits at `empty`; it does not arrive there.", tile.warpgroups + 1
        yield "tile.warpgroups is not always 2.", 2
    if key == "shared_bytes":
        ring, results = 2 * tile.stages * block, queries if tile.out_apart else 0
        if head_dim < 128 and head_dim == dims:
            yield wide, right * 128 // dims
        yield "Where is the result before it leaves, with out_apart and without?", queries + ring
        yield "Where is the result before it leaves, with out_apart and without?", 2 * queries + ring
        yield "The queries stay for the whole walk.", ring + results
        yield "tile.rows is of one warpgroup.", (queries + results) // tile.warpgroups + ring
        yield "Keys and values have a ring each.", queries + results + ring // 2
        yield padding, right * head_dim / dims
        yield "In bytes, of elements of two bytes.", right / 2
        yield "In bytes.", right / 1024
        yield "The barriers do not count.", right + 1024
    if key == "thread_registers":
        scores, acc = tile.rows * tile.keys / 128, tile.rows * dims / 128
        if head_dim < 128 and head_dim == dims:
            yield wide, scores * 1.5 + tile.rows
        yield "While the next scores arrive, the weights of this tile are still multiplied. Where are they?", scores + acc
        yield "Weights are 16-bit numbers: two of them share a register.", 2 * scores + acc
        yield "Scores of the next tile arrive while the weights of this one are multiplied.", scores / 2 + acc
        yield "The accumulator is in registers as well.", scores * 1.5
        yield padding, scores * 1.5 + tile.rows * head_dim / 128
        yield "Scores and accumulator are float32: a register each.", right / 2
        yield "One warpgroup, 128 threads, has tile.rows queries.", right * tile.warpgroups
        yield "tile.rows is of one warpgroup, which has 128 threads.", right * 4
    if key == "block_registers":
        from ...attention.hopper_launch import REGISTERS

        consumer, producer = REGISTERS[tile.warpgroups]
        threads = 128 * tile.warpgroups
        for other in REGISTERS.values():
            every = threads * other[0] + 128 * other[1]
            yield f"With {tile.warpgroups} consumers a thread has other numbers.", [*other, every]
            yield f"With {tile.warpgroups} consumers a thread has other numbers.", [*other, right[2]]
        for hint, every in (
            ("Registers are given out by warpgroups: what does the producer's have?", threads * consumer),
            ("setmaxnreg is for a warpgroup: the producer's has three idle warps.", threads * consumer + 32 * producer),
            ("That is what an SM has. What do the kernel's warpgroups hold, after setmaxnreg?", 65536),
            ("How many consumers, and how many threads have they?", 128 * (consumer + producer)),
        ):
            yield hint, [consumer, producer, every]
        yield "First a consumer's thread, then a producer's.", [producer, consumer, right[2]]


def _no_more(kv_len: int, keys: int) -> str:
    return f"{kv_len} keys fill {kv_len // keys} tiles of {keys}, and there is none behind them."
