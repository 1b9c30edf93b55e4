"""What a compiled kernel's assembly says: tensor cores, TMA, widths of accesses, spills. Pure functions of text."""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

_SASS_LINE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)(.*?);", re.MULTILINE)
_SASS_NARROW = {"U8": 8, "S8": 8, "U16": 16, "S16": 16}
_SASS_WIDE = {"64": 64, "128": 128, "256": 256}
_PTX_ACCESS = re.compile(r"\b(ld|st)\.(?:[\w:]+\.)*?global((?:\.[\w:]+)*)\.[a-z]+(\d+)\b")
_PTX_ASYNC = re.compile(r"\bcp\.async\.c[ag]\.shared\.global\S*\s*\[[^]]*\]\s*,\s*\[[^]]*\]\s*,\s*(0x[0-9a-f]+|\d+)")
_PTX_MMA = re.compile(r"\b(wgmma\.mma_async|tcgen05\.mma|mma)\.(?:sync|cta|sp|kind|aligned)[\w.:]*")
_AMD_ACCESS = re.compile(r"\b(?:global|buffer|flat)_(load|store)_(?:lds_)?(\w+)")
_AMD_BITS = {"dwordx4": 128, "dwordx3": 96, "dwordx2": 64, "dword": 32}
_PTXAS_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_PTXAS_REGISTERS = re.compile(r"Used (\d+) registers")
_PTXAS_REMARK = re.compile(r"ptxas (?:info|warning)\s*: \(C\d+\) (.+)")


@dataclass(slots=True)
class Accesses:
    """The widest access seen in each direction, in bits."""

    load: int = 0
    store: int = 0

    def see(self, direction: str, bits: int) -> None:
        setattr(self, direction, max(getattr(self, direction), bits))


def read_sass(sass: str) -> dict[str, Any]:
    """Facts of the output of `cuobjdump -sass`, as fields of TargetReport."""
    cores, widest, tma, local_stores = Counter(), Accesses(), False, 0
    for operation, _ in _SASS_LINE.findall(sass):
        opcode, *modifiers = operation.split(".")
        if opcode.endswith("MMA"):
            cores[opcode] += 1
        elif opcode in ("LDG", "LDGSTS"):
            widest.see("load", _sass_bits(modifiers))
        elif opcode == "STG":
            widest.see("store", _sass_bits(modifiers))
        elif opcode.startswith(("UTMALDG", "UTMASTG", "UTMAREDG")):
            tma = True
        elif opcode == "STL":
            local_stores += _sass_bits(modifiers) // 32 or 1
    found = _facts(cores, widest, tma, "sass")
    return found | {"spills": local_stores}


def _sass_bits(modifiers: list[str]) -> int:
    known = [{**_SASS_NARROW, **_SASS_WIDE}.get(modifier, 0) for modifier in modifiers]
    return max(known, default=0) or 32


def read_ptx(ptx: str) -> dict[str, Any]:
    """The same facts from PTX, where the disassembler is missing; spills are not in it."""
    cores = Counter(kind.replace("wgmma.mma_async", "wgmma").replace("tcgen05.mma", "tcgen05") for kind in _PTX_MMA.findall(ptx))
    widest = Accesses()
    for direction, modifiers, bits in _PTX_ACCESS.findall(ptx):
        lanes = re.search(r"\.v(\d)", modifiers)
        widest.see("load" if direction == "ld" else "store", int(bits) * (int(lanes.group(1)) if lanes else 1))
    for size in _PTX_ASYNC.findall(ptx):
        widest.see("load", 8 * int(size, 0))
    return _facts(cores, widest, "cp.async.bulk.tensor" in ptx, "ptx")


def read_ptxas(log: str) -> dict[str, Any]:
    """What ptxas reports with -v: registers and stack of the largest function, spilled registers of all, and its remarks."""
    spills, registers = _PTXAS_SPILL.findall(log), _PTXAS_REGISTERS.findall(log)
    found: dict[str, Any] = {"notes": tuple(dict.fromkeys(_PTXAS_REMARK.findall(log)))}
    if registers:
        found["registers"] = max(map(int, registers))
    if spills:
        found["stack_bytes"] = max(int(stack) for stack, _, _ in spills)
        found["spills"] = sum(max(int(stores), int(loads)) // 4 for _, stores, loads in spills)
    return found


def read_amdgcn(assembly: str) -> dict[str, Any]:
    """Facts of AMD assembly; spills and registers stand in its metadata, one number for each kernel."""
    cores = Counter({"MFMA": len(re.findall(r"\bv_s?mfmac?_", assembly))})
    widest = Accesses()
    for direction, size in _AMD_ACCESS.findall(assembly):
        byte, half = "byte" in size or "8" in size, "short" in size or "16" in size
        widest.see(direction, _AMD_BITS.get(size, 8 if byte else 16 if half else 32))
    metadata = {name: int(value) for name, value in re.findall(r"\.(\w+):\s+(\d+)$", assembly, re.MULTILINE)}
    return _facts(+cores, widest, False, "amdgcn") | {
        "registers": metadata.get("vgpr_count"),
        "spills": metadata.get("vgpr_spill_count", 0) + metadata.get("sgpr_spill_count", 0),
        "stack_bytes": metadata.get("private_segment_fixed_size"),
    }


def _facts(cores: Counter, widest: Accesses, tma: bool, source: str) -> dict[str, Any]:
    return {
        "tensor_cores": dict(cores),
        "tma": tma,
        "widest_load_bits": widest.load,
        "widest_store_bits": widest.store,
        "read_from": source,
    }
