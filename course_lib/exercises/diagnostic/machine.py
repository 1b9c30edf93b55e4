"""Questions on the machine: a topology to read, a PCIe link to read, and what a copy costs."""

import re
from typing import Any

from .question import Question, near

TOPOLOGY = """\
        GPU0    GPU1    GPU2    GPU3    NIC0    CPU Affinity    NUMA Affinity
GPU0     X      NV4     SYS     SYS     PHB     0-31            0
GPU1    NV4      X      SYS     SYS     PIX     0-31            0
GPU2    SYS     SYS      X      PHB     SYS     32-63           1
GPU3    SYS     SYS     PHB      X      SYS     32-63           1
NIC0    PHB     PIX     SYS     SYS      X"""
NEAR = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")  # from the nearest to the farthest

LINK = """\
LnkCap: Port #0, Speed 32GT/s, Width x16
LnkSta: Speed 16GT/s (downgraded), Width x8 (downgraded)"""

WEIGHTS, PINNED_GB_PER_S, PAGEABLE_GB_PER_S = 8.03e9, 50.0, 10.0


def _copies(answer: Any) -> str:
    pinned, pageable = (float(value) for value in answer)
    num_bytes = 2 * WEIGHTS
    right = num_bytes / PINNED_GB_PER_S / 1e9, num_bytes / PAGEABLE_GB_PER_S / 1e9
    if near(pinned, right[0] / 2, 0.02):
        return "A weight in bf16 has two bytes."
    fine = near(pinned, right[0], 0.02) and near(pageable, right[1], 0.02)
    return "" if fine else "Bytes over bytes per second; 1 GB is 1e9 bytes."


def parsed_topology(text: str = TOPOLOGY) -> tuple[dict[tuple[str, str], str], dict[str, int]]:
    """nvidia-smi's table -> ({(row, column): how they are connected}, {GPU: its NUMA node})."""
    header, *lines = (line.split() for line in text.splitlines())
    names = [name for name in header if re.fullmatch(r"(GPU|NIC)\d+", name)]
    links = {(line[0], name): how for line in lines for name, how in zip(names, line[1:], strict=False)}
    return links, {line[0]: int(line[-1]) for line in lines if line[0].startswith("GPU")}


def _distance(how: str) -> int:
    return next(place for place, kind in enumerate(NEAR) if how.startswith(kind))


def _topology(answer: Any) -> str:
    links, numa = parsed_topology()
    gpus = sorted(numa)
    pair, nearest, node = answer
    pairs = [(a, b) for a in gpus for b in gpus if a < b]
    best = min(pairs, key=lambda two: _distance(links[two]))
    if {f"GPU{number}" for number in pair} != set(best):
        return "The pair is not right: NV and a number means NVLink, everything else is PCIe or farther."
    if f"GPU{nearest}" != min(gpus, key=lambda gpu: _distance(links["NIC0", gpu])):
        return "The pair is right, the GPU for the network card is not. Of PIX, PHB and SYS, which is the shortest way?"
    return "" if node == numa["GPU3"] else "Only the NUMA node is not right: it is in the last column."


def link_gb_per_s(line: str) -> float:
    """One direction of a PCIe link of generation 3 to 5, after its 128b/130b coding, from a line of lspci."""
    transfers, lanes = re.search(r"Speed (\d+)GT/s.*?Width x(\d+)", line).groups()
    return float(transfers) * int(lanes) / 8 * 128 / 130


def _link(answer: Any) -> str:
    now, most = (float(value) for value in answer)
    capable, state = map(link_gb_per_s, LINK.splitlines())
    if near(now, 8 * state, 0.03) or near(most, 8 * capable, 0.03):
        return "Those are gigabits. 32 GT/s are 32 Gbit/s on each lane."
    if near(now, capable, 0.03) and near(most, state, 0.03):
        return "The other way round: LnkCap is what the slot can do, LnkSta what was agreed on."
    fine = near(now, state, 0.03) and near(most, capable, 0.03)
    return "" if fine else "Transfers per second and lane, times lanes, over 8 bits."


_PINNED = "PyTorch documentation, CUDA semantics, Use pinned memory buffers; PyTorch tutorial on non_blocking and pin_memory()"
QUESTIONS = {
    "copies": Question("(seconds, seconds)", _copies, _PINNED),
    "topology": Question("((GPU, GPU), GPU, NUMA node), all as numbers", _topology,
                         "the legend below your own `nvidia-smi topo -m`; `man nvidia-smi`, topo"),
    "link": Question("(GB/s now, GB/s at most)", _link, "`man lspci`, -vv; Wikipedia, PCI Express, table of link performance"),
}  # fmt: skip
