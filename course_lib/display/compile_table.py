"""What the compiler made of a kernel, a row for each target, and sentences for what keeps it from running or running well."""

from ..interpreter.compiled.report import CompileReport, TargetReport
from ..interpreter.compiled.targets import TARGETS
from .ledger_cells import WASTE, WRONG, Cells, Column

WORDS = (
    "registers and accesses: of one thread; shared memory: bytes of one block, and what the target gives a block at most; "
    "spills: not asked of sm_75, where a matrix product always has some"
)
_COLUMNS = (
    Column("target", text=True),
    Column("seen in", text=True),
    Column("compiles", text=True),
    Column("shared memory"),
    Column("registers"),
    Column("spills"),
    Column("tensor cores", text=True),
    Column("TMA", text=True),
    Column("widest load"),
    Column("store"),
)
_COMPILES, _SHARED, _SPILLS = 2, 3, 5  # places in _COLUMNS


def compile_cells(report: CompileReport) -> Cells:
    """Red: does not compile, or needs more shared memory than there is. Amber: spills."""
    cells = Cells(_COLUMNS)
    for one in report.targets:
        cells.rows.append(_row(one))
        if not one.compiles:
            cells.mark(_COMPILES, WRONG)
        elif not one.fits:
            cells.mark(_SHARED, WRONG)
        elif one.spills:
            cells.mark(_SPILLS, WASTE)
    return cells


def compile_remarks(report: CompileReport) -> list[str]:
    """Why a target has no code, or code that cannot be launched; then what the compiler remarked, each remark once."""
    said = []
    for one in report.targets:
        if not one.compiles:
            where = f" (line {one.where[1]})" if one.where else ""
            said.append(f"{one.target} does not compile{where}: {one.why_not}")
        elif not one.fits:
            said.append(
                f"{one.target} compiles, and cannot be launched: a block needs {one.shared_bytes:,} B of shared memory "
                f"and can have {one.shared_limit_bytes:,} B. Smaller blocks or a smaller num_stages need less."
            )
        elif one.read_from == "ptx":
            said.append(f"{one.target}: read from PTX, so what the assembler did with it is not seen")
    remarks: dict[str, list[str]] = {}
    for one in report.targets:
        for note in one.notes:
            remarks.setdefault(note, []).append(one.target)
    said += [f"{', '.join(targets)}: {note}" for note, targets in remarks.items()]
    return [*report.remarks, *said]


def _row(one: TargetReport) -> list[str]:
    seen_in = TARGETS[one.target].seen_in if one.target in TARGETS else ""
    if not one.compiles:
        return [one.target, seen_in, "✗ no", *[""] * 7]
    cores = ", ".join(f"{name} x{count}" for name, count in one.tensor_cores.items())
    return [
        one.target,
        seen_in,
        "✓ yes",
        f"{one.shared_bytes:,} of {one.shared_limit_bytes:,}",
        "" if one.registers is None else f"{one.registers}",
        "not asked" if one.spills is None else f"{one.spills}",
        cores or "none",
        "yes" if one.tma else "no",
        _bits(one.widest_load_bits),
        _bits(one.widest_store_bits),
    ]


def _bits(bits: int) -> str:
    return f"{bits} bit" if bits else "none"
