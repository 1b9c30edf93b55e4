"""The ledger of a launch as two tables, by argument and by source line, and of several launches as one."""

from collections.abc import Sequence

from ..interpreter.counts.books import LaunchLedger, SourceLine, Traffic
from ..interpreter.trace import TracedLaunch
from .ledger_cells import WASTE, Cells, Column
from .ledger_findings import Finding
from .ledger_numbers import bytes_text, count_text, intensity_text, shape_text, share_text, shortened, times_text

_TRAFFIC = tuple(map(Column, ("loaded", "stored", "atomic", "distinct", "reads", "sectors", "used")))
WORDS = (
    "distinct: bytes at different addresses, the least that any cache could leave; reads: loads of each distinct byte; "
    "sectors: pieces of 32 bytes, added up over accesses; used: share of the sectors' bytes that was asked for; "
    "FLOPs: of whole blocks, masked lanes and padding included"
)
_READS, _USED = 4, 6  # places in _TRAFFIC
_LOUD = {"re-reads": _READS, "coalescing": _USED, "stores": 1}


def _traffic(traffic: Traffic) -> list[str]:
    """The cells of _TRAFFIC; what is zero stays empty."""
    sectors = traffic.sectors_loaded + traffic.sectors_stored
    return [
        *(bytes_text(count) if count else "" for count in (traffic.loaded_bytes, traffic.stored_bytes, traffic.atomic_bytes)),
        bytes_text(traffic.distinct_bytes) if traffic.distinct_bytes else "",
        times_text(traffic.rereads),
        count_text(sectors) if sectors else "",
        share_text(traffic.coalescing),
    ]


def argument_cells(launch: TracedLaunch, found: Sequence[Finding] = ()) -> Cells:
    """One row for each tensor of the launch, those that nobody touched too, and their sum."""
    ledger = launch.ledger
    cells = Cells((Column("argument", text=True, code=True, most=18), Column("tensor", text=True, most=40), *_TRAFFIC))
    for name in [*launch.tensors, *(name for name in ledger.arguments if name not in launch.tensors)]:
        tensor = launch.tensors.get(name) or ledger.touched.get(name)
        what = shape_text(tensor.shape, tensor.dtype) if tensor is not None else ""
        if name not in ledger.arguments:
            cells.rows.append([name, f"{what}, not touched", *[""] * len(_TRAFFIC)])
            continue
        cells.rows.append([name, what, *_traffic(ledger.arguments[name])])
        for finding in found:
            if finding.argument == name and finding.kind in _LOUD:
                cells.mark(2 + _LOUD[finding.kind], WASTE)
    if len(ledger.arguments) > 1:
        cells.rows.append(["all", "", *_traffic(ledger.total)])
    return cells


def line_cells(ledger: LaunchLedger, found: Sequence[Finding] = ()) -> Cells:
    """One row for each argument that a source line touches, and for each line with a tl.dot."""
    columns = (Column("line"), Column("argument", text=True, code=True, most=14), *_TRAFFIC, Column("FLOPs"))
    cells = Cells((*columns, Column("source", text=True, code=True)))
    rows: list[tuple[SourceLine, str, Traffic | None]] = [(line, name, t) for (name, line), t in ledger.sites.items()]
    touching = {line for line, _, _ in rows}
    rows += [(line, "", None) for line in ledger.dot_lines if line not in touching]
    rows.sort(key=lambda row: (row[0].file, row[0].number))
    told: set[SourceLine] = set()
    for line, name, traffic in rows:
        flops = count_text(ledger.dot_lines[line]) if line in ledger.dot_lines and line not in told else ""
        numbers = _traffic(traffic) if traffic is not None else [""] * len(_TRAFFIC)
        cells.rows.append([str(line.number), name, *numbers, flops, shortened(line.text, 88)])
        told.add(line)
        for finding in found:
            if line in finding.lines and finding.argument == name and finding.kind in _LOUD:
                cells.mark(2 + _LOUD[finding.kind], WASTE)
    return cells


def launch_cells(launches: Sequence[TracedLaunch]) -> Cells:
    """One row for each launch of a host function, and their sum (distinct bytes are those of each launch, added)."""
    columns = ("programs", "loaded", "stored", "atomic", "distinct", "reads", "sectors", "used", "FLOPs", "FLOP/B")
    cells = Cells((Column("launch"), Column("kernel", text=True, code=True, most=24), *map(Column, columns)))
    total, flops = Traffic(), 0
    for number, launch in enumerate(launches, 1):
        ledger = launch.ledger
        numbers = _traffic(ledger.total)
        last = [count_text(ledger.flops), intensity_text(ledger.requested_intensity)] if ledger.flops else ["", ""]
        cells.rows.append([str(number), ledger.kernel, count_text(ledger.programs), *numbers, *last])
        total += ledger.total
        flops += ledger.flops
    cells.rows.append(["all", "", "", *_traffic(total), count_text(flops) if flops else "", ""])
    return cells


def summary(ledger: LaunchLedger) -> str:
    """Two sentences: what was launched, and what it asks for."""
    sizes = ledger.grid if ledger.grid[2] > 1 else ledger.grid[:2] if ledger.grid[1] > 1 else ledger.grid[:1]
    config = f", configuration {ledger.config}" if ledger.config else ""
    dots = ", ".join(f"{count_text(count)} FLOP in {kind} products" for kind, count in ledger.dot_flops.items())
    work = [dots] if dots else []
    work += [f"{count_text(ledger.elementwise_flops)} elementwise FLOP"] if ledger.elementwise_flops else []
    work += [f"{count_text(count)} {name}" for name, count in ledger.special_calls.items()]
    programs = f"{ledger.programs:,} program{'s' * (ledger.programs != 1)}"
    return (
        f"{ledger.kernel}, grid ({', '.join(map(str, sizes))}): {programs}{config}. "
        f"Requested: {bytes_text(ledger.total.bytes)}, of which {bytes_text(ledger.total.distinct_bytes)} distinct; "
        f"{'; '.join(work) or 'no arithmetic on floats'}."
    )
