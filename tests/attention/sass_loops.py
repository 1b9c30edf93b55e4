"""A kernel's machine code, and its loops as strings of events: what stands between two turns of a loop, and in which order.

Events   H a wgmma, W0 and W1 waits for all but 0 or 1 groups of them, x an exponential, m a maximum, * a product, + a sum,
         f an FMA, c a conversion to 16 bits, s a shuffle, B<n> a barrier of a block,
         . anything else, but nothing for what runs on the uniform path
"""

import re

from course_lib.interpreter.compiled import Launch
from course_lib.interpreter.compiled.child import Outcome, run_jobs
from course_lib.interpreter.compiled.proof import _prepare, triton_version

_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,5})\*/\s+(.*?);", re.MULTILINE)
_EVENTS = {"HGMMA": "H", "MUFU": "x", "FMNMX": "m", "FMUL": "*", "FADD": "+", "FFMA": "f", "F2FP": "c", "SHFL": "s"}


def compiled(launches: list[Launch], triton_folder: str = "") -> list[Outcome]:
    """Facts and texts ("sass", "ptx") of each launch for sm_90, compiled by two processes."""
    prepared = [_prepare(launch, triton_version(triton_folder), True) for launch in launches]
    kernels = [(one.source.text, one.source.name) for one in prepared]
    jobs = [
        {"kernel": i, "backend": "cuda", "arch": 90, "warp_size": 32, "arguments": one.arguments, "options": one.options,
         "disassemble": True}
        for i, one in enumerate(prepared)
    ]  # fmt: skip
    outcomes = run_jobs(kernels, jobs, processes=2, triton_folder=str(triton_folder))
    for outcome in outcomes:
        assert outcome.facts["compiles"], outcome.facts["message"]
    return outcomes


def loops(sass: str, products: int) -> list[list[str]]:
    """The instructions of each innermost loop that holds so many wgmmas."""
    lines = [(int(address, 16), text) for address, text in _LINE.findall(sass)]
    found = []
    for address, text in lines:
        target = re.search(r"\bBRA.*?(0x[0-9a-f]+)", text)
        if target and (start := int(target.group(1), 16)) < address:
            body = [text for place, text in lines if start <= place <= address]
            inner = [text for text in body[:-1] if re.search(r"\bBRA\b", text) and "0x" in text]
            if sum("HGMMA" in text for text in body) == products and len(inner) <= 1:  # one: a wait that goes on elsewhere
                found.append(body)
    return found


def events(body: list[str]) -> list[str]:
    made = []
    for text in body:
        operation, *rest = re.sub(r"^@!?U?P\w+\s+", "", text).split(maxsplit=1)
        opcode = operation.split(".")[0]
        operands = "".join(rest)
        if opcode == "WARPGROUP" and "DEPBAR" in operation:
            made.append("W" + str(int(operands.split(",")[-1], 16)))
        elif opcode == "BAR":
            made.append("B" + str(int(operands.split(",")[0], 16)))
        elif not opcode.startswith("U"):
            made.append(_EVENTS.get(opcode, "."))
    return made
